package state

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The seeds contradict each other in places; docs/REQUIREMENTS.md lists them as
// C-1 and on. Each test here says in its name how the protocol reads one. Where
// another test does, the mark stands there.

// A delivery bears its agent's taint one level down, exactly. The session that
// gets it is as exposed as the greatest of them; the Controller itself is not
// tainted, so that its next session begins clean.
//
// covers C-1, SUB-102, P8.2, P8.3
func TestDeliveryBearsTheStepDownAndExposesTheSessionOnly(t *testing.T) {
	t.Parallel()
	for base, down := range map[bcp.Taint]bcp.Taint{bcp.TaintHigh: bcp.TaintMedium, bcp.TaintMedium: bcp.TaintLow, bcp.TaintLow: bcp.TaintLow} {
		mesh := testMesh()
		mesh.Agents[1].BaseTaint = base // mail
		w := newWorld(t, mesh).play(`
			push mail planner alarm {"ok":true} => accept taint:` + down.String() + `
			ask planner mail yes                => accept
			answer mail 1 {"ok":true}           => accept taint:` + down.String() + `
			ask planner relay yes               => accept
			answer relay 2 {"ok":true}          => accept taint:low`) // does not lower what was
		for _, out := range w.state.Outbox(plannerMail) {
			expect(t, out.Taint, down, "of an agent with %s: a delivery with", base)
		}
		if own := w.state.Sessions(w.now)[1]; own.Controller != "planner" || own.Taint != bcp.TaintLow {
			t.Errorf("of an agent with %s: the Controller's own taint is %s", base, own.Taint)
		}
		expect(t, w.state.Exposure("planner"), down, "of an agent with %s: the session's exposure", base)
		w.play(`close planner => ends
			open planner      => begins`)
		expect(t, w.state.Exposure("planner"), bcp.TaintLow, "of an agent with %s: the next session begins with", base)
	}
}

// An ask is answered at once and says nothing of the answer, which comes later
// as a delivery like any push. Asks do not wait for each other.
//
// covers C-3, SUB-73, P9.1
func TestAskReturnsBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail yes                => accept silent reserved:1.0
		ask planner mail num                => accept silent reserved:11.0`)
	if out := w.state.Outbox(plannerMail); len(out) > 0 {
		t.Fatalf("a delivery before any answer: %+v", out)
	}
	w.play(`
		answer mail 2 {"n":7}               => accept delivers
		push mail planner alarm {"ok":true} => accept delivers
		answer mail 1 {"ok":true}           => accept delivers`)
	var got []string
	for _, out := range w.state.Outbox(plannerMail) {
		got = append(got, string(out.Type)+" "+string(out.QueryID)+string(out.SubscriptionID))
	}
	want := []string{bcp.TypeResponseDelivery + " " + string(w.queries[1]), bcp.TypeResponseDelivery + " alarm", bcp.TypeResponseDelivery + " " + string(w.queries[0])}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Traffic is limited by bits and by queries of category 2, not by rates: what the
// budget pays for may be asked at any pace.
//
// covers C-28, SUB-25, SUB-26, P4.4, A-CONCQ
func TestThrottleIsBitsAndCategory2QueriesNotRates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.Budget, c.MaxCat2Queries = 270*bcp.Bit, 2 }))
	for range 200 { // in one moment
		w.play(`ask planner mail one              => accept cat2:0 bits:1.0`)
	}
	w.play(`
		push mail planner name {"q":"ada"}        => accept settled:22.0 cat2:0     # a push is no query
		ask planner mail name                     => accept cat2:1
		answer mail 201 nei                       => accept settled:23.0 cat2:1     # a failed one counts
		ask planner mail name                     => accept cat2:2 reserved:222.0
		ask planner mail name                     => query_limit_reached cat2:0 bits:0.0
		ask planner mail num                      => accept reserved:232.0
		ask planner mail num                      => accept reserved:242.0
		ask planner mail num                      => budget_exhausted
		wait 30m
		ask planner mail name                     => accept renews cat2:1 epoch:2`)
}

// A Reader hears which item of its spec was wrong and why, in constant words
// and the spec's own names. Not a byte of what it sent comes back in them, nor
// in what the Controller hears or what the audit shows.
//
// covers C-29, SUB-114, P2.5, A-KEYECHO
func TestDetailIsSpecificAndEchoesNothing(t *testing.T) {
	t.Parallel()
	const canary = "CANARY"
	seen := map[string]bool{}
	for _, answer := range []string{
		`{"q":"canary CANARY \u001b[31m CANARY one two three four five six seven"}`, `{"q":7,"CANARY":1}`, `{"CANARY":"x"}`, `{"q":{"CANARY":"\u202e"}}`,
		`{"q":"\u001b]0;CANARY\u0007"}`, `["CANARY"]`, `"CANARY"`, `{"q":"CANARY`,
	} {
		w := newWorld(t, edited(func(c *bcp.Channel) { c.MaxRetries, c.OnAnomaly = 0, bcp.AnomalyReject })).play("ask planner mail text => accept")
		id := w.queries[0]
		d := w.commit(w.state.DecideAnswer(w.moment(), "mail", id, 0,
			[]byte(`{"type":"bcp_response","query_id":"`+string(id)+`","response":`+answer+`}`)))
		detail := bcp.ReaderDetail(d.Code, d.Reason, d.FieldName(), d.Subscription, d.Controller)
		if d.Verdict != bcp.Reject || detail == "" || strings.Contains(strings.ToUpper(detail), canary) || strings.ContainsFunc(detail, unicode.IsControl) {
			t.Errorf("%s: %s, detail %q", answer, d.Verdict, detail)
		}
		seen[detail] = true
		public := d.Public()
		if name := public.FieldName(); name != "" {
			t.Errorf("%s: the audit shows %q of the Controller's spec", answer, name)
		}
		message, _ := d.Message()
		if shown := fmt.Sprintf("%+v %+v %+v", public, message, w.state.Outbox(plannerMail)); strings.Contains(strings.ToUpper(shown), canary) {
			t.Errorf("%s comes back in %s", answer, shown)
		}
	}
	if len(seen) < 3 || !seen["q: has too many words"] {
		t.Errorf("the detail tells too little: %v", seen)
	}
}
