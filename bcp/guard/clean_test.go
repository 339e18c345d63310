package guard

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// covers ALF-19
func TestCleanRemovesWhatNobodySees(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain ä 世界 🙂":                                     "plain ä 世界 🙂",
		"a\U000e0068\U000e0069b":                           "ab",
		"ig\u00adnore":                                     "ignore",
		"a\u00a0b\u3000c\u2003d":                           "a b c d",
		"\u2764\ufe0f":                                     "\u2764",
		"a\ue000b\U000f0000c\U00100000d":                   "abcd",
		"\ufeffa":                                          "a",
		"a\r\nb\rc\u0085d\u2028e\u2029f\ng":                "a\nb\nc\nd\ne\nf\ng",
		"a\tb\vc\fd":                                       "a\tb c d",
		"\x00\x07\x1b\x7f\u009b":                           "",
		"\u202eevil\u202c \u2066x\u2069":                   "evil x",
		"a\u200b\u200c\u200d\u2060\u2064b":                 "ab",
		"\u115f\u1160\u3164\uffa0\u034f\u180e\u061c\u2800": "",
		"e\u0301":  "e\u0301",
		"a\xffb":   "a\ufffdb",
		"a\r\r\nb": "a\n\nb",
	} {
		expect(t, Clean(text), want, "%+q", text)
	}
}

func checkClean(t *testing.T, text string) {
	t.Helper()
	got := Clean(text)
	expect(t, Clean(got), got, "%+q: twice", text)
	for _, r := range got {
		failIf(t, invisible(r) || isLineBreak(r) || unicode.IsSpace(r) && r != ' ' && r != '\n' && r != '\t',
			"%+q: %U is left", text, r)
	}
	failIf(t, !utf8.ValidString(got) || len(got) > 3*len(text), "%+q: %+q", text, got)
}

func FuzzClean(f *testing.F) {
	f.Add("a\r\n\u200b\U000e0041\xff\u2028")
	f.Fuzz(func(t *testing.T, text string) { checkClean(t, text) })
}

// Every code point is removed, kept, a blank or a line break; what redaction finds invisible is what Clean removes.
func TestEveryInvisibleCodePointIsSeen(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || r == '\n' || r == '\t' {
			continue
		}
		text := "x" + string(r) + "y"
		gone := Clean(text) == "xy"
		stopIf(t, gone != invisible(r), "%U: removed %v", r, gone)
		stopIf(t, hasInvisible(text) != gone || hasInvisible([]byte(text)) != gone, "%U: redaction does not see it", r)
	}
	checkClean(t, strings.Repeat("\u200b", 1000))
}
