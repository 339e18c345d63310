//go:build unix

package supervisor

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/process"
)

const printed = "an agent's command printed"

// What a process prints is one line of the log for each of its own, of which
// every character is visible and none acts or forges another line or field.
//
// covers A-ANSI
func TestOutputIsInert(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	c := b.start("main")
	c.print("stdout", "\x1b[2J\x1b]8;;http://evil\x07click\x1b]8;;\x07\n")
	c.print("stdout", "a\r[INFO]  forged\u2028forged\u0085forged\vforged\x00\x7f\u009b31m\n")
	c.print("stdout", "\u202eevil\u2066\u200b\u200d\ufeff\u00ad\U000e0041\u034f\u3164\u2800\ufe0f\U0001d159 \u00a0|\n")
	c.print("stdout", `quoted" agent=other text="x \" agent=other \\" agent=other`+"\n")
	c.print("stdout", "broken \xff\xc3( \xed\xa0\x80 \ufffd\n")
	c.print("stdout", "Grüße 你好 שלום ✓ é e\u0301 C:\\new\n\n")
	c.print("stderr", "no line break")
	c.tell("exit 0")
	b.expect("main", Resting)
	want := []string{
		`stdout text="\\x1b[2J\\x1b]8;;http://evil\\aclick\\x1b]8;;\\a"`,
		`stdout text="a\\r[INFO]  forged\\u2028forged\\u0085forged\\vforged\\x00\\x7f\\u009b31m"`,
		`stdout text="\\u202eevil\\u2066\\u200b\\u200d\\ufeff\\u00ad\\U000e0041\\u034f\\u3164\\u2800\\ufe0f\\U0001d159 \\u00a0|"`,
		`stdout text="quoted\" agent=other text=\"x \\\" agent=other \\\\\" agent=other"`,
		`stdout text="broken \\xff\\xc3( \\xed\\xa0\\x80 ` + "\ufffd" + `"`,
		`stdout text="Grüße 你好 שלום ✓ é e` + "\u0301" + ` C:\\new"`,
		`stdout text=""`,
		`stderr text="no line break"`,
	}
	for i := range want {
		want[i] = "[INFO]  " + printed + ": agent=main stream=" + want[i]
	}
	equal(t, want, b.text.lines(printed+":"))
	text := b.text.String()
	failIf(t, strings.Count(text, "\n") != len(want)+3, "not one line for each of the output and each change:\n%s", text)
}

// What a process prints has its secrets hidden in the log and in its status, also one that goes over lines, is written in
// pieces, or is longer than a line that is kept.
//
// covers ALF-50
func TestOutputIsRedacted(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	b.pace.backoff = time.Hour
	c := b.start("main")
	c.print("stdout", "token ghp_aaaaaaaa")
	c.print("stdout", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ok\n")
	c.print("stdout", "-----BEGIN PRIVATE KEY-----\n"+strings.Repeat(strings.Repeat("QUJD", 16)+"\n", 3)+"-----END PRIVATE KEY-----\nbehind\n")
	c.print("stdout", strings.Repeat("x", 4<<10-10)+" ghp_"+strings.Repeat("b", 36)+"\n")
	c.print("stderr", "postgres://bob:hunter22@db.test/x")
	c.tell("exit 1")
	status := b.expect("main", Waiting)
	text := b.text.String()
	for _, want := range []string{`text="token [REDACTED:github-token] ok"`, `text="[REDACTED:pem]"`, `text="behind"`, "postgres://bob:[REDACTED:url-password]@db.test/x"} {
		failIf(t, !strings.Contains(text, want), "no %s in the log", want)
	}
	for _, secret := range []string{"ghp_", "aaaa", "QUJD", "hunter22"} {
		failIf(t, strings.Contains(text, secret), "%s is in the log", secret)
	}
	line := status.LastLine
	failIf(t, line != "postgres://bob:[REDACTED:url-password]@db.test/x", "the last line is %q", line)
}

// A log of JSON keeps to the same.
//
// covers A-ANSI
func TestOutputIsInertInJSON(t *testing.T) {
	t.Parallel()
	text := &buffer{}
	b := newBench(t, Config{Logger: hclog.New(&hclog.LoggerOptions{Output: text, JSONFormat: true})})
	c := b.start("main")
	c.print("stderr", "\u202e\x1b[0m\",\"agent\":\"other\n")
	c.tell("exit 0")
	b.expect("main", Resting)
	lines := text.lines(printed)
	var got struct{ Agent, Stream, Text string }
	stopIf(t, len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &got) != nil, "log:\n%s", text)
	failIf(t, got.Agent != "main" || got.Stream != "stderr" || got.Text != `\u202e\x1b[0m","agent":"other`, "%+v", got)
}

