package text

import "unicode/utf8"

// plain reads a short answer of a fixed format: settled, lower case, ASCII only, white space folded to single spaces and
// trimmed. It fails for anything longer than buf.
func plain(buf, src []byte) ([]byte, bool) {
	if len(src) > 4*cap(buf) {
		return nil, false
	}
	for _, b := range src {
		if b >= utf8.RuneSelf || asciiClass[b] == classStrip {
			settled, _, err := settle(src, false, len(src))
			if err != nil {
				return nil, false
			}
			src = settled
			break
		}
	}
	out := buf[:0]
	space := false
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		i += size
		if c := class(entryOf(r) & entryClass); c == classSpace || c == classLine {
			space = len(out) > 0
			continue
		}
		if r >= utf8.RuneSelf || len(out)+2 > cap(buf) {
			return nil, false
		}
		if space {
			out = append(out, ' ')
			space = false
		}
		if b := byte(r); b-'A' < 26 {
			out = append(out, b|0x20)
		} else {
			out = append(out, b)
		}
	}
	return out, len(out) > 0
}

// Fields counts what white space separates in a received text: the words of date, time, email, integer and boolean
// answers (PROTOCOL P3.3).
func Fields(received []byte) int {
	n, inside := 0, false
	for i := 0; i < len(received); {
		r, size := utf8.DecodeRune(received[i:])
		i += size
		c := class(entryOf(r) & entryClass)
		if c == classStrip {
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
