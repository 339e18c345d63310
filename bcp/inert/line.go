package inert

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line makes text harmless within a sentence of ours: one line, without control
// characters, without what is invisible or turns the direction of writing.
func Line(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !Harmless(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString("; ")
		case Harmless(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		i += size
	}
	return b.String()
}

// blanks look like white space although Unicode calls them symbols or letters: the empty Braille pattern, the null note
// head, the Khitan filler.
const blanks = "\u2800\U0001d159\U00016fe4"

// Harmless reports whether r shows, and does nothing else.
func Harmless(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !strings.ContainsRune(blanks, r) &&
		!unicode.In(r, unicode.Zs, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Cut shortens a line to a number of columns, with an ellipsis for what is left out.
func Cut(s string, columns int) string {
	used, last := 0, 0 // last is the end of what fits beside an ellipsis
	for i := 0; i < len(s); {
		size, width := unitAt(s[i:])
		if used+width > columns {
			return s[:last] + "…"
		}
		if used += width; used < columns {
			last = i + size
		}
		i += size
	}
	return s
}
