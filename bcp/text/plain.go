package text

import (
	"unicode"
	"unicode/utf8"
)

// plain reads a short answer of a fixed format: canonical spelling, lower case, ASCII only, white space folded to single
// spaces and trimmed. Decimal digits of every script are read as ASCII digits; what only contains a digit, such as a superscript or a
// circled one, is none: 10² is not 102. It fails for anything longer than buf.
func plain(buf, src []byte) ([]byte, bool) {
	if len(src) > 4*cap(buf) {
		return nil, false
	}
	out, ok := buf[:0], true
	space := false
	for i := 0; i < len(src) && ok; {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			return nil, false
		}
		i += size
		e := lookUp(r)
		if class(e&entryClass) != classExpand {
			out, ok = plainRune(out, r, e, &space)
			continue
		}
		for _, to := range expand(e) {
			if to != capitalMark && ok {
				if out, ok = plainRune(out, to, lookUp(to), &space); class(lookUp(to)&entryClass) == classDigit {
					return nil, false
				}
			}
		}
	}
	return out, ok && len(out) > 0
}

// plainRune appends one code point for plain. The dot of a dotted i goes; any other mark composes to what is not ASCII.
func plainRune(out []byte, r rune, e uint32, space *bool) ([]byte, bool) {
	c := class(e & entryClass)
	if c == classMapped {
		from := r
		r = mappedTo(e)
		if c = class(lookUp(r) & entryClass); c == classDigit && !unicode.Is(unicode.Nd, from) {
			return nil, false
		}
	}
	switch {
	case c == classStrip, c == classStretch, r == dotAbove && !*space && len(out) > 0 && out[len(out)-1] == 'i':
		return out, true
	case c == classSpace, c == classLine:
		*space = len(out) > 0
		return out, true
	case c == classRefuse, r >= utf8.RuneSelf, len(out)+2 > cap(out):
		return nil, false
	}
	if *space {
		out = append(out, ' ')
		*space = false
	}
	if b := byte(r); b-'A' < 26 {
		return append(out, b|0x20), true
	}
	return append(out, byte(r)), true
}

// Fields counts what white space separates in a received text: the words of date, time, email, integer and boolean
// answers (PROTOCOL P3.3).
func Fields(received []byte) int {
	n, inside := 0, false
	for i := 0; i < len(received); {
		r, size := utf8.DecodeRune(received[i:])
		i += size
		c := class(lookUp(r) & entryClass)
		if c == classStrip || c == classStretch {
			continue
		}
		space := c == classSpace || c == classLine
		if !space && !inside {
			n++
		}
		inside = !space
	}
	return n
}
