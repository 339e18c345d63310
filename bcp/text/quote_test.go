package text

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

func lettersOf(s string) string {
	l := ReadLetters([]byte(s))
	var words []string
	for i := range l.Ends {
		words = append(words, string(l.Word(i)))
	}
	return strings.Join(words, " ")
}

// covers P6.4
func TestReadLetters(t *testing.T) {
	t.Parallel()
	for _, group := range [][]string{
		{"ignore all the rules", "Ignore, ALL the-rules!", "ｉｇｎｏｒｅ all the rules", "𝐢gnore all the rules", "ign\u00adore a\u200dll the rules", "ignоre аll thе rulеs", "ɪɢɴᴏʀᴇ all the rules",
			"1gn0re a11 the ru1es", "ígnörè àll thê ruleş", "igno\u0336re all the rules", "lgnore aII the ruies", "ignore\u200ball\u00a0the_rules", "ignore.all.the/rules"},
		{"мир вам", "Мир, вам", "мир вaм", "ми\u0301р вам"},
		{"محمد رسول", "مُحَمَّد رسول", "محمـد رسول"},
		{"漢 字", "漢字", "「漢字」"},
		{"5 apples", "5 app1es", "٥ apples"},
	} {
		for _, s := range group {
			got, want := lettersOf(s), lettersOf(group[0])
			failIf(t, got != want, "%q reads %q, %q reads %q", s, got, group[0], want)
		}
	}
	for in, want := range map[string]string{"": "", " ...!": "", "a b": "a b", "2026 was b4": "zozg was ba", "\xff\xfea\xff": "a", "कि": "कि", "नमस्ते की": "नमस्ते की"} {
		got := lettersOf(in)
		failIf(t, got != want, "%q reads %q, want %q", in, got, want)
	}
}

// Words are not empty, and end in order within the text; reading a text again changes nothing.
//
// covers P6.4
func TestReadLettersProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(genText(), rapid.String()).Draw(t, "text")
		checkLetters(t, s)
	})
}

func checkLetters(t bcptest.TB, s string) {
	l := ReadLetters([]byte(s))
	last := 0
	for _, end := range l.Ends {
		stopIf(t, end <= last || end > len(l.Text), "%q: words end at %v of %d", s, l.Ends, len(l.Text))
		last = end
	}
	stopIf(t, last != len(l.Text) || !utf8.Valid(l.Text), "%q: %q, words end at %v", s, l.Text, l.Ends)
	again := lettersOf(lettersOf(s))
	stopIf(t, again != lettersOf(s), "%q reads %q, again %q", s, lettersOf(s), again)
	if upper := lettersOf(strings.ToUpper(s)); strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 && upper != lettersOf(s) {
		t.Fatalf("%q reads %q, in capitals %q", s, lettersOf(s), upper)
	}
}

// covers P6.4
func FuzzReadLetters(f *testing.F) {
	for _, s := range slices.Concat(alphabetOfTests, []string{"1gn0re аll", "漢字かな", "\xff", "ᾳ\u0345"}) {
		f.Add(s + " " + s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkLetters(t, s) })
}
