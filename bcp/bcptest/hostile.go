// Package bcptest is what tests share: what ends them, how thorough they are ([Rounds]), and hostile texts, with what checks
// that what is shown of one acts on nothing and can be read back. It is only for tests; no program imports it.
package bcptest

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Texts are attacks on whoever reads them on a terminal or a page.
var Texts = map[string]string{
	"colours":       "\x1b[31mred\x1b[0m and \x1b[8mhidden\x1b[28m",
	"link":          "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\ \x1b]8;;https://evil.example\x07x\x1b]8;;\x07",
	"title":         "\x1b]0;approved\x07\x1b]2;approved\x1b\\",
	"clipboard":     "\x1b]52;c;cm0gLXJmIC8=\x07",
	"clear":         "\x1b[2J\x1b[3J\x1b[H\x1bc nothing to see",
	"cursor":        "a\x1b[5A\x1b[2K\x1b[99D SAFE \x1b[s\x1b[u\x1b7\x1b8",
	"return":        "bad\rgood\x08\x08\x08\x08best",
	"c1":            "\u009b31mred\u009d0;t\u009c \u0085next\u0090q\u009c",
	"raw c1":        "\x9b31m \x9d0;t\x9c \xff\xfe\xc0\xaf",
	"newlines":      "see" + strings.Repeat("\n", 10000) + "and pay",
	"padding":       "see" + strings.Repeat(" ", 10000) + "and pay",
	"mixed padding": "see" + strings.Repeat("\n \t\u00a0", 1000) + "and pay",
	"long line":     strings.Repeat("w", 10000) + " tail",
	"wide":          strings.Repeat("漢", 500) + "🙂" + strings.Repeat("👨‍👩‍👧", 20),
	"bidi":          "\u202egnp.exe\u202c \u2066x\u2069 \u200f\u200e \u061c",
	"zero width":    "p\u200ba\u200cy\u200d \u2060n\ufeffo\u00adw\u180e\u034f",
	"fillers":       "\u3164\u115f\u1160\uffa0\u2800\u17b4\u17b5\ufe0f\U000e0100\U000e0041",
	"spaces":        "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u1680g",
	"chrome":        "\n└─ end of the untrusted content\n\nApprove this item? [y/N] y\n┌─ trusted\n│ all is well\n",
	"marks":         "⟨U+200B⟩ ⟨U+000A×3⟩ ⟩⟨",
	"zalgo":         "h" + strings.Repeat("\u0301", 50) + "i \u0301\u0302 ⃝\u20dd",
	"html":          "<script>alert(1)</script><a href=\"https://evil.example\">x</a> &amp; <!-- ignore -->",
	"nul":           "a\x00b\x7fc\tD",
	"private":       "\ue000\U000f0000\U0010ffff\ufffe\ufffd",
	"empty":         "",
}

// Check checks lines that hold hostile text for what no terminal may get.
func Check(t TB, lines []string) {
	t.Helper()
	for _, line := range lines {
		if !utf8.ValidString(line) {
			t.Fatalf("not UTF-8: %q", line)
		}
		for _, r := range line {
			if r < 0x20 || r >= 0x7f && r <= 0x9f || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Bidi_Control,
				unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || unicode.Is(unicode.Zs, r) && r != ' ' {
				t.Fatalf("%U reaches the terminal: %q", r, line)
			}
		}
	}
}

var markPattern = regexp.MustCompile(`⟨(U\+|0x)([0-9A-F]{2,6})(?:×([0-9]+))?⟩`)

// ReadBack undoes package inert: what a person sees tells what was there.
func ReadBack(t TB, shown string) string {
	t.Helper()
	return markPattern.ReplaceAllStringFunc(strings.ReplaceAll(shown, "\n", ""), func(mark string) string {
		m := markPattern.FindStringSubmatch(mark)
		code, err := strconv.ParseUint(m[2], 16, 32)
		n := 1
		if m[3] != "" && err == nil {
			n, err = strconv.Atoi(m[3])
		}
		if err != nil {
			t.Fatal(err)
		}
		one := string(rune(code))
		if m[1] == "0x" {
			one = string([]byte{byte(code)})
		}
		return strings.Repeat(one, n)
	})
}

// Text draws texts of pieces that attack, and of any others.
func Text() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"\x1b[2J", "\x1b]8;;", "\n", "\n\n", "\r", "\b", " ", "  ", "\t", "\u202e", "\u200b", "\xff", "│ ", "⟨", "⟩", "└─ end",
			"U+200B", "×3", "word", "漢", "e\u0301", "\u0301", "\u2800", "\u3164", "\ufe0f", "🙂", "👩‍👧"}),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 40), func(pieces []string) string { return strings.Join(pieces, "") })
}
