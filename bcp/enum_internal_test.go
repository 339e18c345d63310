package bcp

import (
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Which code points are ASCII in NFC, for all of them.
//
// covers P3.1, A-NFC
func TestComposesToASCII(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		text := utf8.AppendRune([]byte("e"), r)
		if got := composesToASCII(text); got != ascii(norm.NFC.Bytes(text)) {
			t.Errorf("%U behind an e: %t", r, got)
		}
	}
}
