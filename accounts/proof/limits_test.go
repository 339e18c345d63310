package proof_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// chain is a way over so many accounts, A0 to the last, on a subject.
func chain(t *testing.T, hops int, subject string) (i *issuer, last string) {
	t.Helper()
	i = newIssuer(t)
	for n := range hops + 1 {
		before := last
		last = fmt.Sprintf("A%d", n)
		i.account(t, last)
		export(i, last, subject, jwt.Service)
		if n > 0 {
			importing(i, before, last, subject, subject, jwt.Service)
		}
	}
	return i, last
}

// A way over sixteen accounts is followed. One over more is not, and then nothing is said
// to be shown; nor is it where the ways of a trusted party are too many: those to tools, and
// those of a request that belongs to a role.
func TestLongWays(t *testing.T) {
	t.Parallel()
	for _, way := range []struct{ from, to, subject string }{
		{"from", "to", "s"}, {"gateway", "tool-mail", "s"}, {"gateway", "nobody", subjects.All(subjects.KindRun)},
	} {
		for hops, want := range map[int]error{16: nil, 17: proof.ErrTangled} {
			i, last := chain(t, hops, way.subject)
			i.scope(t, "A0", way.from).Template.Pub.Allow.Add(way.subject)
			at := last
			if way.from == "gateway" {
				at = "A0"
			}
			to := i.scope(t, at, way.to)
			to.Template.Sub.Allow.Add(way.subject)
			to.Template.Pub.Deny.Add(">")
			report, err := proof.Prove(i.claims(t), proof.Policy{Trusted: []string{"gateway"}})
			found := report.Of(proof.Agents)
			failIf(t, !errors.Is(err, want) || err == nil && way.from == "from" && (len(found) != 1 || len(found[0].Way) != hops+2),
				"%s of %s, %d hops: %v %v", way.subject, way.from, hops, err, found)
		}
	}
}

// ways are how many lead from one to another, in a proof of claims.
func ways(t *testing.T, claims proof.Claims, from, to string) (n int, report proof.Report) {
	t.Helper()
	report = must(proof.Prove(claims, proof.Policy{}))(t)
	for _, h := range report.Of(proof.Agents) {
		if h.From == from && h.To == to {
			n++
		}
	}
	return n, report
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
		failIf(t, (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want),
			"%.20s… of %d: %v", text, len(text), err)
	}
	_, err := proof.Prove(proof.Claims{}, proof.Policy{})
	failIf(t, !errors.Is(err, proof.ErrNoTokens), "an empty set: %v", err)
}

// An import is a way only if the exporter grants it: the subject, the kind and, for a private
// export, a token.
func TestImportsThatAreNotGranted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		subject string
		kind    jwt.ExportType
		private bool
		ways    int
	}{
		"granted":          {"s.a", jwt.Service, false, 1},
		"another subject":  {"t.a", jwt.Service, false, 0},
		"another kind":     {"s.a", jwt.Stream, false, 0},
		"private":          {"s.a", jwt.Service, true, 0},
		"no valid subject": {"s..a", jwt.Service, false, 0},
	} {
		i := newIssuer(t)
		i.account(t, "from")
		i.account(t, "to")
		export(i, "to", "s.*", c.kind).TokenReq = c.private
		importing(i, "from", "to", c.subject, c.subject, jwt.Service)
		i.scope(t, "from", "a").Template.Pub.Allow.Add("s..a", "*.a")
		i.scope(t, "to", "b").Template.Sub.Allow.Add("s.a")
		var claims proof.Claims
		for _, each := range []string{"from", "to"} {
			claims.Accounts = append(claims.Accounts, i.accounts[each])
		}
		n, report := ways(t, claims, "a", "b")
		failIf(t, n != c.ways, "%s: %d ways, %v", name, n, report.Holes)
	}
}

// A user that the account's own key signed has the permissions that it says, unless the
// operator lets only signing keys sign: then it is refused.
//
// covers A-JWTSELF
func TestUsersOfAnAccountsOwnKey(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		i := newIssuer(t)
		i.rules.StrictSigningKeyUsage = strict
		a := i.account(t, "A")
		i.scope(t, "A", "b").Template.Sub.Allow.Add("s")
		token, _ := i.user(t, "A", a.Subject, "own", func(u *jwt.UserClaims) { u.Pub.Allow.Add("s") })
		claims := i.claims(t)
		noError(t, claims.Add(token))
		n, report := ways(t, claims, "own", "b")
		failIf(t, (n > 0) == strict || (report.Refused == 1) != strict, "strict %t: %d ways, %d refused", strict, n, report.Refused)
	}
}

// What no client can subscribe to is heard by nobody, and ends no proof.
//
// covers A-SUBJTOK
func TestSubscriptionsThatAreNone(t *testing.T) {
	t.Parallel()
	for subscription, heard := range map[string]bool{"s": true, "s queue": true, " ": false, "s queue more": false, "s..": false} {
		i := newIssuer(t)
		a := i.account(t, "A")
		i.scope(t, "A", "a").Template.Pub.Allow.Add("s")
		i.scope(t, "A", "b").Template.Sub.Allow = jwt.StringList{subscription}
		n, _ := ways(t, proof.Claims{Accounts: []*jwt.AccountClaims{a}}, "a", "b")
		failIf(t, (n > 0) != heard, "%q: %d ways", subscription, n)
	}
}

// Each operator is a mesh of its own, and of one account the newest JWT counts. Nothing
// leads from one mesh into the other, whatever it is named, unless an account imports it.
//
// covers A-WILD, A-SYS
func TestTwoMeshes(t *testing.T) {
	t.Parallel()
	one, two := shipped(t, office()), shipped(t, office())
	both := func() proof.Report {
		var c proof.Claims
		for _, i := range []*issuer{one, one, two} {
			operator, accounts := i.tokens(t)
			noError(t, c.Add(strings.Join(append(accounts, operator), "\n")))
		}
		return must(proof.Prove(c, proof.Policy{}))(t)
	}
	alone, report := one.prove(t), both()
	failIf(t, len(report.Holes) > 0 || report.Accounts != 2*alone.Accounts || len(report.Principals) != 2*len(alone.Principals),
		"%d accounts, %d principals: %v", report.Accounts, len(report.Principals), report.Holes)
	exported, readers := one.accounts[accounts.Core].Exports, two.accounts[accounts.Readers]
	own := slices.Clone(readers.Imports)
	for _, e := range exported {
		i := &jwt.Import{Name: "x", Account: one.accounts[accounts.Core].Subject, Subject: e.Subject, Type: e.Type}
		readers.Imports = append(slices.Clone(own), i)
		found := both().Of(proof.Meshes)
		failIf(t, len(found) != 1, "%s is imported by another mesh: %v", e.Subject, found)
	}
	failIf(t, len(exported) == 0, "nothing is exported")
	// An account that the other operator signs as well is the other's from then on.
	stolen := one.accounts[accounts.Readers]
	stolen.IssuedAt = time.Now().Add(time.Hour).Unix()
	token := must(stolen.Encode(two.signer))(t)
	c := one.claims(t)
	operator, _ := two.tokens(t)
	for _, text := range []string{operator, token} {
		noError(t, c.Add(text))
	}
	report, err := proof.Prove(c, proof.Policy{})
	failIf(t, err != nil || len(report.Of(proof.Meshes)) == 0, "an account that was taken over is not found: %v", err)
}
