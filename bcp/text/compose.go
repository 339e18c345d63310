package text

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// Conjoining Jamo and the syllables that they compose to.
const (
	jamoLead, jamoLeads   = 0x1100, 19
	jamoVowel, jamoVowels = 0x1161, 21
	jamoTail, jamoTails   = 0x11a7, 28 // the first stands for none
	firstSyllable         = 0xac00
)

// Marks that fold only after the other marks of their letter.
const (
	iotaSubscript = 0x345
	smallIota     = 0x3b9
	dotAbove      = 0x307
	dottedI       = 0x130
	capitalI      = "\uf8ffi" // as expandTable spells it
)

// maxRawMarks refuses long runs of marks as received; some runs of more than MaxMarks compose to fewer.
const maxRawMarks = 8

// slot looks a key up in one of the open hash tables, whose sizes are powers of two; 0 for none.
func slot(table [][2]uint64, key uint64) uint64 {
	last := uint64(len(table) - 1)
	for at := key * 0x9e3779b97f4a7c15 >> (bits.LeadingZeros64(last) & 63); table[at][0] != 0; at = (at + 1) & last {
		if table[at][0] == key {
			return table[at][1]
		}
	}
	return 0
}

// pairKey is the key of two code points, the second after the first.
func pairKey(first, second rune) uint64 { return uint64(first)<<21 | uint64(second) }

// fuse composes a code point of combining class 0 with the one directly before, if they compose.
func (s *scanner) fuse(r rune) bool {
	if !s.behindLetter() {
		return false
	}
	before, size := utf8.DecodeLastRune(s.out)
	var whole rune
	vowel, tail, lead, syllable := r-jamoVowel, r-jamoTail, before-jamoLead, before-firstSyllable
	switch {
	case vowel >= 0 && vowel < jamoVowels:
		if lead >= 0 && lead < jamoLeads {
			whole = firstSyllable + (lead*jamoVowels+vowel)*jamoTails
		}
	case tail > 0 && tail < jamoTails:
		if syllable >= 0 && syllable < jamoLeads*jamoVowels*jamoTails && syllable%jamoTails == 0 {
			whole = before + tail
		}
	default:
		whole = rune(slot(composeTable[:], pairKey(before, r)))
	}
	if whole == 0 {
		return false
	}
	s.out = utf8.AppendRune(s.out[:len(s.out)-size], whole)
	return true
}

// accentOrder is the canonical combining class of a mark that can change places, 0 for everything else.
func accentOrder(r rune, e uint32) uint32 {
	switch {
	case r == iotaSubscript:
		return 240
	case class(e&entryClass) == classMark && e&entryAccent != 0:
		return e >> entryOrder
	}
	return 0
}

// run is a run of marks that can change places: marks[from:to], with room before it for those that a letter is taken apart into.
type run struct {
	marks    [2*maxRawMarks + 1]rune
	from, to int
	iotas    int // iota subscripts, which are not among marks
}

// add notes a mark. It fails if there are too many.
func (m *run) add(r rune) bool {
	if m.to-maxRawMarks+m.iotas == maxRawMarks {
		return false
	}
	if r == iotaSubscript {
		m.iotas++
	} else {
		m.marks[m.to] = r
		m.to++
	}
	return true
}

// read adds the marks that src[at:] begins with and returns their length. What is invisible between them is skipped.
func (s *scanner) read(m *run, src []byte, at int) (int, error) {
	i := at
	for i < len(src) {
		r, size := utf8.DecodeRune(src[i:])
		e := lookUp(r)
		switch c := class(e & entryClass); {
		case c == classStrip, c == classStretch:
		case accentOrder(r, e) != 0 && c == classMark:
			if !m.add(r) {
				return 0, ErrMarks
			}
		case c == classExpand:
			for _, to := range expand(e) {
				if accentOrder(to, lookUp(to)) == 0 {
					return i - at, nil // it begins with no mark, since marks come last
				}
				if !m.add(to) {
					return 0, ErrMarks
				}
			}
			if s.extra -= int(e >> entryExtra); s.extra < 0 {
				return 0, ErrSpelling
			}
		default:
			return i - at, nil
		}
		i += size
	}
	return i - at, nil
}

