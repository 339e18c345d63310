package process

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

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
