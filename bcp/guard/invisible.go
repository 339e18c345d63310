package guard

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/rangetable"
)

// hidden are the code points that show nothing, and white space that is among them: controls, format characters, default
// ignorables, variation selectors, private use and the blank Braille pattern.
var hidden = rangetable.Merge(unicode.Cc, unicode.Cf, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, rangetable.New(0x2800))

func invisible(r rune) bool { return unicode.Is(hidden, r) && !unicode.IsSpace(r) }

// hasInvisible reports whether a text has an invisible code point.
func hasInvisible[T string | []byte](text T) bool {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if c < ' ' && !isSpaceByte(c) || c == 0x7f {
				return true
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(text[i:min(len(text), i+utf8.UTFMax)]))
		if invisible(r) {
			return true
		}
		i += size
	}
	return false
}

// isSpaceByte reports whether c is white space of ASCII: tab, LF, VT, FF, CR or space.
func isSpaceByte(c byte) bool { return c == ' ' || c-'\t' <= '\r'-'\t' }

// isLineBreak reports whether r ends a line: CR, NEL, LINE SEPARATOR, PARAGRAPH SEPARATOR. LF is not asked for.
func isLineBreak(r rune) bool {
	return r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029
}

// Clean returns text without what a person cannot see: controls, format characters (bidirectional overrides, tag
// characters, the soft hyphen), default ignorables, variation selectors, private use and U+2800 are removed. CRLF, CR,
// U+0085, U+2028 and U+2029 become LF; other white space but TAB becomes a space. A byte that is not UTF-8 becomes U+FFFD.
//
// All that an agent reads is cleaned before it is redacted, and whatever is fenced. Clean(Clean(x)) = Clean(x).
func Clean(text string) string {
	i := 0
	for i < len(text) && (text[i] >= ' ' && text[i] < 0x7f || text[i] == '\n' || text[i] == '\t') {
		i++
	}
	if i == len(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	b.WriteString(text[:i])
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == '\r' && i < len(text) && text[i] == '\n': // the LF follows
		case isLineBreak(r):
			b.WriteByte('\n')
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case !invisible(r):
			b.WriteRune(r) // a byte that is not UTF-8 reads as U+FFFD
		}
	}
	return b.String()
}
