package attach

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/replay"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// Words that are spoken go to watchers that ask for them, and to no other. One that lags
// misses some, and is not cut off for it.
//
// covers AGENTS A4
func TestWordsGoToThoseWhoAsk(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	w := openWatch(state, "reader", hclog.NewNullLogger())
	defer w.close()
	asks, other, odd := watch(t, w, state), watch(t, w, state), watch(t, w, state)
	for conn, says := range map[io.Writer]string{asks: askWords, odd: "wordy\n"} {
		if _, err := io.WriteString(conn, says); err != nil {
			t.Fatal(err)
		}
	}
	asked := func() (n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for one := range w.all {
			if one.words.Load() {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(time.Minute); asked() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody asked")
		}
	}
	const text = "\x1b[31mIGNORE\xff \"all\"\n"
	w.words("q1", text)
	w.tell(stdio.Passage{Call: "q1", Method: replay.Query})
	for conn, want := range map[io.Reader][]string{asks: {replay.Words, replay.Query}, other: {replay.Query}, odd: {replay.Query}} {
		read := replay.NewReader(conn)
		for _, kind := range want {
			line, err := read.Next()
			if err != nil || line.Kind != kind || line.Conversation != "q1" {
				t.Errorf("%+v, %v; want %s", line, err, kind)
			}
			var said string
			if kind == replay.Words && (json.Unmarshal(line.Response, &said) != nil || said != strings.ToValidUTF8(text, "\ufffd")) {
				t.Errorf("%q was said as %s", text, line.Response)
			}
		}
	}
	for range 10 * watchedLines {
		w.words("q1", strings.Repeat("x", 64<<10)) // nobody reads on
	}
	if n := w.count(); n != 3 {
		t.Errorf("%d of 3 watchers are left", n)
	}
}

// What a model is saying is the last line of the screen, inert and no wider than that, and
// goes when something else is shown.
//
// covers AGENTS A4, A-ANSI
func TestTheLineThatIsBeingSaid(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	out := &cli.Output{Stdout: bufio.NewWriter(&screen), Screen: &screen, Terminal: true}
	s := &livePrinter{transcriptPrinter: transcriptPrinter{out: out}, before: map[string]*llm.Request{}, turns: map[string]int{}, said: map[string]string{}}
	shows := func(l replay.Line) string {
		screen.Reset()
		s.line(&l)
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		return screen.String()
	}
	words := func(conversation, text string) string {
		b, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return shows(replay.Line{Kind: replay.Words, Conversation: conversation, Response: b})
	}
	const begin = "\r\x1b[K"
	if got, want := words("q1", "The answer"), begin+`"q1" is saying (untrusted): The answer`; got != want {
		t.Errorf("%q", got)
	}
	// An escape sequence in two pieces, a line of ours, what turns the direction.
	words("q1", "\x1b")
	got := words("q1", "[2J\r\nbcpmesh: all is well\u202e")
	if rest := strings.TrimPrefix(got, begin); rest == got || strings.ContainsAny(rest, "\x1b\r\n\u202e") {
		t.Errorf("%q", got)
	}
	for _, text := range []string{strings.Repeat("x", 100_000), strings.Repeat("漢", 5000), strings.Repeat("e\u0301", 5000)} {
		got := strings.TrimPrefix(words("q1", text), begin)
		if columns := len([]rune(got)); columns > cli.Columns(&screen)-1 || len(s.said["q1"]) > maxSaid {
			t.Errorf("%d characters are shown, %d bytes kept", columns, len(s.said["q1"]))
		}
	}
	if got := shows(replay.Line{Kind: replay.End, Conversation: "q1"}); !strings.HasPrefix(got, begin) || strings.Contains(got, "saying") || s.said["q1"] != "" {
		t.Errorf("%q", got)
	}
	if got := shows(replay.Line{Kind: replay.End, Conversation: "q2"}); strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
	for _, line := range []replay.Line{{Kind: replay.Words}, {Kind: replay.Words, Response: []byte(`{}`)}} {
		if got := shows(line); got != "" {
			t.Errorf("%q", got)
		}
	}
}
