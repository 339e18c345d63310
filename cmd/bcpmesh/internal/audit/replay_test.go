//go:build unix

package audit

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

const evil = "go\x1b[31m\u202eon\u200b\nnow"

// Whatever agents chose shows and does nothing else, in a replay and in an
// explanation.
//
// covers P2.5, P7.2
func TestReplayIsInert(t *testing.T) {
	t.Parallel()
	base := bcp.Decision{Time: 1, Agent: "main", Controller: "main", Reader: "mailer", Justification: evil, Family: evil, Note: evil, Field: evil,
		Query: evil, Delivery: evil, Item: evil, Subscription: evil, Session: evil, Event: evil, Verdict: bcp.Reject, Code: bcp.ValidationFailed, Reason: bcp.ReasonValue}
	for _, kind := range bcp.DecisionKinds() {
		for _, verdict := range []bcp.Outcome{bcp.Accept, bcp.Hold, bcp.Reject} {
			var written bytes.Buffer
			out := cli.NewOutput(&written, io.Discard, func(string) string { return "" })
			teller := newTeller(out)
			d := base
			d.Kind, d.Verdict = kind, verdict
			if kind == bcp.KindApproval {
				d.Event = string(bcp.RejectItem)
			}
			if err := teller.tell(&replayed{Decision: d, Raw: &rawMessage{Base64: []byte(evil), Bytes: len(evil) + 1}}); err != nil {
				t.Fatal(err)
			}
			teller.tellOpen()
			d.Delivery, d.Query, d.Item = "", "", ""
			if err := teller.tell(&replayed{Decision: d, Raw: &rawMessage{Base64: []byte(evil), Bytes: len(evil) + 1}}); err != nil {
				t.Fatal(err)
			}
			showExplanation(out, &explainedDecision{Explanation: tell.Explain(&d, nil), Decision: d})
			d = base
			d.Kind = kind
			showExplanation(out, &explainedDecision{Explanation: tell.Explain(&d, nil), Decision: d})
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(written.String()) {
				if line = strings.TrimSuffix(line, "\n"); line != cli.Plain(line) {
					t.Errorf("%s: not harmless: %q", kind, line)
				}
			}
			if strings.Contains(written.String(), "\nnow") {
				t.Errorf("%s: a line of an agent's making:\n%s", kind, &written)
			}
		}
	}
}

// An exchange is told once, when it has ended: with what came of it, however
// others lie between.
//
// covers P11.3
func TestReplayTellsExchanges(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	out := cli.NewOutput(&written, io.Discard, func(string) string { return "" })
	teller := newTeller(out)
	seq := uint64(0)
	told := func(d bcp.Decision) string {
		t.Helper()
		seq++
		d.Seq, d.Time, d.Controller, d.Reader = seq, int64(seq)*int64(time.Millisecond), "main", "mailer"
		if err := teller.tell(&replayed{Decision: d}); err != nil {
			t.Fatal(err)
		}
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		defer written.Reset()
		return written.String()
	}
	steps := []struct {
		d    bcp.Decision
		want string // what is told then, the numbers of the decisions
	}{
		{bcp.Decision{Kind: bcp.KindAsk, Agent: "main", Query: "q1", Verdict: bcp.Hold, Item: "i1", Delivery: "d1", Outcome: bcp.Held}, ""},
		{bcp.Decision{Kind: bcp.KindPush, Agent: "mailer", Subscription: "s", Verdict: bcp.Accept, Delivery: "d2"}, ""},
		{bcp.Decision{Kind: bcp.KindAcknowledge, Agent: "main", Delivery: "d1", Query: "q1"}, ""},
		{bcp.Decision{Kind: bcp.KindApproval, Agent: "ann", Event: "approve", Verdict: bcp.Accept, Query: "q1", Item: "i1"}, ""},
		{bcp.Decision{Kind: bcp.KindAcknowledge, Agent: "main", Delivery: "d2", Subscription: "s"}, "2 5"},
		{bcp.Decision{Kind: bcp.KindAnswer, Agent: "mailer", Query: "q1", Verdict: bcp.Reject, Check: bcp.CheckAnswer, Code: bcp.ValidationFailed, Attempt: 1}, ""},
		{bcp.Decision{Kind: bcp.KindAnswer, Agent: "mailer", Query: "q1", Verdict: bcp.Accept, Delivery: "d3"}, ""},
		{bcp.Decision{Kind: bcp.KindAsk, Agent: "main", Verdict: bcp.Reject, Check: bcp.CheckBudget, Code: bcp.BudgetExhausted, Lack: bcp.Bit}, "8"},
		{bcp.Decision{Kind: bcp.KindAcknowledge, Agent: "main", Delivery: "d3", Query: "q1"}, "1 3 4 6 7 9"},
		{bcp.Decision{Kind: bcp.KindPush, Agent: "mailer", Subscription: "s", Verdict: bcp.Hold, Item: "i2"}, ""},
		{bcp.Decision{Kind: bcp.KindApproval, Agent: "ann", Event: "reject", Verdict: bcp.Accept, Item: "i2", Subscription: "s"}, "10 11"},
		{bcp.Decision{Kind: bcp.KindAsk, Agent: "main", Query: "q2", Verdict: bcp.Accept}, ""},
	}
	number := regexp.MustCompile(`(?m)^ +(\d+)  \+`)
	numbers := func(text string) string {
		var all []string
		for _, m := range number.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return strings.Join(all, " ")
	}
	for i, step := range steps {
		if got := numbers(told(step.d)); got != step.want {
			t.Errorf("step %d tells %q, want %q", i+1, got, step.want)
		}
	}
	teller.tellOpen()
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := numbers(written.String()); got != "12" {
		t.Errorf("at the end: %q", got)
	}
	if len(teller.open) > 0 || len(teller.of) > 0 {
		t.Errorf("left over: %v %v", teller.open, teller.of)
	}
	written.Reset()
	for range maxTold + 1 {
		seq++
		if err := teller.tell(&replayed{Decision: bcp.Decision{Seq: seq, Kind: bcp.KindAsk, Controller: "main", Reader: "mailer", Query: bcp.QueryID(fmt.Sprint("q", seq)), Verdict: bcp.Accept}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil || len(teller.open) != maxTold || numbers(written.String()) != "13" {
		t.Errorf("%d open, told %q, %v", len(teller.open), numbers(written.String()), err)
	}
}