// Of a long line the first 4 KiB are logged, and it is said how much is missing.
//
// covers A-LOGFILL
func TestOutputLineIsCut(t *testing.T) {
	t.Parallel()
	const limit = 4 << 10
	b := newBench(t, Config{})
	c := b.start("main")
	lengths := []int{limit, limit + 1, 1 << 20}
	for _, length := range lengths {
		c.print("stdout", strings.Repeat("x", length)+"\n")
	}
	c.print("stdout", strings.Repeat("\x1b", limit+1)) // without a line break
	c.print("stderr", "next\n")
	c.tell("exit 0")
	b.expect("main", Resting)
	for i, line := range []string{
		`text="` + strings.Repeat("x", limit) + `"`,
		`cut_bytes=1 text="` + strings.Repeat("x", limit) + `"`,
		fmt.Sprintf(`cut_bytes=%d text="`, 1<<20-limit) + strings.Repeat("x", limit) + `"`,
		`cut_bytes=1 text="` + strings.Repeat(`\\x1b`, limit) + `"`,
		`text="next"`,
	} {
		stream := "stdout"
		if i == 4 {
			stream = "stderr"
		}
		want := "stream=" + stream + " " + line
		failIf(t, len(b.text.lines(want)) != 1, "line %d is not in the log once: %.100s", i, want)
	}
}

// Kept is what a process printed last before it ended, rather to stderr than to
// stdout, and no blank line: inert, in one line, and cut.
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
		out := process.NewOutput(hclog.NewNullLogger())
		for stream, text := range map[*process.Stream]string{out.Stdout(): c.stdout, out.Stderr(): c.stderr} {
			must(io.WriteString(stream, text))(t)
			stream.End()
		}
		out.End()
		line := out.LastLine()
		failIf(t, line != c.want, "%s: %q, want %q", name, line, c.want)
	}
}

// A status counts the failures in a row. One that ends well ends the row, and so does
// being told to end; then nothing of the process before is said.
//
// covers P9.2
func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	b.pace.maxFailures = 9
	c := b.start("main")
	for n := range 3 {
		c.print("stderr", fmt.Sprintf("failure %d\n", n))
		c.tell("exit 1")
		s := b.expect("main", Waiting)
		failIf(t, s.Failures != n+1 || s.LastLine != fmt.Sprintf("failure %d", n), "failure %d: %+v", n, s)
		s = b.expect("main", Starting, Running)
		failIf(t, s.Failures != n+1, "started again: %+v", s)
		c = b.accept()
	}
	c.tell("exit 0")
	s := b.expect("main", Resting)
	failIf(t, s.Failures != 0 || s.LastLine != "" || s.Exit != "exit status 0", "ended well: %+v", s)
	b.Wake("main")
	b.expect("main", Starting, Running)
	b.accept()
	b.stop()
	s = b.expect("main", Stopping, Stopped)
	failIf(t, s.Failures != 0, "told to end: %+v", s)
}

var dropped = regexp.MustCompile(`dropped_lines=([0-9]+)`)

// droppedLines are all that the log says were dropped, and how often it says so.
func (b *buffer) droppedLines() (sum, times int) {
	for _, m := range dropped.FindAllStringSubmatch(b.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		sum, times = sum+n, times+1
	}
	return sum, times
}

// In a second 100 lines of a process are logged, and 64 KiB; the others are
// counted, which is said once a second, also while the process says nothing
// more.
//
// covers A-LOGFILL
func TestOutputRateIsLimited(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		lines, length int
		perSecond     int
	}{
		{"lines", 100_000, 10, 100},
		{"bytes", 500, 4 << 10, 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{})
			c := b.start("main")
			begin := time.Now()
			c.print("stdout", strings.Repeat(strings.Repeat("x", test.length)+"\n", test.lines))
			eventually(t, "what was dropped is said while the process runs", func() bool {
				sum, _ := b.text.droppedLines()
				return sum+len(b.text.lines(printed+":")) == test.lines
			})
			windows := int(time.Since(begin)/time.Second) + 1
			logged := len(b.text.lines(printed + ":"))
			if _, times := b.text.droppedLines(); times > windows || logged < test.perSecond || logged > windows*test.perSecond {
				t.Errorf("%d lines were logged and %d times some were dropped, in %d seconds", logged, times, windows)
			}
			c.print("stderr", "still here\n")
			eventually(t, "the next second has its own lines", func() bool { return len(b.text.lines("still here")) == 1 })
			// What is dropped at the end is not forgotten.
			c.print("stdout", strings.Repeat("y\n", 1000))
			c.tell("exit 0")
			b.expect("main", Resting)
			if sum, _ := b.text.droppedLines(); sum+len(b.text.lines(printed+":")) != test.lines+1001 {
				t.Errorf("%d lines are neither logged nor counted", test.lines+1001-sum-len(b.text.lines(printed+":")))
			}
		})
	}
}
