package guard

import (
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// redactor finds secrets in a text, one line after the other.
type redactor struct {
	set   Set
	text  string // without what is invisible
	gaps  []gap  // where the invisible was
	final bool   // nothing comes after the text
	fixed []atom // placeholders, and what goes over lines; in order, not overlapping. Those of earlier lines are dropped
	hold  int    // nothing from the line of this place on can be decided yet
	found []span

	// Of the line.
	start, end int
	hits       []hit
	runs       []run            // long runs of characters of blobs
	program    int              // where the first word "curl" ends; -1: there is none
	taken      []bool           // the bytes that belong to a finding or a placeholder
	read       map[*byteSet]run // the last long run of each set
}

// gap is a place in the visible text at which invisible bytes were removed.
type gap struct {
	at    int // in the visible text
	total int // bytes removed so far, these included
}

// atom is a span that is known before the rules that work on a line.
type atom struct {
	start, end  int
	kind        string // empty: a placeholder of the text, which stays
	placeholder bool
}

// span is a finding in the visible text.
type span struct {
	start, end int
	kind       string
	certain    bool
}

// findSecrets returns the secrets in a text, and how many bytes of it are decided: if final is not set, more of the text
// comes, and lines that end and hold no beginning of what may go on are.
func findSecrets(text string, set Set, final bool) (findings []Finding, decided int) {
	r := redactor{set: set, text: text, final: final, read: map[*byteSet]run{}}
	if hasInvisible(text) {
		r.strip()
	}
	r.findFixed()
	rules, scanner := allRules()
	at := 0
	for at < len(r.text) {
		end := r.lineEnd(at)
		if !final && (end > r.hold || r.text[end-1] != '\n') {
			break
		}
		r.start, r.end = at, end
		r.hits = find(scanner, r.text[:end], at, r.hits[:0])
		if r.runs = r.runs[:0]; set != Keys {
			r.runs = appendRuns(r.runs, r.text, at, end)
		}
		if len(r.hits) > 0 || len(r.runs) > 0 || len(r.fixed) > 0 && r.fixed[0].start < end {
			r.judge(rules)
		}
		at = end
	}
	for _, s := range r.found {
		findings = append(findings, Finding{Start: r.rawStart(s.start), End: r.rawEnd(s.end), Kind: s.kind, Certain: s.certain})
	}
	if final {
		return findings, len(text)
	}
	return findings, r.rawEnd(at)
}

// strip makes the visible text.
func (r *redactor) strip() {
	var b strings.Builder
	b.Grow(len(r.text))
	total := 0
	for i := 0; i < len(r.text); {
		c, size := utf8.DecodeRuneInString(r.text[i:])
		if invisible(c) {
			total += size
			if n := len(r.gaps); n > 0 && r.gaps[n-1].at == b.Len() {
				r.gaps[n-1].total = total
			} else {
				r.gaps = append(r.gaps, gap{at: b.Len(), total: total})
			}
		} else {
			b.WriteString(r.text[i : i+size])
		}
		i += size
	}
	r.text = b.String()
}

// rawStart returns where in the received text the visible byte at i stands: after what was removed before it.
func (r *redactor) rawStart(i int) int {
	n := sort.Search(len(r.gaps), func(n int) bool { return r.gaps[n].at > i })
	if n == 0 {
		return i
	}
	return i + r.gaps[n-1].total
}

// rawEnd returns where in the received text the visible byte before i ends.
func (r *redactor) rawEnd(i int) int { return r.rawStart(i-1) + 1 }

// lineEnd returns where the line at at ends. A line break inside an atom ends no line.
func (r *redactor) lineEnd(at int) int {
	fixed := r.fixed
	for {
		i := strings.IndexByte(r.text[at:], '\n')
		if i < 0 {
			return len(r.text)
		}
		at += i + 1
		for len(fixed) > 0 && fixed[0].end < at {
			fixed = fixed[1:]
		}
		if len(fixed) == 0 || fixed[0].start >= at {
			return at
		}
		at = fixed[0].end
	}
}

// judge applies the rules, in their order, to the line.
func (r *redactor) judge(rules []rule) {
	r.program = -1
	r.taken = slices.Grow(r.taken[:0], r.end-r.start)[:r.end-r.start]
	clear(r.taken)
	clear(r.read)
	for len(r.fixed) > 0 && r.fixed[0].end <= r.start {
		r.fixed = r.fixed[1:]
	}
	first := len(r.found)
	for _, a := range r.fixed {
		if a.start >= r.end {
			break
		}
		r.take(a.start, a.end)
		if !a.placeholder {
			r.found = append(r.found, span{start: a.start, end: a.end, kind: a.kind, certain: a.kind == kindPEM})
		}
	}
	for _, h := range r.hits {
		if rule := &rules[h.rule]; rule.seed || r.set != Seed {
			rule.look(r, h)
		}
	}
	r.blobs()
	slices.SortFunc(r.found[first:], func(a, b span) int { return a.start - b.start })
}

// isTaken reports whether the byte at i, of the line, belongs to a finding or a placeholder.
func (r *redactor) isTaken(i int) bool { return r.taken[i-r.start] }

// takenRange reports whether a byte of a range is taken.
func (r *redactor) takenRange(start, end int) bool {
	return start < end && slices.Contains(r.taken[start-r.start:end-r.start], true)
}

func (r *redactor) take(start, end int) {
	for i := start; i < end; i++ {
		r.taken[i-r.start] = true
	}
}

// claim takes a span, unless a part of it is taken.
func (r *redactor) claim(s span) bool {
	if s.start < r.start || s.start >= s.end || r.takenRange(s.start, s.end) {
		return false
	}
	r.take(s.start, s.end)
	r.found = append(r.found, s)
	return true
}

// blocked reports whether the byte at i, next to a match, is of the set. It is looked up in the text as it came, where a
// placeholder counts as every character.
func (r *redactor) blocked(i int, set *byteSet) bool {
	return i >= r.start && i < len(r.text) && (r.inPlaceholder(i) || set.has(r.text[i]))
}

// inPlaceholder reports whether a byte belongs to a placeholder of the text.
func (r *redactor) inPlaceholder(i int) bool {
	n := sort.Search(len(r.fixed), func(n int) bool { return r.fixed[n].end > i })
	return n < len(r.fixed) && r.fixed[n].start <= i && r.fixed[n].placeholder
}

// meetsPlaceholder reports whether a placeholder of the text begins at i, where a run ends: for the run it is one more
// character, so that what redaction left of a longer run is not found in it later.
func (r *redactor) meetsPlaceholder(i int) bool { return i < r.end && r.inPlaceholder(i) }

// begins reports whether s is at i.
func (r *redactor) begins(i int, s string) bool {
	return i+len(s) <= r.end && r.text[i:i+len(s)] == s
}

// runEnd returns where the run of bytes of the set ends that begins at i. A run that was read before, from an earlier
// place, is not read again: a token that fails is often full of others.
func (r *redactor) runEnd(i int, set *byteSet) int {
	if known := r.read[set]; known.start <= i && i < known.end {
		return known.end
	}
	end := i
	for end < r.end && set.has(r.text[end]) {
		end++
	}
	if end-i >= minRead {
		r.read[set] = run{i, end}
	}
	return end
}

const minRead = 64 // bytes of a run that is worth remembering

// runStart returns where the run of bytes of the set begins that ends at i, at most most bytes before it; if it is longer,
// most+1 bytes before it.
func (r *redactor) runStart(i, most int, set *byteSet) int {
	from := max(r.start, i-most-1)
	for i > from && set.has(r.text[i-1]) {
		i--
	}
	return i
}

// skipBlanks returns the first place from i on that is no blank.
func (r *redactor) skipBlanks(i int) int {
	for i < r.end && isBlank(r.text[i]) {
		i++
	}
	return i
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isWordByte(c byte) bool { return c|0x20-'a' <= 25 || c-'0' <= 9 }

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// isSpaceAt reports whether white space of Unicode begins at i.
func isSpaceAt(text string, i int) bool {
	if c := text[i]; c < utf8.RuneSelf {
		return isSpaceByte(c)
	}
	c, _ := utf8.DecodeRuneInString(text[i:])
	return unicode.IsSpace(c)
}
