package proof_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A way over sixteen accounts is followed. One over more is not, and then
// nothing is said to be shown.
func TestLongWays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hops int
		err  error
	}{{16, nil}, {17, proof.ErrTangled}} {
		i := newIssuer(t)
		for n := range c.hops + 1 {
			i.account(t, fmt.Sprintf("A%d", n))
			export(i, fmt.Sprintf("A%d", n), "s", jwt.Service)
			if n > 0 {
				importing(i, fmt.Sprintf("A%d", n-1), fmt.Sprintf("A%d", n), "s", "s", jwt.Service)
			}
		}
		i.scope(t, "A0", "from").Template.Pub.Allow.Add("s")
		to := i.scope(t, fmt.Sprintf("A%d", c.hops), "to")
		to.Template.Sub.Allow.Add("s")
		to.Template.Pub.Deny.Add(">")
		report, err := proof.Prove(i.claims(t), proof.Policy{})
		if !errors.Is(err, c.err) || err == nil && (len(report.Of(proof.Agents)) != 1 || len(report.Holes[0].Way) != c.hops+2) {
			t.Errorf("%d hops: %v %v", c.hops, err, report.Holes)
		}
	}
}

func TestTokensAreBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		strings.Repeat("eyJa.b.c ", proof.MaxTokens):           "a JWT is not valid",
		strings.Repeat("eyJa.b.c ", proof.MaxTokens+1):         "more than 100000 JWTs",
		"eyJ" + strings.Repeat("a", proof.MaxToken-7) + ".b.c": "a JWT is not valid",
		"eyJ" + strings.Repeat("a", proof.MaxToken-6) + ".b.c": "a JWT of 4194305 bytes",
		"no token here": "",
	} {
		var c proof.Claims
		err := c.Add(text)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20s… of %d: %v", text, len(text), err)
		}
	}
	if _, err := proof.Prove(proof.Claims{}, proof.Policy{}); !errors.Is(err, proof.ErrNoTokens) {
		t.Errorf("an empty set: %v", err)
	}
}

// Nor is anything said to be shown where the ways of a trusted party are too many: those
// to tools, and those of a request that belongs to a role.
func TestLongWaysOfTheTrusted(t *testing.T) {
	t.Parallel()
	for _, way := range []struct{ subject, last string }{{"s", "tool-mail"}, {subjects.All(subjects.KindRun), "nobody"}} {
		for hops, want := range map[int]error{16: nil, 17: proof.ErrTangled} {
			i := newIssuer(t)
			for n := range hops + 1 {
				i.account(t, fmt.Sprintf("A%d", n))
				export(i, fmt.Sprintf("A%d", n), way.subject, jwt.Service)
				if n > 0 {
					importing(i, fmt.Sprintf("A%d", n-1), fmt.Sprintf("A%d", n), way.subject, way.subject, jwt.Service)
				}
			}
			i.scope(t, "A0", "gateway").Template.Pub.Allow.Add(way.subject)
			i.scope(t, "A0", way.last).Template.Pub.Deny.Add(">")
			if _, err := proof.Prove(i.claims(t), proof.Policy{Trusted: []string{"gateway"}}); !errors.Is(err, want) {
				t.Errorf("%s, %d hops: %v", way.subject, hops, err)
			}
		}
	}
}

// Two operators are two worlds, and of one account the newest JWT counts.
func TestSetsOfTokens(t *testing.T) {
	t.Parallel()
	one, two := newIssuer(t), newIssuer(t)
	var c proof.Claims
	first, _ := one.tokens(t)
	second, _ := two.tokens(t)
	if err := c.Add(first + "\n" + first); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(second); err == nil {
		t.Error("two operators were taken")
	}
}