// accents takes a run of marks that can change places: first and more, which stand for what is read before src[at:], and
// those that src[at:] begins with, and returns the length of these. Behind a letter or mark it brings them to canonical
// order and composition as NFC does; anywhere else they separate. An iota subscript becomes a letter after them.
func (s *scanner) accents(first rune, more string, src []byte, at int) (int, error) {
	m := run{from: maxRawMarks, to: maxRawMarks}
	m.add(first)
	for _, r := range more {
		m.add(r)
	}
	read, err := s.read(&m, src, at)
	if err != nil {
		return 0, err
	}
	if m.from < m.to {
		if err := s.place(&m, src[:at]); err != nil {
			return 0, err
		}
	}
	for range m.iotas {
		if err := s.wide(smallIota, lookUp(smallIota)); err != nil {
			return 0, err
		}
	}
	return read, nil
}

// place writes the marks of a run. received is the text up to them.
func (s *scanner) place(m *run, received []byte) error {
	kept := m.marks[m.from:m.to]
	if s.behindLetter() {
		letter, size := utf8.DecodeLastRune(s.out)
		base := len(s.out) - size
		least := uint32(0xff)
		for _, r := range kept {
			least = min(least, lookUp(r)>>entryOrder)
		}
		for letter >= utf8.RuneSelf && m.from > 0 {
			parts := slot(partsTable[:], uint64(letter))
			own := rune(parts & (1<<21 - 1))
			if parts == 0 || lookUp(own)>>entryOrder <= least { // none of the marks goes before its own
				break
			}
			m.from--
			m.marks[m.from] = own
			letter = rune(parts >> 21)
		}
		if letter, kept = m.compose(letter, received); letter >= s.limit && entryScriptNumber(lookUp(letter)) != s.own {
			return ErrAlphabet
		}
		s.out = utf8.AppendRune(s.out[:base], letter)
	}
	for _, r := range kept {
		if err := s.accentuate(r, entryScriptNumber(lookUp(r))); err != nil {
			return err
		}
	}
	return nil
}

// compose puts the marks in order and composes what it can with a letter or mark before them. The dot of a dotted i
// goes.
func (m *run) compose(letter rune, received []byte) (rune, []rune) {
	marks := m.marks[m.from:m.to]
	slices.SortStableFunc(marks, func(a, b rune) int { return cmp.Compare(lookUp(a)>>entryOrder, lookUp(b)>>entryOrder) })
	kept, last, dotted := 0, uint32(0), false
	for _, r := range marks {
		order := lookUp(r) >> entryOrder
		if order > last || kept == 0 {
			if letter == 'i' && r == dotAbove && (kept == 0 || !dotted && wasCapital(received)) {
				dotted = true
				continue
			}
			if whole := slot(composeTable[:], pairKey(letter, r)); whole != 0 {
				letter = rune(whole)
				continue
			}
		}
		last = order
		marks[kept] = r
		kept++
	}
	return letter, marks[:kept]
}

// wasCapital says whether the last letter of a received text, an i, was a capital: only with that the dot composes over
// marks of other classes.
func wasCapital(received []byte) bool {
	for len(received) > 0 {
		r, size := utf8.DecodeLastRune(received)
		received = received[:len(received)-size]
		e := lookUp(r)
		switch c := class(e & entryClass); {
		case r < utf8.RuneSelf:
			return r == 'I'
		case c == classStrip, c == classStretch, accentOrder(r, e) != 0:
		case c == classMapped:
			return e&entryCapital != 0
		case c == classExpand:
			spelled := expand(e)
			if first, _ := utf8.DecodeRuneInString(spelled); accentOrder(first, lookUp(first)) == 0 {
				return r == dottedI || strings.HasSuffix(spelled, capitalI)
			}
		default:
			return false
		}
	}
	return false
}
