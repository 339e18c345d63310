package text

import "unicode/utf8"

// view says which reading of the received text a pattern is looked up in.
type view uint8

const (
	viewText    view = 1 // lower case, white space folded; no letter or digit may continue the pattern's own
	viewLine    view = 2 // the same, at the start of a line or sentence only
	viewCompact view = 3 // lower case, white space removed
)

type pattern struct {
	text string
	view view
	code Set
}

// automaton is an Aho-Corasick automaton over bytes, as one table.
type automaton struct {
	columns  [256]uint8 // column of a byte; 0 for bytes of no pattern
	width    int
	next     []uint16 // state*width + column
	found    [][]uint16
	codes    []Set // of the patterns found in a state
	patterns []pattern
	all      Set
}

// maxStates limits the automaton; states are numbered in 16 bits.
const maxStates = 1 << 14

// newAutomaton builds the automaton, or returns nil when there are too many states.
func newAutomaton(patterns []pattern) *automaton {
	a := &automaton{width: 1, patterns: patterns}
	states := 1
	for _, p := range patterns {
		states += len(p.text)
		a.all |= p.code
		for i := range len(p.text) {
			if b := p.text[i]; a.columns[b] == 0 {
				a.columns[b] = uint8(a.width)
				a.width++
			}
		}
	}
	a.columns['\n'] = a.columns[' ']
	if states > maxStates {
		return nil
	}
	a.next = make([]uint16, a.width, states*a.width)
	a.found = make([][]uint16, 1, states)
	for id, p := range patterns {
		state := 0
		for i := range len(p.text) {
			at := state*a.width + int(a.columns[p.text[i]])
			if a.next[at] == 0 {
				a.next[at] = uint16(len(a.found))
				a.next = append(a.next, make([]uint16, a.width)...)
				a.found = append(a.found, nil)
			}
			state = int(a.next[at])
		}
		a.found[state] = append(a.found[state], uint16(id))
	}
	fail := make([]int, len(a.found))
	a.codes = make([]Set, len(a.found))
	queue := make([]int, 0, len(a.found))
	for c := 1; c < a.width; c++ {
		if to := int(a.next[c]); to != 0 {
			queue = append(queue, to)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		a.found[s] = append(a.found[s], a.found[fail[s]]...)
		for _, id := range a.found[s] {
			a.codes[s] |= patterns[id].code
		}
		for c := 1; c < a.width; c++ {
			to, back := int(a.next[s*a.width+c]), a.next[fail[s]*a.width+c]
			if to == 0 {
				a.next[s*a.width+c] = back
				continue
			}
			fail[to] = int(back)
			queue = append(queue, to)
		}
	}
	return a
}

// match looks up all patterns in a folded text. compact skips white space.
func (a *automaton) match(text []byte, compact bool) Set {
	found, state := Set(0), 0
	for i, b := range text {
		if compact && (b == ' ' || b == '\n') {
			continue
		}
		column := int(a.columns[b])
		if column == 0 {
			state = 0
			continue
		}
		state = int(a.next[state*a.width+column])
		if a.codes[state]&^found == 0 {
			continue
		}
		for _, id := range a.found[state] {
			p := &a.patterns[id]
			if found&p.code == 0 && (compact || p.fits(text, i+1)) {
				found |= p.code
			}
		}
		if found == a.all {
			break
		}
	}
	return found
}

// fits checks the borders of a pattern that ends before end.
func (p *pattern) fits(text []byte, end int) bool {
	begun := end - len(p.text)
	if end < len(text) && wordByte(text[end]) && wordByte(text[end-1]) {
		return false
	}
	if begun > 0 && wordByte(text[begun]) && wordByte(text[begun-1]) {
		return false
	}
	if p.view != viewLine {
		return true
	}
	for begun > 0 && text[begun-1] == ' ' {
		begun--
	}
	if begun == 0 {
		return true
	}
	switch text[begun-1] {
	case '\n', '.', '!', '?', '"', '\'', '`', '*', '>', '<', '#', ']', '[', '|', '}', '{', '-', '_':
		return true
	}
	return false
}

// wordByte says whether a byte of a folded text is a letter or digit.
func wordByte(b byte) bool { return b-'a' < 26 || b-'0' < 10 }

// foldView appends the reading that patterns and shapes work on: ASCII lower-cased, a run of white space as one space
// or line break, what stands for ASCII or looks like a letter of it as ASCII, ideographic full stops as full stops, nothing invisible.
func foldView(dst, src []byte) []byte {
	for i := 0; i < len(src); {
		b := src[i]
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(src[i:])
			dst = foldWide(dst, r, src[i:i+size])
			i += size
			continue
		}
		i++
		switch {
		case b-'A' < 26:
			dst = append(dst, b|0x20)
		case b > ' ' && b < 0x7f:
			dst = append(dst, b)
		case b == ' ':
			if n := len(dst); n > 0 && dst[n-1] != ' ' && dst[n-1] != '\n' {
				dst = append(dst, ' ')
			}
		default:
			dst = foldSpace(dst, asciiClass[b])
		}
	}
	return dst
}

func foldSpace(dst []byte, c class) []byte {
	n := len(dst)
	switch {
	case n == 0 || c != classSpace && c != classLine || dst[n-1] == '\n':
	case dst[n-1] != ' ' && c == classSpace:
		dst = append(dst, ' ')
	case dst[n-1] != ' ':
		dst = append(dst, '\n')
	case c == classLine:
		dst[n-1] = '\n'
	}
	return dst
}

// foldWide appends one code point outside of ASCII, whose encoding is raw.
func foldWide(dst []byte, r rune, raw []byte) []byte {
	e := lookUp(r)
	switch class(e & entryClass) {
	case classStrip, classStretch:
		return dst
	case classSpace, classLine:
		if r == 0x200b {
			return dst
		}
		return foldSpace(dst, class(e&entryClass))
	case classFull:
		return append(dst, '.')
	case classMapped:
		to := mappedTo(e)
		if class(lookUp(to)&entryClass) == classFull {
			to = '.'
		} else if b := latinLook(to, lookUp(to)); b != 0 {
			to = rune(b)
		}
		return utf8.AppendRune(dst, to)
	case classLetter:
		if b := latinLook(r, e); b != 0 {
			return append(dst, b)
		}
	case classExpand:
		for _, to := range expand(e) {
			switch to {
			case capitalMark:
			case 'I': // of a dotted capital
				dst = append(dst, 'i')
			default:
				dst = utf8.AppendRune(dst, to)
			}
		}
		return dst
	}
	return append(dst, raw...)
}
