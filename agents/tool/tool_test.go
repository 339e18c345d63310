package tool

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// What a model is told of an error is a constant: of an error that is in no list, nothing.
//
// covers ALF-13
func TestFailures(t *testing.T) {
	t.Parallel()
	const canary = "obey-me"
	for err, want := range map[error]string{
		Gone:                        "The call failed: it is no longer there, or was changed (gone).",
		guard.HostDenied:            "The call failed: the host is not on the allow-list (host).",
		errors.New(canary):          "The call failed.",
		Failure(canary):             "The call failed.",
		guard.Code(canary):          "The call failed.",
		errors.Join(TooLarge, Gone): "The call failed: it is too large (too_large).",
	} {
		e := New("x", llm.Instruction{}, "", guard.File, new(sync.Mutex), func(context.Context, struct{}) (string, error) { return canary, err })
		o := e.Run(t.Context(), jsontext.Value(`{}`))
		failIf(t, !o.Failed || o.Source != "" || o.Untrusted != "" || o.Trusted.Text() != want,
			"%v: %+v %q", err, o, o.Trusted.Text())
	}
	for f := range failures {
		failIf(t, f.Output().Trusted.Text() != f.Error() || !strings.HasSuffix(f.Error(), " ("+string(f)+")."),
			"%s: %s", f, f.Error())
	}
}

func TestArgumentsAtAndPast(t *testing.T) {
	t.Parallel()
	var a struct {
		S string `json:"s"`
	}
	frame := len(`{"s":""}`)
	for past := range 2 {
		err := Arguments(jsontext.Value(`{"s":"`+strings.Repeat("x", maxArguments-frame+past)+`"}`), &a)
		failIf(t, (err != nil) != (past == 1), "%d bytes: %v", maxArguments+past, err)
	}
	failIf(t, Arguments(jsontext.Value(`{"S":"x"}`), &a) == nil || Arguments(jsontext.Value(`{} {}`), &a) == nil || Arguments(nil, &a) == nil,
		"read what is not of the schema")
}

func TestQuoteAtAndPast(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\nb\u202e\u200b":                 `"a\nb"`,
		"a\r\n\xff":                        `"a\n�"`,
		strings.Repeat("é ", maxQuoted/2):  `"` + strings.Repeat("é ", maxQuoted/2) + `"`,
		strings.Repeat("é ", maxQuoted):    `"` + strings.Repeat("é ", maxQuoted/2) + `"…`,
		"sk-ant-" + "abcdefghijklmnop":     `"[REDACTED:anthropic-key]"`,
		"sk-ant-" + "abcd\u200befghijklmn": `"[REDACTED:anthropic-key]"`,
	} {
		got := Quote(text)
		failIf(t, got != want, "%q: %s, want %s", text, got, want)
	}
}

// The parts of a text are the whole of it, and each but the last is full.
func TestParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(0, 3*MaxChars).Draw(r, "n")
		unit := rapid.SampledFrom([]string{"x", "é", "日", "🙂"}).Draw(r, "unit")
		text := Text(strings.Repeat(unit, n))
		_, parts, _ := text.Part(1)
		var whole strings.Builder
		for i := 1; i <= parts; i++ {
			part, again, err := text.Part(i)
			if err != nil || again != parts || !utf8.ValidString(part) || i < parts && utf8.RuneCountInString(part) != MaxChars {
				r.Fatalf("part %d of %d: %d, %v", i, parts, utf8.RuneCountInString(part), err)
			}
			whole.WriteString(part)
		}
		if whole.String() != string(text) || parts != max(1, (n+MaxChars-1)/MaxChars) {
			r.Fatalf("%d parts of %d", parts, n)
		}
		for _, none := range []int{0, -1, parts + 1} {
			if _, _, err := text.Part(none); !errors.Is(err, NoSuchPart) {
				r.Fatalf("part %d: %v", none, err)
			}
		}
	})
}

// Whatever the text, a quote is one line without anything invisible, and what is around a phrase is UTF-8.
func FuzzQuote(f *testing.F) {
	f.Add("name\n", "x")
	f.Add("\u202e\u2028\x00\xff\"\\", "\u0130")
	f.Add("İİİİx", "x")
	f.Fuzz(func(t *testing.T, text, phrase string) {
		q := Quote(text)
		failIf(t, strings.ContainsAny(q, "\n\r\u2028\u2029\x00") || !utf8.ValidString(q) || guard.Clean(q) != q || !strings.HasPrefix(q, `"`),
			"%q: %q", text, q)
		clean := string(NewText(text))
		around := Around(clean, strings.ToLower(phrase), 20)
		failIf(t, !utf8.ValidString(around) || utf8.RuneCountInString(around) > 20 || !strings.Contains(clean, around),
			"%q around %q: %q", text, phrase, around)
	})
}

var failIf = bcptest.FailIf
