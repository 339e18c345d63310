package guard

import "slices"

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

func (s byteSet) union(t byteSet) byteSet {
	return byteSet{s[0] | t[0], s[1] | t[1], s[2] | t[2], s[3] | t[3]}
}

func (s byteSet) complement() byteSet { return byteSet{^s[0], ^s[1], ^s[2], ^s[3]} }

// anchor is a pattern that finds where a rule has to look: a sequence of byte sets.
type anchor struct {
	id   anchorID
	sets []byteSet
}

// automaton is a deterministic automaton that finds all anchors in one pass.
type automaton struct {
	next    []uint16     // 256 for each state: the next one
	found   [][]anchorID // by state: the anchors that end
	quiet   uint16       // the states below it find nothing
	root    uint16       // the state before any byte
	start   uint16       // the state at the beginning of a text, as after a line break
	longest int          // bytes of the longest anchor
}

// newAutomaton builds the automaton of anchors by the subset construction. The places in all anchors are numbered one after
// the other; a state is the set of places that the last bytes lead to.
func newAutomaton(anchors []anchor) *automaton {
	b := automatonBuilder{numbers: map[string]int{}, ends: map[uint16]anchorID{}}
	longest := 0
	var sets []byteSet // for each place: what leads from it to the next one
	var first []uint16 // the places at which an anchor begins
	for _, p := range anchors {
		first = append(first, uint16(len(sets)))
		sets = append(append(sets, p.sets...), byteSet{})
		b.ends[uint16(len(sets)-1)] = p.id
		longest = max(longest, len(p.sets))
	}
	classes, members := byteClasses(sets)
	b.classes = make([][]uint8, len(sets))
	for place := range sets {
		for class, c := range members {
			if sets[place].has(c) {
				b.classes[place] = append(b.classes[place], uint8(class))
			}
		}
	}
	// What a byte leads to at the beginning, it leads to everywhere: an anchor may begin at any byte.
	b.root = make([][]uint16, len(members))
	for _, place := range first {
		for _, class := range b.classes[place] {
			b.root[class] = append(b.root[class], place+1)
		}
	}
	start := b.number(nil)
	for n := 0; n < len(b.states); n++ {
		b.expand(n)
	}
	return b.automaton(start, classes, longest)
}

// automatonBuilder holds the states as they are found.
type automatonBuilder struct {
	classes [][]uint8           // of the bytes that lead from a place to the next one
	root    [][]uint16          // by class: the places that a byte leads to from anywhere
	ends    map[uint16]anchorID // the places at which an anchor ends
	states  []automatonState
	numbers map[string]int
}

type automatonState struct {
	places []uint16
	next   []int // by class
	found  []anchorID
}

// number returns the number of the state with these places, in any order.
func (b *automatonBuilder) number(places []uint16) int {
	slices.Sort(places)
	places = slices.Compact(places)
	key := make([]byte, 0, 2*len(places))
	for _, p := range places {
		key = append(key, byte(p>>8), byte(p))
	}
	n, ok := b.numbers[string(key)]
	if !ok {
		n = len(b.states)
		b.numbers[string(key)] = n
		s := automatonState{places: places}
		for _, p := range places {
			if id, ok := b.ends[p]; ok {
				s.found = append(s.found, id)
			}
		}
		b.states = append(b.states, s)
	}
	return n
}

// expand finds what each class of bytes leads to from a state.
func (b *automatonBuilder) expand(n int) {
	more := make([][]uint16, len(b.root))
	for _, place := range b.states[n].places {
		for _, class := range b.classes[place] {
			more[class] = append(more[class], place+1)
		}
	}
	next := make([]int, len(b.root))
	for class := range next {
		if n > 0 && more[class] == nil {
			next[class] = b.states[0].next[class]
			continue
		}
		next[class] = b.number(append(more[class], b.root[class]...))
	}
	b.states[n].next = next
}

// automaton lays the states out, those that find something last.
func (b *automatonBuilder) automaton(start int, classes [256]uint8, longest int) *automaton {
	a := &automaton{longest: longest, next: make([]uint16, 256*len(b.states)), found: make([][]anchorID, len(b.states))}
	row := make([]uint16, len(b.states))
	n := uint16(0)
	for _, finds := range []bool{false, true} {
		for i, s := range b.states {
			if (s.found != nil) == finds {
				row[i] = n
				n++
			}
		}
		if !finds {
			a.quiet = n
		}
	}
	for i, s := range b.states {
		a.found[row[i]] = s.found
		for c := range 256 {
			a.next[int(row[i])<<8|c] = row[s.next[classes[c]]]
		}
	}
	a.root = row[start]
	a.start = a.next[int(a.root)<<8|'\n']
	return a
}

// byteClasses groups the bytes that no set tells apart, and returns the class of each byte and one byte of each class.
func byteClasses(sets []byteSet) (classes [256]uint8, members []byte) {
	seen := map[string]uint8{}
	for c := range 256 {
		signature := make([]byte, (len(sets)+7)/8)
		for i := range sets {
			if sets[i].has(byte(c)) {
				signature[i/8] |= 1 << (i % 8)
			}
		}
		class, ok := seen[string(signature)]
		if !ok {
			class = uint8(len(members))
			seen[string(signature)] = class
			members = append(members, byte(c))
		}
		classes[c] = class
	}
	return classes, members
}
