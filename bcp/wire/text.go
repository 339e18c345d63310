package wire

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// span is where the inside of a string is in the input.
type span struct {
	start, end int
	escaped    bool // holds a backslash escape
}

// text returns the string that the span spells: a part of buf, or appended to
// scratch[:0].
func (r span) text(buf, scratch []byte) []byte {
	if !r.escaped {
		return buf[r.start:r.end:r.end]
	}
	return r.appendTo(scratch[:0], buf)
}

// appendTo appends the string that a span with escapes spells.
func (r span) appendTo(dst, buf []byte) []byte {
	dst, _ = jsontext.AppendUnquote(dst, buf[r.start-1:r.end+1]) // it was judged
	return dst
}

// quoted reads a string whose opening quote is next, and judges all of it.
func (s *Scanner) quoted() (span, error) {
	b := s.buf
	ref := span{start: s.pos + 1}
	i := ref.start
	ascii := true
	for {
		i = plain(b, i)
		for i < len(b) && !escapes[b[i]] {
			ascii = ascii && b[i] < utf8.RuneSelf
			i++
		}
		if i >= len(b) {
			return span{}, s.fail(i, ErrTruncated)
		}
		switch b[i] {
		case '"':
			ref.end = i
			if !ascii && !utf8.Valid(b[ref.start:i]) {
				return span{}, s.fail(ref.start+invalidAt(b[ref.start:i]), ErrUTF8)
			}
			s.pos = i + 1
			return ref, nil
		case '\\':
			n, why := escapeLen(b[i:])
			if why != nil {
				return span{}, s.fail(i, why)
			}
			ref.escaped = true
			i += n
		default:
			return span{}, s.fail(i, ErrControl)
		}
	}
}

// plain returns the offset at or after i of the first byte that is not ASCII or
// that the table escapes has, or the length of b. It goes by words of eight
// bytes: each term of hit sets the high bit of the byte that it looks for, and
// may set more of them only above that one, so the lowest is exact.
func plain(b []byte, i int) int {
	const low, high = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		control := w - low*' '
		quote := (w ^ low*'"') - low
		slash := (w ^ low*'\\') - low
		del := w + low
		if hit := (w | control | quote | slash | del) & high; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
		i += 8
	}
	for i < len(b) && b[i] < utf8.RuneSelf && !escapes[b[i]] {
		i++
	}
	return i
}

// escapes tells the bytes that a string may hold only as an escape. Those above
// ASCII are judged together when the string ends.
var escapes = [256]bool{
	0x00: true, 0x01: true, 0x02: true, 0x03: true, 0x04: true, 0x05: true, 0x06: true, 0x07: true,
	0x08: true, 0x09: true, 0x0a: true, 0x0b: true, 0x0c: true, 0x0d: true, 0x0e: true, 0x0f: true,
	0x10: true, 0x11: true, 0x12: true, 0x13: true, 0x14: true, 0x15: true, 0x16: true, 0x17: true,
	0x18: true, 0x19: true, 0x1a: true, 0x1b: true, 0x1c: true, 0x1d: true, 0x1e: true, 0x1f: true,
	'"': true, '\\': true, 0x7f: true,
}

// escapeLen returns the length of the escape that b begins with: 2, 6, or 12 for
// a surrogate pair.
func escapeLen(b []byte) (int, error) {
	if len(b) < 2 {
		return 0, ErrTruncated
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
	default:
		return 0, ErrSyntax
	}
	r, ok := hex4(b)
	if !ok {
		return 0, ErrSyntax
	}
	if !utf16.IsSurrogate(r) {
		return 6, nil
	}
	if len(b) < 12 || b[6] != '\\' || b[7] != 'u' {
		return 0, ErrUTF8
	}
	low, ok := hex4(b[6:])
	switch {
	case !ok:
		return 0, ErrSyntax
	case utf16.DecodeRune(r, low) == utf8.RuneError:
		return 0, ErrUTF8
	}
	return 12, nil
}

// hex4 reads the four digits of an escape that b begins with.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}

// invalidAt returns the offset of the first byte that is not UTF-8.
func invalidAt(b []byte) int {
	i := 0
	for i < len(b) {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return i
}
