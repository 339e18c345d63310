package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// covers BCP-4, BCP-68, BCP-137, BCP-160, SUB-61, SUB-63, SUB-69, SUB-72, SUB-76, SUB-80, SUB-101, P4.3, P8.3
func TestAnswerIsDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail odd          => accept bits:1.584962501 reserved:1.584962501`)
	v := w.state.queries[w.queries[0]].validator
	w.play(`
		answer mail 1 {"x":"b"}       => accept delivers bits:1.584962501 settled:1.584962501 reserved:0.0 taint:medium`)
	out := w.state.Outbox(plannerMail)
	stopIf(t, len(out) != 1, "the outbox has %d deliveries", len(out))
	want := bcp.Delivery{Type: bcp.TypeResponseDelivery, DeliveryID: out[0].DeliveryID, QueryID: w.queries[0], Category: 1, FromAgent: "mail",
		Response: []byte(`{"x":"b"}`), BandwidthBits: 1584962501, CapacityBits: v.Prices().Capacity, Taint: bcp.TaintMedium, ChannelMode: "bcp"}
	same(t, want, out[0].Delivery, "delivery")
	failIf(t, w.last.Balance.SettledCapacity != v.Prices().Capacity || w.last.Balance.ReservedCapacity != 0,
		"capacity is %+v, want %s settled", w.last.Balance, v.Prices().Capacity)
	w.play(`
		ack planner => acknowledge
		ack planner => nothing`)
}

// covers BCP-69, BCP-155, BCP-156, BCP-157, A-ORD, A-WSJ, C-5, C-15, BCP-89, BCP-160, P2.4, P3.4
func TestAnswerIsCanonical(t *testing.T) {
	t.Parallel()
	for _, spelling := range []string{`{"q":"the_BUDGET_meeting"}`, `{"q":"__the___budget\tmeeting."}`, `{"answers":[{"answer":"The_budget_meeting!","id":"q"}]}`} {
		w := newWorld(t, testMesh()).play(`
			ask planner mail text        => accept
			answer mail 1 ` + spelling + ` => accept delivers`)
		expect(t, string(w.state.Outbox(plannerMail)[0].Response), `{"q":"the budget meeting"}`, "%s is delivered as", spelling)
	}
}

// covers BCP-6, BCP-38, BCP-39, BCP-79, BCP-92, BCP-93, BCP-134, BCP-135, BCP-136, SUB-90, P3.10, P9.5
func TestAnswerIsRejectedAndRetried(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"junk", `{"ok":"true"}`, `{"ok":null}`, `{"ok":true,"more":1}`, `{}`, `{"fields":{}}`} {
		w := newWorld(t, edited(func(c *bcp.Channel) { c.MaxRetries = 2 })).play(`
			ask planner mail yes             => accept
			answer mail 1 ` + bad + ` try=0  => reject silent try:1 reserved:0.0
			answer mail 1 ` + bad + ` try=1  => reject silent try:2
			answer mail 1 ` + bad + ` try=2  => reject out:rejected try:0 bits:1.0 settled:1.0 reserved:0.0
			answer mail 1 {"ok":true} try=2  => already_answered silent`)
		if out := w.state.Outbox(plannerMail); len(out) != 1 || out[0].Outcome != bcp.Rejected || out[0].Response != nil {
			t.Errorf("after %s the Controller gets %+v", bad, out)
		}
	}
	newWorld(t, edited(func(c *bcp.Channel) { c.MaxRetries = 0 })).play(`
		ask planner mail name            => accept
		answer mail 1 {"q":"a_b_c"}      => validation_failed out:rejected bits:1.0 settled:1.0 cat2:1`)
	// The limit of tries allows a valid answer at its last.
	newWorld(t, edited(func(c *bcp.Channel) { c.MaxRetries = 1 })).play(`
		ask planner mail yes             => accept
		answer mail 1 junk               => malformed try:1
		answer mail 1 {"ok":false} try=1 => accept delivers`)
}

// An answer on the subject of an earlier dispatch uses no retry up, and may win.
//
// covers P9.5
func TestAnswerToAnEarlierDispatch(t *testing.T) {
	t.Parallel()
	newWorld(t, edited(func(c *bcp.Channel) { c.MaxRetries = 1 })).play(`
		ask planner mail yes             => accept
		answer mail 1 junk try=0         => malformed try:1
		answer mail 1 junk try=0         => malformed try:1 silent
		answer mail 1 junk try=0         => malformed try:1 silent
		answer mail 1 {"ok":true} try=0  => accept delivers`)
	// A dispatch that never was is no earlier one.
	newWorld(t, edited(func(c *bcp.Channel) { c.MaxRetries = 1 })).play(`
		ask planner mail yes               => accept
		answer mail 1 junk try=1000000000  => malformed try:1
		answer mail 1 junk try=1000000000  => malformed out:rejected`)
}

// covers P3.9, P4.1, P4.3, A-NEI
func TestNotEnoughInformation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail num          => reserved:10.0
		answer mail 1 nei             => accept out:not_enough_information bits:1.0 settled:1.0 reserved:0.0
		answer mail 1 {"n":1}         => already_answered silent
		ask planner mail one          => accept bits:1.0 reserved:1.0
		answer mail 2 nei             => out:not_enough_information bits:1.0 settled:2.0   # of one value, and not free
		ask planner mail must         => accept
		answer mail 3 nei             => validation_failed silent try:1
		answer mail 3 {"ok":true}     => accept delivers`)
	out := w.state.Outbox(plannerMail)[0]
	failIf(t, out.Response != nil || out.CapacityBits == 0, "delivered %+v", out)
}

