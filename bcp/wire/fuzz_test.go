package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// covers P2.2, P2.3, A-DUP, A-UTF8, A-CTRL, A-CRASH
func FuzzCheck(f *testing.F) {
	for _, c := range strictness {
		f.Add([]byte(c.in))
	}
	for _, b := range [][]byte{category1, category2, category3} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if Check(b) != nil {
			return
		}
		stopIf(t, !json.Valid(b) || !utf8.Valid(b), "%q: accepted, and is no JSON to the standard library", b)
		packed, err := MsgpackFromJSON(nil, b)
		stopIf(t, err != nil, "%q: accepted, but not to be packed: %v", b, err)
		unpacked, err := JSONFromMsgpack(nil, packed)
		stopIf(t, err != nil, "%q: packed as %x, refused: %v", b, packed, err)
		want := jsontext.Value(bytes.Clone(b))
		if err := want.Format(); err != nil || !bytes.Equal(unpacked, bytes.ReplaceAll(want, []byte{0x7f}, []byte(`\u007f`))) {
			t.Fatalf("%q: came back as %q: %v", b, unpacked, err)
		}
	})
}

// covers P2.4, A-UTF8, A-CRASH
func FuzzAppendString(f *testing.F) {
	f.Add("")
	f.Add("a\"\\/\b\f\n\r\t\x00\x1f\x7f<&>\u2028é😀")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := AppendString([]byte("x"), text)
		if !utf8.ValidString(text) {
			stopIf(t, !errors.Is(err, ErrUTF8) || string(b) != "x", "%q: got %q, %v", text, b, err)
			return
		}
		noError(t, err)
		b = b[1:]
		got, err := jsontext.AppendUnquote(nil, b)
		stopIf(t, err != nil || string(got) != text || Check(b) != nil, "%q: %q reads as %q: %v", text, b, got, err)
		same, err := AppendString(nil, []byte(text))
		stopIf(t, err != nil || !bytes.Equal(same, b), "%q: as bytes %s: %v", text, same, err)
	})
}
