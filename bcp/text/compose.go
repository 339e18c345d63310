package text

import "unicode/utf8"

// tableSlots is the size of composeTable and partsTable.
const tableSlots = 2048

// slot looks a key up in one of the open hash tables; 0 for none.
func slot(table *[tableSlots][2]uint64, key uint64) uint64 {
	for at := key * 0x9e3779b97f4a7c15 >> 53; table[at][0] != 0; at = (at + 1) % tableSlots {
		if table[at][0] == key {
			return table[at][1]
		}
	}
	return 0
}

// pairKey is the key of a letter with a mark.
func pairKey(letter, mark rune) uint64 { return uint64(letter)<<21 | uint64(mark) }

// compose takes the marks that src begins with and the letter just written to canonical order and composition, as NFC
// does, and returns how much of src it read. It knows marks whose combining class is not 0; errRough leaves the rest to settle.
func (s *scanner) compose(src []byte) (int, error) {
	var marks [2*maxRawMarks + 1]rune
	n, read := 0, 0
	letter, size := utf8.DecodeLastRune(s.out)
	base := len(s.out) - size
	for letter >= utf8.RuneSelf {
		parts := slot(&partsTable, uint64(letter))
		if parts == 0 {
			break
		}
		if n == maxRawMarks {
			return 0, errRough
		}
		copy(marks[1:], marks[:n])
		marks[0] = rune(parts & (1<<21 - 1))
		letter = rune(parts >> 21)
		n++
	}
	own := n
loop:
	for read < len(src) {
		r, width := utf8.DecodeRune(src[read:])
		e := entryOf(r)
		switch c := class(e & entryClass); {
		case c == classStrip:
			s.flags |= sawInvisible
		case c == classMark && e&entryAccent != 0:
			if n-own == maxRawMarks {
				return 0, ErrMarks
			}
			marks[n] = r
			n++
		case c == classMark && e&entryRough != 0 || c == classExpand && e>>entryMapped == 0:
			return 0, errRough
		default:
			break loop
		}
		read += width
	}
	for i := 1; i < n; i++ { // stable, by combining class
		for k := i; k > 0 && entryOf(marks[k-1])>>entryOrder > entryOf(marks[k])>>entryOrder; k-- {
			marks[k-1], marks[k] = marks[k], marks[k-1]
		}
	}
	kept, last := 0, uint32(0)
	for _, m := range marks[:n] {
		if letter == 'i' && m == 0x307 {
			return 0, errRough // settle folds the dot away
		}
		order := entryOf(m) >> entryOrder
		if order > last || kept == 0 {
			if whole := slot(&composeTable, pairKey(letter, m)); whole != 0 {
				letter = rune(whole)
				continue
			}
		}
		last = order
		marks[kept] = m
		kept++
	}
	if letter >= s.limit {
		return 0, ErrAlphabet
	}
	s.out = utf8.AppendRune(s.out[:base], letter)
	for _, m := range marks[:kept] {
		if err := s.accentuate(m, scriptOf(entryOf(m))); err != nil {
			return 0, err
		}
	}
	s.accent = kept > 0
	return read, nil
}
