package audit

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// What a run found has its exit code, and what agents chose is shown inert.
//
// covers P2.5, P11.3
func TestRedecideReport(t *testing.T) {
	t.Parallel()
	const hostile = "q\x1b[2J\u202e"
	differs := state.Redecision{Comparison: state.ComparedDiffers, Aspect: state.AspectVerdict, Rule: "P3.3", Was: &bcp.Decision{Verdict: bcp.Accept, Private: bcp.Private{Payload: []byte(`"canary"`)}},
		Would: &bcp.Decision{Verdict: bcp.Reject, Code: bcp.ValidationFailed, Reason: bcp.ReasonWords, Field: hostile}}
	incident := differs
	incident.Incident = true
	comparison := func(c state.Comparison) state.Redecision { return state.Redecision{Comparison: c} }
	for name, c := range map[string]struct {
		results []state.Redecision
		code    int
		says    string
	}{
		"nothing":   {nil, cli.ExitFailed, "decided again  0"},
		"same":      {[]state.Redecision{comparison(state.ComparedSame), comparison("")}, cli.ExitOK, "decided again  1: 1 same"},
		"follows":   {[]state.Redecision{differs, comparison(state.ComparedFollows)}, cli.ExitFailed, "not judged     1 decision about asks that would be refused\n"},
		"erased":    {[]state.Redecision{comparison(state.ComparedErased)}, cli.ExitPartly, "not possible   1: 1 erased"},
		"cut":       {[]state.Redecision{comparison(state.ComparedCut)}, cli.ExitPartly, "1 longer than what is kept"},
		"both":      {[]state.Redecision{differs, comparison(state.ComparedCut)}, cli.ExitFailed, "0 same, 1 differ"},
		"incident":  {[]state.Redecision{incident}, cli.ExitFailed, "push s (incident)"},
		"many":      {[]state.Redecision{differs, differs, differs}, cli.ExitFailed, "P3.3 verdict"},
		"many more": {[]state.Redecision{differs, differs, differs}, cli.ExitFailed, "and 1 more: "},
	} {
		for _, asJSON := range []bool{false, true} {
			var stdout, stderr bytes.Buffer
			o := cli.NewOutput(&stdout, &stderr)
			o.JSON = asJSON
			r := Redecided{out: o, flags: &redecide{Number: cli.NumberFlag{Value: 2}}, versions: map[bcp.Digest]string{}}
			for i, result := range c.results {
				d := bcp.Decision{Seq: uint64(i + 1), Kind: bcp.KindPush, Agent: "mail", Subscription: "s"}
				noError(t, r.each(&d, result))
			}
			if got := o.Finish(r.finish()); got != c.code {
				t.Errorf("%s: exit code %d, want %d: %s", name, got, c.code, &stderr)
			}
			shown := stdout.String()
			failIf(t, !asJSON && !strings.Contains(shown, c.says) || strings.ContainsAny(shown, "\x1b\u202e") || strings.Contains(shown, "canary"),
				"%s: %s", name, shown)
		}
	}
}

// A person sees no secret in an answer that was decided again; JSON has it.
//
// covers ALF-48
func TestRedecidedAnswersAreRedacted(t *testing.T) {
	t.Parallel()
	const answer = `{"q":"password: x9k-mfa2z"}`
	r := &Redecided{flags: &redecide{Raw: true}}
	j := &bcp.Decision{Verdict: bcp.Accept, Private: bcp.Private{Payload: []byte(answer)}}
	cell := r.judgement(j).words()
	failIf(t, !strings.Contains(cell, "[REDACTED:dotenv]") || strings.Contains(cell, "x9k-mfa2z"), "%s", cell)
	line := r.judgement(j)
	failIf(t, string(line.Response) != answer, "%s", line.Response)
}

// A person's decision that nobody signed as it is recorded is an incident, whatever else
// there is.
//
// covers P7.3, P11.3
func TestRedecideFindsForgedDecisions(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	o := cli.NewOutput(&stdout, &stderr)
	r := Redecided{out: o, flags: &redecide{}, versions: map[bcp.Digest]string{}}
	pair, err := nkeys.CreateUser()
	noError(t, err)
	d := bcp.Decision{Seq: 1, Kind: bcp.KindApproval, Role: bcp.RoleApprover, Verdict: bcp.Accept, Item: "i1", Event: string(bcp.Approve), SignedUntil: 1e18}
	if d.Key, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	if d.Signature, err = pair.Sign(bcp.Statement(d.Item, bcp.Approve, d.Released, time.Unix(0, d.SignedUntil))); err != nil {
		t.Fatal(err)
	}
	forged, refused, erased := d, d, d
	forged.Seq, forged.Item = 2, "i2"
	refused.Verdict, refused.Signature = bcp.Reject, nil
	erased.Erased, erased.Signature = true, nil
	for _, d := range []bcp.Decision{d, refused, erased} {
		noError(t, r.each(&d, state.Redecision{}))
	}
	if got := o.Finish(r.finish()); got != cli.ExitOK || !strings.Contains(stdout.String(), "signatures     1 decision of people, 0 of them bad") {
		t.Errorf("exit code %d: %s%s", got, &stdout, &stderr)
	}
	for range 2 {
		noError(t, r.each(&forged, state.Redecision{}))
	}
	if got := o.Finish(r.finish()); got != cli.ExitFailed || !strings.Contains(stderr.String(), "no approver signed decision 2 and 1 more as recorded") {
		t.Errorf("exit code %d: %s%s", got, &stdout, &stderr)
	}
}

var noError, failIf = bcptest.NoError, bcptest.FailIf
