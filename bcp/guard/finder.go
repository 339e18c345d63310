package guard

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(c byte) { s[c>>6] |= 1 << (c & 63) }

func (s *byteSet) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

// parseByteSet returns the set of the bytes of chars, in which "a-z" is a range; a hyphen that stands first or last is itself.
func parseByteSet(chars string) byteSet {
	var s byteSet
	for i := 0; i < len(chars); i++ {
		if i+2 < len(chars) && chars[i+1] == '-' {
			for c := int(chars[i]); c <= int(chars[i+2]); c++ {
				s.add(byte(c))
			}
			i += 2
			continue
		}
		s.add(chars[i])
	}
	return s
}

func (s byteSet) complement() byteSet { return byteSet{^s[0], ^s[1], ^s[2], ^s[3]} }

// members returns the bytes of the set, and how much of a text they are, roughly.
func (s byteSet) members() (members []byte, share int) {
	for c := range 256 {
		if s.has(byte(c)) {
			members = append(members, byte(c))
			if share++; strings.IndexByte(" etaoinsrhld", byte(c)) >= 0 {
				share += 9
			}
		}
	}
	return members, share
}

// parseAnchor returns the sequence of byte sets of a pattern: letters and classes such as [a-z] or [^a-z]. Behind (?i) a
// letter is one in either case.
func parseAnchor(pattern string) (sets []byteSet) {
	for folded := false; pattern != ""; {
		if rest, ok := strings.CutPrefix(pattern, "(?i)"); ok {
			folded, pattern = true, rest
			continue
		}
		set := parseByteSet(pattern[:1])
		if c := pattern[0]; folded && c|0x20-'a' <= 25 {
			set.add(c ^ 0x20)
		}
		rest := pattern[1:]
		if pattern[0] == '[' {
			var class string
			class, rest, _ = strings.Cut(rest, "]")
			chars, not := strings.CutPrefix(class, "^")
			if set = parseByteSet(chars); not {
				set = set.complement()
			}
		}
		sets, pattern = append(sets, set), rest
	}
	return sets
}

// anchor is a pattern that finds where a rule has to look: a sequence of byte sets.
type anchor struct {
	rule int
	sets []byteSet
}

// hit is where an anchor of a rule ends.
type hit struct{ rule, end int }

// finder finds anchors by two neighbouring bytes of each: nearly all places of a text have none of these pairs.
type finder struct {
	anchors []anchor
	pairs   [1 << 16]uint16 // the number of a list; 0: no anchor has the pair
	lists   [][]sought
}

// sought is an anchor whose pair was found, and how many bytes after its first one the second of the pair is.
type sought struct{ anchor, at int }

// newFinder chooses, for each anchor, the pair that the fewest texts have by chance.
func newFinder(anchors []anchor) *finder {
	byPair := map[uint16][]sought{}
	for n, a := range anchors {
		best, least := 0, math.MaxInt
		for i := range len(a.sets) - 1 {
			_, first := a.sets[i].members()
			if _, second := a.sets[i+1].members(); first*second < least {
				best, least = i, first*second
			}
		}
		firsts, _ := a.sets[best].members()
		seconds, _ := a.sets[best+1].members()
		for _, first := range firsts {
			for _, second := range seconds {
				pair := uint16(first)<<8 | uint16(second)
				byPair[pair] = append(byPair[pair], sought{n, best + 1})
			}
		}
	}
	f := &finder{anchors: anchors, lists: make([][]sought, 1, len(byPair)+1)}
	for pair, list := range byPair {
		f.pairs[pair] = uint16(len(f.lists))
		f.lists = append(f.lists, list)
	}
	return f
}

// find appends the hits in text from a place on, those of the first rule first, each rule's in the order of their ends.
// What is before that place counts as a line break.
func find[T string | []byte](f *finder, text T, from int, hits []hit) []hit {
	last := byte('\n')
	for i := from; i < len(text); i++ {
		if n := f.pairs[uint16(last)<<8|uint16(text[i])]; n != 0 {
			for _, s := range f.lists[n] {
				if a := &f.anchors[s.anchor]; begins(a, text, from, i-s.at) {
					hits = append(hits, hit{a.rule, i - s.at + len(a.sets)})
				}
			}
		}
		last = text[i]
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.end, b.end)) })
	return hits
}

// begins reports whether an anchor is at a place of text, or one byte before it.
func begins[T string | []byte](a *anchor, text T, from, at int) bool {
	if at < from-1 || at+len(a.sets) > len(text) || at < from && !a.sets[0].has('\n') {
		return false
	}
	for i := max(0, from-at); i < len(a.sets); i++ {
		if !a.sets[i].has(text[at+i]) {
			return false
		}
	}
	return true
}
