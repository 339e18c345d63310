//go:build unix

package audit

import (
	"bytes"
	"io"
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
			out := cli.NewOutput(&written, io.Discard)
			teller := teller{out: out}
			d := base
			d.Kind, d.Verdict = kind, verdict
			if kind == bcp.KindApproval {
				d.Event = string(bcp.RejectItem)
			}
			noError(t, teller.tell(&replayed{Decision: d, Raw: &rawMessage{Base64: []byte(evil), Bytes: len(evil) + 1}}))
			d.Delivery, d.Query, d.Item = "", "", ""
			noError(t, teller.tell(&replayed{Decision: d, Raw: &rawMessage{Base64: []byte(evil), Bytes: len(evil) + 1}}))
			showExplanation(out, &explainedDecision{Explanation: tell.Explain(&d, nil), Decision: d})
			d = base
			d.Kind = kind
			showExplanation(out, &explainedDecision{Explanation: tell.Explain(&d, nil), Decision: d})
			noError(t, out.Flush())
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

// Records are told in their order, and those of one exchange that follow each other under one head.
//
// covers P11.3
func TestReplayTellsExchanges(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	out := cli.NewOutput(&written, io.Discard)
	teller := teller{out: out}
	for i, d := range []bcp.Decision{
		{Kind: bcp.KindAsk, Agent: "main", Query: "q1", Verdict: bcp.Hold, Item: "i1", Delivery: "d1", Outcome: bcp.Held},
		{Kind: bcp.KindApproval, Agent: "ann", Event: "approve", Verdict: bcp.Accept, Query: "q1", Item: "i1"},
		{Kind: bcp.KindPush, Agent: "mailer", Subscription: "s", Verdict: bcp.Accept, Delivery: "d2"},
		{Kind: bcp.KindAcknowledge, Agent: "main", Delivery: "d2", Subscription: "s"},
		{Kind: bcp.KindAnswer, Agent: "mailer", Query: "q1", Verdict: bcp.Accept, Delivery: "d3"},
		{Kind: bcp.KindStart},
		{Kind: bcp.KindAcknowledge, Agent: "main", Delivery: "d3", Query: "q1"},
		{Kind: bcp.KindAsk, Agent: "main", Verdict: bcp.Reject, Check: bcp.CheckBudget, Code: bcp.BudgetExhausted, Lack: bcp.Bit},
		{Kind: bcp.KindAsk, Agent: "main", Verdict: bcp.Reject, Check: bcp.CheckBudget, Code: bcp.BudgetExhausted, Lack: bcp.Bit},
	} {
		d.Seq, d.Time, d.Controller, d.Reader = uint64(i+1), int64(i+1)*int64(time.Millisecond), "main", "mailer"
		noError(t, teller.tell(&replayed{Decision: d}))
	}
	noError(t, out.Flush())
	told := ""
	for line := range strings.Lines(written.String()) {
		if number, since, ok := strings.Cut(strings.TrimSpace(line), "  +"); ok {
			told += " " + number + "+" + since[:5]
		} else {
			told += " |"
		}
	}
	want := " | 1+0.000 2+0.001 | 3+0.000 4+0.001 | 5+0.000 | | 7+0.000 | 8+0.000 | 9+0.000"
	failIf(t, told != want, "told%s\nwant%s", told, want)
}
