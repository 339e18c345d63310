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
// an earlier test does, the mark stands there: C-4 in message_test.go, C-6, C-8,
// C-13 and C-27 in package definition, C-14 in date.txtar.

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
			if out.Taint != down {
				t.Errorf("of an agent with %s: a delivery with %s, want %s", base, out.Taint, down)
			}
		}
		if own := w.state.Sessions(w.now)[1]; own.Controller != "planner" || own.Taint != bcp.TaintLow {
			t.Errorf("of an agent with %s: the Controller's own taint is %s", base, own.Taint)
		}
		if got := w.state.Exposure("planner"); got != down {
			t.Errorf("of an agent with %s: the session's exposure is %s, want %s", base, got, down)
		}
		w.play(`close planner => ends
			open planner      => begins`)
		if got := w.state.Exposure("planner"); got != bcp.TaintLow {
			t.Errorf("of an agent with %s: the next session begins with %s", base, got)
		}
	}
}

// A Reader initiates against a declared subscription of its own, and in no
// other way.
//
// covers C-2, BCP-1, SUB-1, P1.5
func TestReaderInitiatesAgainstDeclaredSubscriptionsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		push mail planner alarm {"ok":true}  => accept delivers
		push mail planner none {"ok":true}   => reject subscription_not_found silent
		push mail clerk note {"q":"hello"}   => reject subscription_not_found silent   # declared by planner
		push web planner alarm {"ok":true}   => reject subscription_not_found silent   # declared for mail
		push mail web alarm {"ok":true}      => reject subscription_not_found silent
		ask mail planner yes                 => reject no_channel silent`)
	d := w.state.DecideAnswer(w.moment(), "mail", "no-such-query", 0, answerBytes("no-such-query", `{"ok":true}`))
	if d.Code != bcp.QueryUnknown || d.Delivery != "" {
		t.Errorf("an answer to no query: %q", d.Code)
	}
	if out := w.state.Outbox(plannerMail); len(out) != 1 {
		t.Errorf("%d deliveries, want 1", len(out))
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

// Letters are delivered in lower case: spellings that differ in case are the
// same bytes, however the examples of the subscriptions seed look.
//
// covers C-5, BCP-156, P3.4
func TestCaseIsNotDelivered(t *testing.T) {
	t.Parallel()
	v := compiled(t, "text")
	want := ""
	for _, answer := range []string{"Quantum Computing breakthrough", "quantum computing breakthrough", "QUANTUM COMPUTING BREAKTHROUGH", "qUaNtUm cOmPuTiNg bReAkThRoUgH"} {
		verdict := v.Validate([]byte(`{"q":"`+answer+`"}`), bcp.JSON)
		got := fmt.Sprint(verdict.Answer)
		if want == "" {
			want = got
		}
		if verdict.Outcome != bcp.Accept || got != want || got != strings.ToLower(got) {
			t.Errorf("%s is delivered as %s, another spelling as %s", answer, got, want)
		}
	}
}

func compiled(t *testing.T, name string) *bcp.Validator {
	t.Helper()
	spec, err := bcp.ParseSpec([]byte("{" + testSpecs[name] + "}"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := bcp.Compile(spec, bcp.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The pool of a channel is the gateway's. Nothing that a Reader does renews it,
// however often its pushes begin a session of the Controller, which the
// subscriptions seed would let reset the budget. An act of the Controller does.
//
// covers C-7, SUB-99, SUB-100, P4.4, A-RDRRESET
func TestReaderCannotRenewItsBudget(t *testing.T) {
	t.Parallel()
	push := `push mail planner alarm {"ok":true}`
	w := newWorld(t, edited(func(c *bcp.Channel) { c.Budget, c.PushBudget, c.WindowBudget = 6*bcp.Bit, 6*bcp.Bit, 0 }))
	for spent := 1; spent <= 6; spent++ {
		w.play(fmt.Sprintf(`
			%s => accept epoch:1 settled:%d.0 begins by-delivery !renews
			event connect mail 1
			wait 3h`, push, spent))
	}
	for range 5 {
		w.play(push + ` => budget_exhausted silent !begins
			wait 24h`)
	}
	w.play(`
		open planner => begins renews
		` + push + ` => accept epoch:2 settled:1.0`)
}

// What looks like instructions is never delivered as clean: it waits for a
// person, or is refused, or bears its codes.
//
// covers C-9, BCP-99, SUB-91, P3.6
func TestAnomalyIsNeverDeliveredAsClean(t *testing.T) {
	t.Parallel()
	for on, want := range map[bcp.OnAnomaly]string{
		bcp.AnomalyHold: "hold item !delivers", bcp.AnomalyReject: "reject validation_failed silent", bcp.AnomalyFlag: "accept delivers flagged",
	} {
		w := newWorld(t, edited(func(c *bcp.Channel) { c.OnAnomaly, c.Budget, c.PushBudget = on, 200*bcp.Bit, 200*bcp.Bit })).play(`
			push mail planner note {"q":"the_weather_is_fine"} => accept delivers !flagged
			push mail planner note ` + answerWord(heldAnswer) + ` => ` + want)
		out := w.state.Outbox(plannerMail)
		if n := len(out); n != 1 && on != bcp.AnomalyFlag || on == bcp.AnomalyFlag && (n != 2 || len(out[1].Anomalies) == 0) {
			t.Errorf("%s: %+v", on, out)
		}
	}
}

// A Controller hears that a query was rejected, once, as a code of the closed
// list: nothing of what the Reader sent, nor how often it tried, and the outcome
// is paid for.
//
// covers C-10, BCP-91, P2.4, P2.5, P3.10, P4.1
func TestControllerHearsOfRejectionAsOneCode(t *testing.T) {
	t.Parallel()
	var heard []bcp.Delivery
	for _, attempts := range []string{
		`answer mail 1 {"ok":"secret"} => reject silent
		answer mail 1 {"ok":"secret"} try=1 => reject out:rejected bits:1.0 settled:1.0 reserved:0.0`,
		`answer mail 1 junk => reject silent
		answer mail 1 {"ok":true,"no":1} try=1 => reject out:rejected bits:1.0 settled:1.0 reserved:0.0`,
	} {
		w := newWorld(t, edited(func(c *bcp.Channel) { c.MaxRetries = 1 })).play("ask planner mail yes => accept\n" + attempts)
		if w.last.Capacity <= 0 {
			t.Errorf("which failure it was is not counted: %s", w.last.Capacity)
		}
		out := w.state.Outbox(plannerMail)
		if len(out) != 1 {
			t.Fatalf("%d deliveries", len(out))
		}
		heard = append(heard, out[0].Delivery)
	}
	if diff := cmp.Diff(heard[0], heard[1]); diff != "" {
		t.Errorf("the Controller can tell what the Reader sent: %s", diff)
	}
	if heard[0].Outcome != bcp.Rejected || heard[0].Response != nil {
		t.Errorf("%+v", heard[0])
	}
}

// What is refused is not charged to the channel. It is bounded all the same: by
// the retries of a query, and for pushes by max_refusals.
//
// covers C-11, SUB-96, P3.10, P4.3, P4.7
func TestRefusedPublishIsNotCharged(t *testing.T) {
	t.Parallel()
	mesh := edited(func(c *bcp.Channel) { c.MaxRetries = 2 })
	mesh.MaxRefusals = 5
	w := newWorld(t, mesh)
	for range 5 {
		w.play(`push mail planner alarm {"ok":"yes"} => validation_failed bits:0.0 cap:0.0 silent`)
	}
	w.play(`push mail planner alarm {"ok":"yes"} => rate_limited`)
	if _, b, _ := w.state.Balance(plannerMail); b != (bcp.Balance{}) {
		t.Errorf("refused pushes were charged: %+v", b)
	}
	w.play(`
		wait 1m
		ask planner mail num            => accept reserved:10.0
		answer mail 1 junk              => reject silent bits:0.0 cap:0.0
		answer mail 1 junk try=1        => reject silent bits:0.0 cap:0.0`)
	if _, b, _ := w.state.Balance(plannerMail); b.Settled != 0 || b.Reserved != 10*bcp.Bit {
		t.Errorf("refused answers were charged: %+v", b)
	}
	w.play(`
		answer mail 1 junk try=2        => reject out:rejected settled:1.0 reserved:0.0
		answer mail 1 {"n":1} try=3     => reject already_answered silent bits:0.0`)
}

// A summary is charged when it is held, before anybody decides, and so is an
// answer with anomalies. Nothing is given back when no approval comes.
//
// covers C-12, SUB-92, P4.3, P7.4
func TestHeldItemIsChargedBeforeItsApprovalAndStaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		push mail planner memo {"summary":"a_b"}  => hold item bits:22.0 settled:22.0 pushed:22.0 reserved:0.0`)
	if _, b, _ := w.state.Balance(plannerMail); b.Settled != 22*bcp.Bit || b.SettledCapacity <= 0 {
		t.Errorf("held: %+v", b)
	}
	w.play(`
		wait 24h
		due => expire item bits:0.0 settled:22.0`)
	newWorld(t, edited(func(c *bcp.Channel) { c.Budget = 200 * bcp.Bit })).play(`
		ask planner mail text                 => accept reserved:88.0
		answer mail 1 ` + answerWord(heldAnswer) + ` => hold item out:held settled:88.0 reserved:0.0
		wait 24h
		due                                   => expire out:approval_expired settled:88.0 reserved:0.0`)
}

// The gateway validates: an answer that is not what was asked goes nowhere, and
// what goes on is the gateway's spelling and not the Reader's.
//
// covers C-15, BCP-89, BCP-160, P2.4
func TestGatewayValidatesAndNotTheController(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail day                  => accept
		answer mail 1 {"q":"tomorrow"}        => reject silent
		answer mail 1 {"q":7} try=1           => reject silent
		answer mail 1 {"q":"_March_15,_2026_"} try=2 => accept delivers`)
	out := w.state.Outbox(plannerMail)
	if len(out) != 1 || string(out[0].Response) != `{"q":"2026-03-15"}` {
		t.Errorf("%+v", out)
	}
}

// Traffic is limited by bits and by queries of category 2, not by rates: what the
// budget pays for may be asked at any pace.
//
// covers C-28, SUB-25, SUB-26, P4.4
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
