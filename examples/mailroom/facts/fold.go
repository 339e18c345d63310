package facts

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// isInvisible reports runes that take no room of their own: format characters
// (zero-width, directional, tag characters), fillers, variation selectors.
func isInvisible(r rune) bool {
	switch {
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r):
		return true
	case r == 0x034f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x2800, r == 0x3164, r == 0xffa0:
		return true
	}
	return false
}

// visible drops what takes no room.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if isInvisible(r) {
			return -1
		}
		return r
	}, s)
}

// lookAlikes maps letters of other scripts to the Latin ones that they are
// mistaken for. It is a short list for the example, not the confusables table.
var lookAlikes = map[rune]rune{
	'а': 'a', 'в': 'b', 'с': 'c', 'ԁ': 'd', 'е': 'e', 'һ': 'h', 'і': 'i', 'ј': 'j', 'к': 'k',
	'ӏ': 'l', 'м': 'm', 'н': 'h', 'о': 'o', 'р': 'p', 'ѕ': 's', 'т': 't', 'у': 'y', 'х': 'x',
	'А': 'A', 'В': 'B', 'С': 'C', 'Е': 'E', 'Н': 'H', 'І': 'I', 'Ј': 'J', 'К': 'K', 'М': 'M',
	'О': 'O', 'Р': 'P', 'Ѕ': 'S', 'Т': 'T', 'У': 'Y', 'Х': 'X',
	'α': 'a', 'ε': 'e', 'ι': 'i', 'κ': 'k', 'ν': 'v', 'ο': 'o', 'ρ': 'p', 'τ': 't', 'υ': 'u', 'χ': 'x',
	'Α': 'A', 'Β': 'B', 'Ε': 'E', 'Η': 'H', 'Ι': 'I', 'Κ': 'K', 'Μ': 'M', 'Ν': 'N', 'Ο': 'O',
	'Ρ': 'P', 'Τ': 'T', 'Υ': 'Y', 'Χ': 'X', 'Ζ': 'Z',
}

// plainText is text as it was meant to be understood: compatibility forms
// folded, invisible characters gone, look-alikes inside Latin words replaced.
func plainText(s string) string {
	s = norm.NFKC.String(visible(s))
	var out, word strings.Builder
	latin := false
	flush := func() {
		w := word.String()
		if latin {
			w = strings.Map(func(r rune) rune {
				if l, ok := lookAlikes[r]; ok {
					return l
				}
				return r
			}, w)
		}
		out.WriteString(w)
		word.Reset()
		latin = false
	}
	for _, r := range s {
		if !unicode.IsLetter(r) {
			flush()
			out.WriteRune(r)
			continue
		}
		latin = latin || unicode.Is(unicode.Latin, r)
		word.WriteRune(r)
	}
	flush()
	return out.String()
}
