package bcp

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The words of a text are the same whether it is ASCII, which is read byte by
// byte, or is made longer by a word that is not.
//
// covers P6.4
func TestWordRuns(t *testing.T) {
	t.Parallel()
	slow := func(text string) (runs [][8]byte) {
		words := wordsOf(text)
		for i := 0; i+quotedWords <= len(words); i++ {
			sum := sha256.Sum256([]byte(strings.Join(words[i:i+quotedWords], " ")))
			runs = append(runs, [8]byte(sum[:8]))
		}
		return runs
	}
	pieces := rapid.SampledFrom([]string{"a", "Be", "seven", "X9", "0", " ", "  ", ". ", "-", "\n", "\x00", "{", "[", "`", "@", "/", ":", "Z", "é", "\u200b", "ﬁ", "\u00ad", "日", "İ", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(pieces, 0, 40).Draw(t, "text"), rapid.SampledFrom([]string{"", " "}).Draw(t, "between"))
		if got, want := wordRuns(text), slow(text); !slices.Equal(got, want) {
			t.Fatalf("%q: %x, want %x", text, got, want)
		}
	})
}
