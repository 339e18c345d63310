package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

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
// not valid UTF-8 it returns dst as it was and an error that wraps [ErrUTF8]. Bytes must not
// overlap the free part of dst.
func AppendString[T string | []byte](dst []byte, text T) ([]byte, error) {
	quoted, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		return dst, &Error{Reason: ErrUTF8}
	}
	if at := len(dst); bytes.IndexByte(quoted[at:], 0x7f) >= 0 { // which jsontext leaves as it is
		quoted = append(dst, bytes.ReplaceAll(quoted[at:], []byte{0x7f}, []byte(`\u007f`))...)
	}
	return quoted, nil
}
