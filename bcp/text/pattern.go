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

// patterns are those of all views, by their first byte.
type patterns [256][]pattern

func (p *patterns) add(one pattern) { p[one.text[0]] = append(p[one.text[0]], one) }

// match looks up all patterns in a folded text.
func (p *patterns) match(text []byte) (found Set) {
	for i := range text {
		for j := range p[blank(text[i])] {
			if one := &p[blank(text[i])][j]; found&one.code == 0 && one.begins(text, i) {
				found |= one.code
			}
		}
	}
	return found
}

// blank is a byte of a folded text as patterns have it, in which a line break is a space.
func blank(b byte) byte {
	if b == '\n' {
		return ' '
	}
	return b
}

// begins reports whether the pattern is at a place.
func (p *pattern) begins(text []byte, at int) bool {
	end := at
	for i := 0; i < len(p.text); end++ {
		switch {
		case end == len(text):
			return false
		case blank(text[end]) == p.text[i]:
			i++
		case p.view != viewCompact || blank(text[end]) != ' ':
			return false
		}
	}
	return p.view == viewCompact || p.fits(text, end)
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
		r, size := utf8.DecodeRune(src[i:])
		dst = foldRune(dst, r, src[i:i+size])
		i += size
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

// foldRune appends one code point, whose encoding is raw.
func foldRune(dst []byte, r rune, raw []byte) []byte {
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