// covers BCP-8, BCP-130, P3.10, P10, A-GUESS, A-EARLY, A-DOUBLE
func TestAnswerCodesInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		answer mail q000002 {"ok":true}  => query_unknown silent   # before the query
		ask planner mail yes             => accept
		answer web 1 {"ok":true}         => query_unknown silent   # another Reader's
		due                              => alert event:role_suspect
		due                              => alert event:role_suspect
		answer web 1 junk                => malformed silent try:0
		answer mail 1 {"ok":true}        => delivers
		answer mail 1 {"ok":false}       => already_answered silent
		answer mail 1 junk               => malformed silent
		ask planner mail yes             => accept
		wait 14m59.999999999s
		due                              => nothing
		ask planner mail yes             => accept
		wait 1ns
		answer mail 2 {"ok":true}        => query_expired silent   # before the gateway decided so
		answer mail 2 junk               => malformed silent try:0
		due                              => expire out:expired bits:1.0 settled:2.0 reserved:1.0
		due                              => nothing
		answer mail 2 {"ok":true}        => query_expired silent
		answer mail 3 {"ok":true}        => delivers settled:3.0
		wait 23h45m
		answer mail 2 {"ok":true}        => query_expired silent
		wait 15m
		answer mail 2 {"ok":true}        => query_unknown silent`)
	expect(t, w.last.Controller, "", "the refusal of an unknown query names")
}

// covers P2.2, P10
func TestAnswerSizes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play("ask planner mail yes => accept")
	id := w.queries[0]
	limit := w.state.queries[id].validator.MaxBytes()
	body := answerBytes(id, `{"ok":true}`)
	padded := func(n int) []byte { return append(bytes.Clone(body), bytes.Repeat([]byte(" "), n-len(body))...) }
	expect(t, w.state.DecideAnswer(w.moment(), "mail", id, 0, padded(limit)).Verdict, bcp.Accept, "an answer of %d bytes", limit)
	over := w.state.DecideAnswer(w.moment(), "mail", id, 0, padded(limit+1))
	failIf(t, over.Code != bcp.MessageTooLarge || over.Reason != bcp.ReasonTooLarge || over.Attempt != 1,
		"an answer of %d bytes got %q", limit+1, over.Code)
	// To a Reader that has no such query, the size tells nothing of it.
	foreign := w.state.DecideAnswer(w.moment(), "web", id, 0, padded(limit+1))
	unknown := w.state.DecideAnswer(w.moment(), "web", "q-none", 0, padded(limit+1))
	failIf(t, foreign.Code != bcp.QueryUnknown || unknown.Code != bcp.Malformed,
		"codes are %q and %q", foreign.Code, unknown.Code)
	expect(t, w.state.DecideAnswer(w.moment(), "web", id, 0, padded(bcp.MaxControllerMessage+1)).Code, bcp.MessageTooLarge, "an answer of 64 KiB")
}

// Of the answers to somebody else's query nothing tells that it exists.
//
// covers P2.4, A-GUESS
func TestForeignQueryIsLikeNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play("ask planner mail yes => accept")
	id := w.queries[0]
	m := w.moment()
	foreign := w.state.DecideAnswer(m, "web", id, 3, answerBytes(id, `{"ok":true}`))
	none := w.state.DecideAnswer(m, "web", "qxxxxxx", 3, answerBytes("qxxxxxx", `{"ok":true}`))
	foreign.Query, foreign.RawCommitment = none.Query, none.RawCommitment
	same(t, none, foreign, "unknown and foreign differ")
}

// What the Controller gets does not tell how often the Reader tried, nor any
// byte of what was refused.
//
// covers BCP-3, BCP-9, BCP-153, P2.4, P3.10, A-RETRY, A-KEYECHO, A-SPOOF, P2.5
func TestDeliveryHidesRejections(t *testing.T) {
	t.Parallel()
	const canary = "canary7f3a"
	deliveries := func(bad []string) []byte {
		w := newWorld(t, testMesh()).play("ask planner mail text => accept")
		for i, value := range bad {
			w.play(fmt.Sprintf("answer mail 1 %s try=%d => reject silent", value, i))
		}
		w.play(fmt.Sprintf(`answer mail 1 {"q":"two_words"} try=%d => delivers`, len(bad)))
		out := w.state.Outbox(plannerMail)
		stopIf(t, len(out) != 1, "%d deliveries", len(out))
		out[0].DeliveryID = "d"
		b := must(bcp.Encode(out[0].Delivery, bcp.JSON))
		for _, record := range w.journal {
			failIf(t, bytes.Contains(record, []byte(canary)), "the journal quotes a rejected answer: %q", record)
		}
		return b
	}
	want := deliveries(nil)
	for _, bad := range [][]string{{"junk"}, {`{"` + canary + `":1}`, `{"q":{"` + canary + `":1}}`}, {`{"q":"x","taint":"low"}`, `{"q":"x","from_agent":"` + canary + `"}`, "junk"}} {
		got := deliveries(bad)
		failIf(t, !bytes.Equal(want, got), "after %d rejections the delivery is\n%s, without\n%s", len(bad), got, want)
	}
}

// However a query fails, the delivery has the same form.
//
// covers P10, C-10, BCP-91, P2.4, P2.5, P4.1
func TestFailuresHaveOneForm(t *testing.T) {
	t.Parallel()
	outcomes := map[bcp.Code]string{
		bcp.Rejected:             "answer mail 1 junk => out:rejected",
		bcp.Expired:              "wait 15m \n due => out:expired",
		bcp.NotEnoughInformation: "answer mail 1 nei => out:not_enough_information",
		bcp.Cancelled:            "close planner => ends \n due => out:cancelled",
	}
	for outcome, history := range outcomes {
		w := newWorld(t, edited(func(c *bcp.Channel) { c.MaxRetries = 0 })).play("ask planner mail num => accept")
		failed := w.state.queries[w.queries[0]].prices.FailedCapacity
		w.play(history + " bits:1.0 settled:1.0")
		out := w.state.Outbox(plannerMail)[0].Delivery
		out.DeliveryID = "d"
		b := must(bcp.Encode(out, bcp.JSON))
		got := strings.Replace(string(b), string(outcome), "OUTCOME", 1)
		want := `{"type":"bcp_response_delivery","delivery_id":"d","query_id":"q000001","category":1,"from_agent":"mail","outcome":"OUTCOME",` +
			`"bandwidth_bits":1.0,"capacity_bits":` + failed.String() + `,"taint":"medium","channel_mode":"bcp"}`
		expect(t, got, want, "%s is told as", outcome)
	}
}

// covers BCP-64, BCP-136, BCP-169, P3.5, P3.6, P4.3, P7.4, P7.6
func TestAnswerIsHeld(t *testing.T) {
	t.Parallel()
	held := answerWord(heldAnswer)
	mesh := edited(func(c *bcp.Channel) { c.MaxPendingApprovals, c.MaxRetries, c.Budget = 1, 1, 1000*bcp.Bit })
	w := newWorld(t, mesh).play(`
		ask planner mail text        => accept bits:88.0
		answer mail 1 ` + held + `   => hold item out:held bits:88.0 settled:88.0 reserved:0.0
		answer mail 1 {"q":"fine"}   => already_answered silent
		due                          => nothing
		wait 15m
		due                          => nothing        # the deadline is the person's now
		ask planner mail text        => accept
		answer mail 2 ` + held + `   => approval_queue_full try:1 silent
		answer mail 2 ` + held + ` try=1 => approval_queue_full out:rejected bits:1.0 settled:89.0`)
	if out := w.state.Outbox(plannerMail)[0]; out.Outcome != bcp.Held || out.Response != nil || out.Anomalies != nil || out.BandwidthBits != 0 || out.CapacityBits != 0 {
		t.Errorf("of a held answer the Controller hears %+v", out.Delivery)
	}
	items := w.state.Items()
	failIf(t, len(items) != 1 || items[0].Kind != "anomaly" || len(items[0].Anomalies) == 0 || items[0].Nominal != 88*bcp.Bit || items[0].Taint != bcp.TaintMedium,
		"items are %+v", items)
	w.play(`
		wait 23h45m
		due                          => expire out:approval_expired item prepaid bits:88.0 settled:89.0
		ask planner mail text        => accept
		answer mail 3 ` + held + `   => hold`) // the queue has room again
	out := w.state.Outbox(plannerMail)
	failIf(t, out[2].Outcome != bcp.ApprovalExpired || out[2].QueryID != w.queries[0], "the last outcome is %+v", out[2].Delivery)
}

func answerWord(value string) string { return strings.ReplaceAll(value, " ", "_") }

// covers C-9, BCP-99, SUB-91, P3.6
func TestAnomaliesRejectOrFlag(t *testing.T) {
	t.Parallel()
	held := answerWord(heldAnswer)
	w := newWorld(t, edited(func(c *bcp.Channel) { c.OnAnomaly, c.Budget, c.PushBudget = bcp.AnomalyFlag, 1000*bcp.Bit, 200*bcp.Bit })).play(`
		ask planner mail text        => accept
		answer mail 1 ` + held + `   => accept delivers flagged
		push mail planner note ` + held + ` => accept delivers flagged`)
	if out := w.state.Outbox(plannerMail)[0]; len(out.Anomalies) == 0 {
		t.Errorf("the delivery is %+v", out.Delivery)
	}
	w = newWorld(t, edited(func(c *bcp.Channel) { c.OnAnomaly, c.Budget = bcp.AnomalyReject, 1000*bcp.Bit })).play(`
		ask planner mail text        => accept
		answer mail 1 ` + held + `   => validation_failed try:1 silent
		answer mail 1 {"q":"fine"} try=1 => delivers
		push mail planner note ` + held + ` => validation_failed silent`)
	out := w.state.Outbox(plannerMail)
	failIf(t, len(out) != 1 || len(out[0].Anomalies) != 0, "the deliveries are %+v", out)
}

// covers P7.6, P9.2
func TestCloseCancels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.Budget = 1000 * bcp.Bit })).play(`
		ask planner mail num         => accept reserved:10.0
		ask planner mail three why=so => hold reserved:32.0
		ask planner mail text        => accept
		answer mail 3 ` + answerWord(heldAnswer) + ` => hold
		ask planner web num          => accept
		ask clerk mail num           => accept
		close planner                => ends silent
		answer mail 1 {"n":1}        => cancelled silent   # in the same moment
		due                          => expire out:cancelled bits:1.0 !begins
		due                          => expire out:cancelled bits:1.0 item !begins
		due                          => expire out:cancelled bits:1.0 !begins
		due                          => nothing
		answer mail 1 {"n":1}        => cancelled silent
		answer mail 5 {"n":1}        => delivers           # the clerk's
		close planner                => accept !ends silent
		open planner                 => begins renews`)
	items := w.state.Items()
	failIf(t, len(items) != 1 || items[0].Kind != "anomaly", "what waits after close is %+v", items)
	_, b, _ := w.state.Balance(plannerMail)
	failIf(t, b.Reserved != 0 || b.Settled != 90*bcp.Bit, "the balance after close is %+v", b)
	// The end of an idle session cancels nothing.
	newWorld(t, edited(func(c *bcp.Channel) { c.QueryTTL *= 10 })).play(`
		ask planner mail num         => accept
		wait 45m
		open planner                 => begins
		due                          => nothing
		answer mail 1 {"n":1}        => delivers`)
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
		failIf(t, d.Verdict != bcp.Reject || detail == "" || strings.Contains(strings.ToUpper(detail), canary) || strings.ContainsFunc(detail, unicode.IsControl),
			"%s: %s, detail %q", answer, d.Verdict, detail)
		seen[detail] = true
		public := d.Public()
		expect(t, public.FieldName(), "", "%s: the audit shows", answer)
		message, _ := d.Message()
		shown := fmt.Sprintf("%+v %+v %+v", public, message, w.state.Outbox(plannerMail))
		failIf(t, strings.Contains(strings.ToUpper(shown), canary), "%s comes back in %s", answer, shown)
	}
	failIf(t, len(seen) < 3 || !seen["q: has too many words"], "the detail tells too little: %v", seen)
}
