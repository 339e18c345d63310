package wire

import "unicode/utf8"

// AppendSep appends the comma that a next element of an array needs, which is
// none at the start of dst or after an opening bracket. dst must end where an
// element may begin.
func AppendSep(dst []byte) []byte {
	if n := len(dst); n == 0 || dst[n-1] == '{' || dst[n-1] == '[' {
		return dst
	}
	return append(dst, ',')
}

// AppendString appends a JSON string in its one canonical spelling (PROTOCOL
// P2.4): only the quote, the backslash and control characters, DEL among them,
// are escaped, by two characters where JSON has such an escape and else as \u00xx
// in lower case. Nothing else is escaped, so the result is no HTML. If text is
// not valid UTF-8 it returns dst as it was and an error that wraps [ErrUTF8].
func AppendString(dst []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return dst, &Error{Offset: invalidAt([]byte(text)), Reason: ErrUTF8}
	}
	return appendQuoted(dst, text), nil
}

// AppendText is [AppendString] for text in a byte slice, which must not overlap
// the free part of dst.
func AppendText(dst, text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return dst, &Error{Offset: invalidAt(text), Reason: ErrUTF8}
	}
	return appendQuoted(dst, text), nil
}

// appendQuoted appends valid UTF-8 as a JSON string.
func appendQuoted[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if !escapes[c] {
			continue
		}
		dst = append(dst, text[done:i]...)
		dst = appendEscape(dst, c)
		done = i + 1
	}
	dst = append(dst, text[done:]...)
	return append(dst, '"')
}

// appendEscape appends the shortest escape of an ASCII character.
func appendEscape(dst []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
	}
}
