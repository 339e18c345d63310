package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
)

// Whatever a process prints, in however many pieces, what a status shows of it is one
// short line in which everything shows and nothing acts.
//
// covers A-ANSI, A-LOGFILL
func FuzzLastLine(f *testing.F) {
	f.Add([]byte("a\nb\r\n \x1b[2J\u202e\u0301│"), uint8(3), true)
	f.Add([]byte(strings.Repeat("\U0001f600", 300)), uint8(255), false)
	f.Add([]byte("\xff\xf0\x9f\x98"), uint8(1), true)
	f.Fuzz(func(t *testing.T, printed []byte, piece uint8, toStderr bool) {
		out := NewOutput(hclog.NewNullLogger())
		open := (*Output).Stdout
		if toStderr {
			open = (*Output).Stderr
		}
		s := open(out)
		for rest := printed; len(rest) > 0; {
			n := min(int(piece)+1, len(rest))
			if _, err := s.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		s.End()
		out.End()
		line := out.LastLine()
		if n := utf8.RuneCountInString(line); n > maxLastLine+1 || !utf8.ValidString(line) {
			t.Fatalf("%d characters of %q: %q", n, printed, line)
		}
		for _, r := range line {
			bcptest.StopIf(t, !inert.Harmless(r) || unicode.Is(unicode.M, r) || r >= '─' && r <= '▟', "%q shows %U", line, r)
		}
		whole := NewOutput(hclog.NewNullLogger())
		w := open(whole)
		_, _ = w.Write(printed) // never fails
		w.End()
		whole.End()
		if again := whole.LastLine(); again != line {
			t.Fatalf("in pieces %q, at once %q", line, again)
		}
	})
}

// prints returns the lines of a log in which a process prints some pieces, to stdout or, behind "stderr:", to stderr, and
// what it printed last.
func prints(asJSON bool, pieces ...string) (lines []string, last string) {
	var text bytes.Buffer
	out := NewOutput(hclog.New(&hclog.LoggerOptions{Output: &text, DisableTime: true, JSONFormat: asJSON}).With("agent", "main"))
	stdout, stderr := out.Stdout(), out.Stderr()
	for _, piece := range pieces {
		to := stdout
		if rest, is := strings.CutPrefix(piece, "stderr:"); is {
			to, piece = stderr, rest
		}
		_, _ = io.WriteString(to, piece) // never fails
	}
	stdout.End()
	stderr.End()
	out.End()
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n"), out.LastLine()
}

// What a process prints is one line of the log for each of its own, of which every character is visible and none acts or
// forges another line or field; a log of JSON keeps to the same. Of a long line the first 4 KiB are logged, and it is said
// how much is missing.
//
// covers A-ANSI, A-LOGFILL
func TestOutputIsInert(t *testing.T) {
	t.Parallel()
	const limit = 4 << 10
	x := strings.Repeat("x", limit)
	lines, _ := prints(false, "\x1b[2J\x1b]8;;http://evil\x07click\x1b]8;;\x07\n",
		"a\r[INFO]  forged\u2028forged\u0085forged\vforged\x00\x7f\u009b31m\n",
		"\u202eevil\u2066\u200b\u200d\ufeff\u00ad\U000e0041\u034f\u3164\u2800\ufe0f\U0001d159 \u00a0|\n",
		`quoted" agent=other text="x \" agent=other \\" agent=other`+"\n",
		"broken \xff\xc3( \xed\xa0\x80 \ufffd\n",
		"Grüße 你好 שלום ✓ é e\u0301 C:\\new\n\n", x+"\n", x+"x\n", strings.Repeat("x", 1<<20)+"\n",
		"stderr:next\n", "stderr:no line break", strings.Repeat("\x1b", limit+1))
	want := []string{
		`stdout text="\\x1b[2J\\x1b]8;;http://evil\\aclick\\x1b]8;;\\a"`,
		`stdout text="a\\r[INFO]  forged\\u2028forged\\u0085forged\\vforged\\x00\\x7f\\u009b31m"`,
		`stdout text="\\u202eevil\\u2066\\u200b\\u200d\\ufeff\\u00ad\\U000e0041\\u034f\\u3164\\u2800\\ufe0f\\U0001d159 \\u00a0|"`,
		`stdout text="quoted\" agent=other text=\"x \\\" agent=other \\\\\" agent=other"`,
		`stdout text="broken \\xff\\xc3( \\xed\\xa0\\x80 ` + "\ufffd" + `"`,
		`stdout text="Grüße 你好 שלום ✓ é e` + "\u0301" + ` C:\\new"`,
		`stdout text=""`,
		`stdout text="` + x + `"`,
		`stdout cut_bytes=1 text="` + x + `"`,
		fmt.Sprintf(`stdout cut_bytes=%d text="`, 1<<20-limit) + x + `"`,
		`stderr text="next"`,
		`stdout cut_bytes=1 text="` + strings.Repeat(`\\x1b`, limit) + `"`,
		`stderr text="no line break"`,
	}
	for i := range want {
		want[i] = "[INFO]  an agent's command printed: agent=main stream=" + want[i]
	}
	diff := cmp.Diff(want, lines)
	bcptest.FailIf(t, diff != "", "%s", diff)

	lines, _ = prints(true, "stderr:\u202e\x1b[0m\",\"agent\":\"other\n")
	var got struct{ Agent, Stream, Text string }
	bcptest.StopIf(t, len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &got) != nil, "log:\n%s", lines)
	bcptest.FailIf(t, got.Agent != "main" || got.Stream != "stderr" || got.Text != `\u202e\x1b[0m","agent":"other`, "%+v", got)
}

