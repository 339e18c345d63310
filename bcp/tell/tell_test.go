package tell_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// What an agent chose is inert in every line about every kind of decision, and adds no
// line.
//
// covers P2.5, P7.2, A-ANSI
func TestSentencesAreInert(t *testing.T) {
	t.Parallel()
	for name, evil := range bcptest.Texts {
		evil = evil[:min(len(evil), 600)] // a sentence cuts them far earlier
		base := bcp.Decision{Time: 1, Seq: 7, Agent: "main", Controller: "main", Reader: "mailer", Justification: evil, Family: evil, Note: evil, Field: evil,
			Key: evil, Query: bcp.QueryID(evil), Delivery: bcp.DeliveryID(evil), Item: bcp.ItemID(evil), Subscription: bcp.SubscriptionID(evil),
			Session: bcp.SessionID(evil), Event: evil, Code: bcp.ValidationFailed, Reason: bcp.ReasonValue}
		for _, kind := range bcp.DecisionKinds() {
			for _, verdict := range []bcp.Outcome{bcp.Accept, bcp.Hold, bcp.Reject} {
				for _, begins := range []bool{false, true} {
					d := base
					d.Kind, d.Verdict, d.SessionBegins, d.SessionEnds = kind, verdict, begins, !begins
					d.Run = &bcp.RunChange{Run: evil, Kernel: bcp.AgentName(evil), From: bcp.AgentName(evil)}
					if begins {
						d.Run.Code = evil
					} else {
						c := kernel.Change{Kind: bcp.KindCall, Told: &kernel.PlanError{Code: kernel.Code(evil)}, Wait: &kernel.Wait{Kind: kernel.WaitTool, Tool: evil, Agent: bcp.AgentName(evil)}, Steps: []kernel.StepRecord{{Path: evil, Kind: kernel.ToolStep, Tool: evil, Done: true}}}
						d.Run.Change = c.AppendJSON(nil)
					}
					for _, line := range []string{tell.Head(&d), tell.Event(&d), tell.Line(&d, d.At().Add(-time.Second)), tell.Sentence(&d) + "\n"} {
						if line = strings.TrimSuffix(line, "\n"); line != inert.Line(line) || line == "" {
							t.Errorf("%s, %s: %q", name, kind, line)
						}
					}
				}
			}
		}
	}
}

// covers P11.3, A-SCROLL
func TestSentence(t *testing.T) {
	t.Parallel()
	got, want := tell.Length(bcptest.Texts["newlines"]), "10010 characters, 3 words"
	failIf(t, got != want, "%q, want %q", got, want)
	for _, c := range []struct {
		d    bcp.Decision
		want string
	}{
		{bcp.Decision{Kind: bcp.KindPush, Agent: "mailer", Controller: "main", Reader: "mailer", Verdict: bcp.Accept, Delivery: "d2", Taint: bcp.TaintLow,
			Nominal: 2 * bcp.Bit, Capacity: 3*bcp.Bit + 1}, "mailer pushes on main ← mailer: accepted; delivered as d2, delivered taint low; 2 bits (capacity 3.1)"},
		{bcp.Decision{Kind: bcp.KindApproval, Agent: "ann", Event: "reject", Verdict: bcp.Accept}, "ann rejects"},
		{bcp.Decision{Kind: bcp.KindApproval, Agent: "ann", Event: "approve", Verdict: bcp.Accept, Passkey: bcp.Digest{1}}, "ann approves: signed with a passkey"},
		{bcp.Decision{Kind: bcp.KindApproval, Agent: "ann", Event: "approve", Verdict: bcp.Accept, Statement: bcp.Digest{0xab, 0xcd}}, "ann approves: in one statement with others, abcd00000000"},
		{bcp.Decision{Kind: bcp.KindRun, Agent: "kim", Run: &bcp.RunChange{Run: "r1", Kernel: "desk", From: "kim", Change: jsontext.Value(`{"kind":24,"wait":{"kind":"planner","agent":"ann"}}`)}}, "kim asks for run r1 of desk: waits for planner ann"},
		{bcp.Decision{Kind: bcp.KindOutcome, Run: &bcp.RunChange{Run: "r1", Kernel: "desk", From: "mail", Code: "second_outcome"}}, "mail returns to run r1 of desk: refused: second_outcome"},
		{bcp.Decision{Kind: bcp.KindCall, Run: &bcp.RunChange{Run: "r1", Kernel: "desk", Change: jsontext.Value(`{"kind":27,"end":{"status":"aborted","code":"planner_timeout"}}`)}}, "the gateway goes on with run r1 of desk: run_aborted; planner_timeout"},
		{bcp.Decision{Kind: bcp.KindBatch, Subscription: "s", Count: 2}, "the gateway ends the window of s, with 2 answers"},
	} {
		got := tell.Sentence(&c.d)
		failIf(t, got != c.want, "%q, want %q", got, c.want)
	}
}

var failIf = bcptest.FailIf
