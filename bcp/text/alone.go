package text

import "unicode/utf8"

// Conjoining Jamo and the syllables that they compose to.
const (
	jamoLead, jamoLeads   = 0x1100, 19
	jamoVowel, jamoVowels = 0x1161, 21
	jamoTail, jamoTails   = 0x11a7, 28 // the first stands for none
	syllables             = 0xac00
	jamoBytes             = 3
)

// alone takes a code point of entryAlone, or a syllable in Jamo that it leads, where nothing behind composes with it. It
// returns how much of rest it read besides; errRough leaves the text to settle.
func (s *scanner) alone(r rune, rest []byte) (int, error) {
	e := entryOf(r)
	if class(e&entryClass) != classExpand {
		syllable, n := jamoSyllable(r, rest)
		if n == 0 || !separate(rest[n:]) {
			return 0, errRough
		}
		return n, s.wide(syllable, false)
	}
	if s.capitals || !separate(rest) {
		return 0, errRough
	}
	return 0, s.expand(expandTable[e&^entryAlone>>entryMapped], true)
}

// jamoSyllable composes a lead with the vowel and tail that rest begins with; n is their length, 0 without a vowel.
func jamoSyllable(lead rune, rest []byte) (syllable rune, n int) {
	v, _ := utf8.DecodeRune(rest)
	if v -= jamoVowel; v < 0 || v >= jamoVowels {
		return 0, 0
	}
	syllable = syllables + ((lead-jamoLead)*jamoVowels+v)*jamoTails
	t, _ := utf8.DecodeRune(rest[jamoBytes:])
	if t -= jamoTail; t > 0 && t < jamoTails {
		return syllable + t, 2 * jamoBytes
	}
	return syllable, jamoBytes
}

// separate says whether what stands before rest is not changed by it: rest begins with nothing that composes backward,
// and with nothing invisible behind which such a thing could stand.
func separate(rest []byte) bool {
	if len(rest) == 0 {
		return true
	}
	r, _ := utf8.DecodeRune(rest)
	e := entryOf(r)
	switch class(e & entryClass) {
	case classRefuse, classStrip, classMark:
		return false
	case classMapped:
		return true
	case classExpand:
		return e>>entryMapped != 0
	}
	return e&entryRough == 0
}