// What a process prints has its secrets hidden in the log and in its status, also one that goes over lines, is written in
// pieces, or is longer than a line that is kept.
//
// covers ALF-50
func TestOutputIsRedacted(t *testing.T) {
	t.Parallel()
	lines, last := prints(false, "token ghp_aaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ok\n",
		"-----BEGIN PRIVATE KEY-----\n"+strings.Repeat(strings.Repeat("QUJD", 16)+"\n", 3)+"-----END PRIVATE KEY-----\nbehind\n",
		strings.Repeat("x", 4<<10-10)+" ghp_"+strings.Repeat("b", 36)+"\n", "stderr:postgres://bob:hunter22@db.test/x")
	text := strings.Join(lines, "\n")
	const hidden = "postgres://bob:[REDACTED:url-password]@db.test/x"
	for _, want := range []string{`text="token [REDACTED:github-token] ok"`, `text="[REDACTED:pem]"`, `text="behind"`, hidden} {
		bcptest.FailIf(t, !strings.Contains(text, want), "no %s in the log", want)
	}
	for _, secret := range []string{"ghp_", "aaaa", "QUJD", "hunter22"} {
		bcptest.FailIf(t, strings.Contains(text, secret), "%s is in the log", secret)
	}
	bcptest.FailIf(t, last != hidden, "the last line is %q", last)
}

// Kept is what a process printed last before it ended, rather to stderr than to stdout, and no blank line: inert, in one
// line, and cut.
//
// covers A-ANSI, A-LOGFILL
func TestLastLine(t *testing.T) {
	t.Parallel()
	const limit = 200
	for name, c := range map[string]struct{ stdout, stderr, want string }{
		"nothing":        {"", "", ""},
		"blank lines":    {"\n \t\n", "\r\n\n", ""},
		"stdout":         {"first\nlast\n\n", "", "last"},
		"stderr":         {"out\n", "first\nlast\n  \n", "last"},
		"no line break":  {"", "first\nlast", "last"},
		"spaces before":  {"", strings.Repeat(" ", 3000) + "last\n", "last"},
		"spaces around":  {"", "\t last \r\n", "last"},
		"acts":           {"", "\x1b[2Jevil\u202e\u2066\u200b\ufeff\u3164\x00\xff\n", `\x1b[2Jevil\u202e\u2066\u200b\ufeff\u3164\x00\xff`},
		"a line inside":  {"", "a\rforged\u2028forged\u0085x\n", `a\rforged\u2028forged\u0085x`},
		"marks":          {"", "e" + strings.Repeat("\u0301", 3) + "\n", `e\u0301\u0301\u0301`},
		"frames":         {"", "│ bcpmesh: all is well ─▟\n", `\u2502 bcpmesh: all is well \u2500\u259f`},
		"letters":        {"", "Grüße 你好 שלום\n", "Grüße 你好 שלום"},
		"at the limit":   {"", strings.Repeat("é", limit) + "\n", strings.Repeat("é", limit)},
		"one past it":    {"", strings.Repeat("é", limit+1) + "\n", strings.Repeat("é", limit) + "…"},
		"escapes past":   {"", strings.Repeat("\x1b", limit) + "\n", strings.Repeat(`\x1b`, limit/4) + "…"},
		"wide past":      {"", strings.Repeat("\U0001f600", 10*limit) + "\n", strings.Repeat("\U0001f600", limit) + "…"},
		"a mark past it": {"", strings.Repeat("x", limit-3) + "\u0301\n", strings.Repeat("x", limit-3) + "…"},
	} {
		_, line := prints(false, c.stdout, "stderr:"+c.stderr)
		bcptest.FailIf(t, line != c.want, "%s: %q, want %q", name, line, c.want)
	}
}

// In a second 100 lines of a process are logged, and 64 KiB; the others are counted, which is said once a second, also while
// the process says nothing more, and at its end.
//
// covers A-LOGFILL
func TestOutputRateIsLimited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lines, length, logged int }{"lines": {100_000, 10, 100}, "bytes": {500, 4 << 10, 16}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var text bytes.Buffer
				out := NewOutput(hclog.New(&hclog.LoggerOptions{Output: &text}))
				stdout := out.Stdout()
				all := 0
				window := func(what string, end func()) {
					t.Helper()
					_, _ = io.WriteString(stdout, strings.Repeat(strings.Repeat("x", c.length)+"\n", c.lines))
					end()
					synctest.Wait()
					logged, dropped := strings.Count(text.String(), "command printed:"), 0
					_, said, _ := strings.Cut(text.String(), "dropped_lines=")
					_, err := fmt.Sscan(said, &dropped)
					bcptest.FailIf(t, err != nil || logged != c.logged || strings.Count(text.String(), "dropped_lines=") != 1,
						"%s: %d lines are logged, and dropped are %q", what, logged, said)
					all += logged + dropped
					text.Reset()
				}
				window("at first", func() { time.Sleep(time.Second) })
				window("in the next second", func() { time.Sleep(time.Second) })
				window("at the end", func() { stdout.End(); out.End() })
				bcptest.FailIf(t, all != 3*c.lines, "%d lines are logged or counted, of %d", all, 3*c.lines)
			})
		})
	}
}
