package wire

import (
	"errors"
	"testing"
)

// covers P2.4, BCP-160
func TestAppendStringIsShortest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                      `""`,
		"plain":                 `"plain"`,
		`a"b\c/d`:               `"a\"b\\c/d"`,
		"\b\f\n\r\t":            `"\b\f\n\r\t"`,
		"\x00\x01\x1b\x1f\x7f":  `"\u0000\u0001\u001b\u001f\u007f"`,
		"<a href='x'>&\u2028":   "\"<a href='x'>&\u2028\"",
		"é漢😀\u0085\ufffd\ufeff": "\"é漢😀\u0085\ufffd\ufeff\"",
	} {
		got, err := AppendString(AppendSep(nil), text) // nothing is before it
		failIf(t, err != nil || string(got) != want, "%q: got %s, %v, want %s", text, got, err, want)
	}
}

// Invalid text is never replaced and sent, and leaves the message as it was.
//
// covers P2.2, P2.4, A-UTF8
func TestAppendRefusesInvalidUTF8(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\xff", "abc\xc0\xaf", "\xed\xa0\x80", "cut \xe2\x82"} {
		dst := []byte(`{"a":1`)
		b1, e1 := AppendString(dst, text)
		b2, e2 := AppendString(dst, []byte(text))
		for i, err := range []error{e1, e2} {
			failIf(t, !errors.Is(err, ErrUTF8) || !errors.Is(err, ErrMalformed), "%q: call %d: %v", text, i, err)
		}
		for i, b := range [][]byte{b1, b2} {
			failIf(t, string(b) != `{"a":1`, "%q: call %d left %q", text, i, b)
		}
	}
}

func appendKey(b []byte, key string) []byte {
	b, _ = AppendString(AppendSep(b), key)
	return append(b, ':')
}
