package inert_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
)

func checkBehind(t bcptest.TB, s string, width int) {
	t.Helper()
	shown := inert.Prefixed(inert.Gutter, s, width)
	bcptest.Check(t, shown)
	var text strings.Builder
	for _, line := range shown {
		rest, ok := strings.CutPrefix(line, inert.Gutter)
		if !ok || strings.ContainsAny(rest, "│┌└├─") {
			t.Fatalf("not behind the gutter, or another gutter in it: %q", line)
		}
		columns := 0
		for _, r := range line {
			columns += inert.Columns(r)
		}
		if limit := max(width, 24+len([]rune(inert.Gutter))); columns > limit+1 { // the gutter counts 2
			t.Fatalf("%d columns of %d: %q", columns, limit, line)
		}
		text.WriteString(rest)
	}
	if got := bcptest.ReadBack(t, text.String()); got != s {
		t.Fatalf("shown as %q, which reads %q, not %q", shown, got, s)
	}
}

// covers A-ANSI, A-FAKEUI, A-SCROLL, P7.2
func TestInertTexts(t *testing.T) {
	t.Parallel()
	for name, s := range bcptest.Texts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, width := range []int{-1, 10, 40, 80, 300} {
				checkBehind(t, s, width)
			}
		})
	}
	for s, want := range map[string]string{
		"plain, ä 漢 🙂 words.": "plain, ä 漢 🙂 words.",
		"a\u200bb":            "a⟨U+200B⟩b",
		"a\nb":                "a⟨U+000A⟩\nb",
		"a\n\n\nb":            "a⟨U+000A×3⟩\nb",
		"a  b":                "a⟨U+0020×2⟩b",
		" a ":                 "⟨U+0020⟩a⟨U+0020⟩",
		"\x1b[2J":             "⟨U+001B⟩[2J",
		"\xff\xff":            "⟨0xFF×2⟩",
		"⟨":                   "⟨U+27E8⟩",
		"│ x":                 "⟨U+2502⟩⟨U+0020⟩x",
		"e\u0301\u0301\u0301": "e\u0301\u0301⟨U+0301⟩",
	} {
		got := inert.Text(s)
		failIf(t, got != want, "Text(%q) = %q, want %q", s, got, want)
	}
}

// A tail cannot be pushed out of sight: padding of any length takes a line or
// so.
//
// covers A-SCROLL
func TestPaddingIsShort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"newlines", "padding"} {
		if lines := inert.Prefixed(inert.Gutter, bcptest.Texts[name], 80); len(lines) > 2 || !strings.Contains(strings.Join(lines, ""), "and pay") {
			t.Errorf("%s: %d lines: %q", name, len(lines), lines)
		}
	}
}

// covers A-ANSI, A-FAKEUI, BCP-115
func TestInertProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkBehind(t, bcptest.Text().Draw(t, "text"), rapid.IntRange(0, 200).Draw(t, "width"))
	})
}

// Runs are the text itself: marks are told from plain text, plain text holds nothing
// that acts, and joined they read back.
//
// covers A-FAKEUI
func TestRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := bcptest.Text().Draw(t, "text")
		var all strings.Builder
		for i, run := range inert.Runs(s) {
			marks := strings.ContainsAny(run.Text, "⟨⟩")
			if run.Text == "" || marks != run.Mark || run.Mark && strings.Count(run.Text, "⟨") != 1 {
				t.Fatalf("run %d: %+v", i, run)
			}
			bcptest.Check(t, strings.Split(run.Text, "\n"))
			all.WriteString(run.Text)
		}
		if got := bcptest.ReadBack(t, all.String()); got != s {
			t.Fatalf("%q reads %q", s, got)
		}
	})
}

// A line is one line, and a cut one is no wider than it may be.
//
// covers A-ANSI
func TestLine(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"a\nb": "a; b", "\x1b[2J": `\x1b[2J`, "\u202ea": `\u202ea`, "\xff": `\xff`, "ä 漢": "ä 漢", "": "",
		"a\ufe0f\U000e0101b": `a\ufe0f\U000e0101b`, "a\u3164\u115f\u2800b": `a\u3164\u115f\u2800b`, "a\u00adb\U000e0041": `a\u00adb\U000e0041`} {
		got := inert.Line(s)
		failIf(t, got != want, "Line(%q) = %q, want %q", s, got, want)
	}
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{{"abcd", 4, "abcd"}, {"abcde", 4, "abc…"}, {"漢漢漢", 6, "漢漢漢"}, {"漢漢漢", 5, "漢漢…"}, {"ab", 1, "…"}, {"", 0, ""}} {
		got := inert.Cut(c.text, c.columns)
		failIf(t, got != c.want, "Cut(%q, %d) = %q, want %q", c.text, c.columns, got, c.want)
	}
}

var failIf = bcptest.FailIf
