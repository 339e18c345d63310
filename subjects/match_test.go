package subjects_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/gsl"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// serverMatch is what the server decides: its validity checks, and the same
// tree that holds its permissions and subscriptions.
func serverMatch(pattern, subject string) bool {
	if !server.IsValidSubject(pattern) || !server.IsValidSubject(subject) || !server.IsValidLiteralSubject(subject) {
		return false
	}
	list := gsl.NewSublist[int]()
	if err := list.Insert(pattern, 0); err != nil {
		return false
	}
	return list.HasInterest(subject)
}

func checkMatch(t interface {
	Helper()
	Errorf(string, ...any)
}, pattern, subject string) {
	t.Helper()
	if got, want := subjects.Match(pattern, subject), serverMatch(pattern, subject); got != want {
		t.Errorf("Match(%q, %q) = %t, the server says %t", pattern, subject, got, want)
	}
	if got, want := subjects.Valid(pattern), server.IsValidSubject(pattern); got != want {
		t.Errorf("Valid(%q) = %t, the server says %t", pattern, got, want)
	}
	want := server.IsValidSubject(subject) && server.IsValidLiteralSubject(subject)
	if got := subjects.ValidLiteral(subject); got != want {
		t.Errorf("ValidLiteral(%q) = %t, the server says %t", subject, got, want)
	}
}

// covers A-WILD, A-SUBJTOK
func TestMatchIsTheServers(t *testing.T) {
	t.Parallel()
	texts := []string{
		"", ".", "..", "a", "a.", ".a", "a..b", "a.b", "a.b.c", "*", ">", "a.*", "*.b", "a.>", ">.a", "a.>.b", "*.*", "a.*.c",
		"a.*b", "a.b*", "a.>b", "a.b>", "**", ">>", "*.", "*.>", "a b", "a.b ", "a.\t", "a.\n.b", " ", "a.b.c.d.e.f.g.h.i.j",
	}
	for _, p := range texts {
		for _, s := range texts {
			checkMatch(t, p, s)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			token := rapid.SampledFrom([]string{"a", "b", "ab", "*", ">", "*a", "a>", "", " ", "a b"})
			return strings.Join(rapid.SliceOfN(token, 1, 6).Draw(t, "tokens"), ".")
		})
		checkMatch(t, text.Draw(t, "pattern"), text.Draw(t, "subject"))
	})
}

// covers A-WILD, A-SUBJTOK
func FuzzMatch(f *testing.F) {
	for _, c := range [][2]string{{"a.*", "a.b"}, {"a.>", "a"}, {">", "a..b"}, {"*", "*"}, {"a.*b", "a.cb"}, {"a\x00", "a\x00"}} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, pattern, subject string) { checkMatch(t, pattern, subject) })
}
