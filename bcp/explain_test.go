package bcp

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const why = " why=my_own_words"

// refusals have for each check a history that ends with a decision that it
// refuses, and the code that is heard.
var refusals = []struct {
	check   Check
	kind    DecisionKind
	code    Code
	edit    func(*Mesh, *Channel)
	history string
}{
	{CheckMessage, KindAsk, Malformed, nil, `say planner mail {{`},
	{CheckMessage, KindAsk, MessageTooLarge, nil, `say planner mail ` + strings.Repeat("x", MaxControllerMessage+1)},
	{CheckChannelFirst, KindAsk, NoChannel, nil, `say planner planner {"no":1}`},
	{CheckShape, KindAsk, InvalidQuery, nil, `say planner mail {"no":1}`},
	{CheckRepeat, KindAsk, Malformed, nil, "ask planner mail yes id=r1\nask planner mail num id=r1"},
	{CheckChannel, KindAsk, NoChannel, nil, `ask planner clerk yes`},
	{CheckCategory, KindAsk, CategoryDenied, func(_ *Mesh, c *Channel) { c.MaxCategory, c.Subscriptions = 1, nil }, `ask planner mail name`},
	{CheckSpec, KindAsk, InvalidQuery, nil, `say planner mail {"category":1,"fields":[]}`},
	{CheckJustified, KindAsk, EscalationRequired, nil, `ask planner mail three`},
	{CheckOwnWords, KindAsk, EscalationRequired, nil, "ask planner mail text\nanswer mail 1 {\"q\":\"a_b_c_d_e_f_g\"}\nask planner mail three why=he_says_a_b_c_d_e_f_g"},
	{CheckSessionFailed, KindAsk, EscalationLimitReached, func(_ *Mesh, c *Channel) { c.MaxEscalations = 1 },
		"ask planner mail three" + why + "\nask planner mail three" + why + "\nask planner mail yes"},
	{CheckEscalations, KindAsk, EscalationLimitReached, func(_ *Mesh, c *Channel) { c.MaxEscalations = 0 }, "ask planner mail three" + why},
	{CheckCat2Queries, KindAsk, QueryLimitReached, func(_ *Mesh, c *Channel) { c.MaxCat2Queries = 0 }, "ask planner mail name"},
	{CheckBudget, KindAsk, BudgetExhausted, func(_ *Mesh, c *Channel) { c.Budget = 21 * Bit }, "ask planner mail name"},
	{CheckCapacityBudget, KindAsk, BudgetExhausted, func(_ *Mesh, c *Channel) { c.CapacityBudget, c.ReleaseInterval = 20*Bit, time.Minute }, "ask planner mail name"},
	{CheckWindowBudget, KindAsk, BudgetExhausted, func(_ *Mesh, c *Channel) { c.WindowBudget = 12 * Bit }, "ask planner mail num\nask planner mail num"},
	{CheckTotalBudget, KindAsk, BudgetExhausted, func(m *Mesh, _ *Channel) { m.Agents[2].TotalBudget = 24 * Bit }, "ask planner relay num\nask planner mail num"},
	{CheckReader, KindAsk, ReaderUnavailable, nil, "process mail unavailable\nask planner mail yes"},
	{CheckMessage, KindAnswer, Malformed, nil, "ask planner mail yes\nanswer mail 1 junk"},
	{CheckMessage, KindAnswer, MessageTooLarge, nil, "ask planner mail yes\nanswer mail 1 {\"ok\":" + strings.Repeat("1", 2000) + "}"},
	{CheckQuery, KindAnswer, QueryUnknown, nil, `answer mail qnone {"ok":true}`},
	{CheckAnswered, KindAnswer, AlreadyAnswered, nil, "ask planner mail yes\nanswer mail 1 {\"ok\":true}\nanswer mail 1 {\"ok\":true}"},
	{CheckAnswered, KindAnswer, QueryExpired, nil, "ask planner mail yes\nwait 15m\ndue\nanswer mail 1 {\"ok\":true}"},
	{CheckCancelled, KindAnswer, Cancelled, nil, "ask planner mail yes\nclose planner\nanswer mail 1 {\"ok\":true}"},
	{CheckDeadline, KindAnswer, QueryExpired, nil, "ask planner mail yes\nwait 15m\nanswer mail 1 {\"ok\":true}"},
	{CheckNoInformation, KindAnswer, ValidationFailed, nil, "ask planner mail must\nanswer mail 1 nei"},
	{CheckAnswer, KindAnswer, ValidationFailed, nil, "ask planner mail yes\nanswer mail 1 {\"ok\":\"true\"}"},
	{CheckAnswer, KindAnswer, ValidationFailed, func(_ *Mesh, c *Channel) { c.OnAnomaly = AnomalyReject }, "ask planner mail text\nanswer mail 1 " + strings.ReplaceAll(heldAnswer, " ", "_")},
	{CheckQueue, KindAnswer, ApprovalQueueFull, func(_ *Mesh, c *Channel) { c.MaxPendingApprovals = 0 }, "ask planner mail text\nanswer mail 1 " + strings.ReplaceAll(heldAnswer, " ", "_")},
	{CheckMessage, KindPush, Malformed, nil, `push mail planner alarm junk`},
	{CheckRepeat, KindPush, Malformed, nil, "push mail planner alarm {\"ok\":true} id=p1\npush mail planner alarm {\"ok\":false} id=p1"},
	{CheckSubscription, KindPush, SubscriptionNotFound, nil, `push mail planner none {"ok":true}`},
	{CheckAnswer, KindPush, ValidationFailed, nil, `push mail planner alarm {"ok":1}`},
	{CheckFilter, KindPush, Filtered, func(_ *Mesh, c *Channel) { c.Subscriptions[0].PublishWhen = "ok" }, `push mail planner alarm {"ok":false}`},
	{CheckBudget, KindPush, BudgetExhausted, func(_ *Mesh, c *Channel) { c.Budget = 0 }, `push mail planner alarm {"ok":true}`},
	{CheckPushBudget, KindPush, BudgetExhausted, func(_ *Mesh, c *Channel) { c.PushBudget = 0 }, `push mail planner alarm {"ok":true}`},
	{CheckQueue, KindPush, ApprovalQueueFull, func(_ *Mesh, c *Channel) { c.MaxPendingApprovals = 0 }, `push mail planner memo {"summary":"x"}`},
	{CheckController, KindPush, ControllerUnavailable, nil, "process planner unavailable\npush mail planner alarm {\"ok\":true}"},
	{CheckAct, KindTaint, Malformed, nil, "taint nobody web"},
	{CheckItem, KindApproval, ItemNotFound, nil, "approve inone"},
	{CheckItem, KindApproval, AlreadyDecided, nil, "push mail planner memo {\"summary\":\"x\"}\napprove 1\napprove 1"},
	{CheckItem, KindApproval, ItemExpired, nil, "push mail planner memo {\"summary\":\"x\"}\nwait 24h\ndue\napprove 1"},
	{CheckInTime, KindApproval, ItemExpired, nil, "push mail planner memo {\"summary\":\"x\"}\napprove 1 until=-1h"},
	{CheckDigest, KindApproval, DigestMismatch, nil, "push mail planner memo {\"summary\":\"x\"}\napprove 1 swap=1"},
	{CheckApprover, KindApproval, NotPermitted, nil, "push mail planner memo {\"summary\":\"x\"}\nreject 1 no as=eve until=1h"},
	{CheckSignature, KindApproval, NotPermitted, nil, "push mail planner memo {\"summary\":\"x\"}\napprove 1 unsigned=1"},
	{CheckApproval, KindApproval, Malformed, nil, "push mail planner memo {\"summary\":\"x\"}\nedit 1 {\"no\":1}"},
	{CheckMessage, KindEgress, Malformed, nil, `egress web {"act":"settle"}`},
	{CheckMessage, KindEgress, MessageTooLarge, nil, `egress web ` + strings.Repeat("x", MaxEgressMessage+1)},
	{CheckKeeper, KindEgress, NotPermitted, nil, `egress web {"act":"refuse","code":"private_address"}`},
	{CheckNetwork, KindEgress, NotPermitted, nil, `egress web {"act":"reserve","egress_id":"e","url":"http://evil.example/","by":"redirect","bytes":1}`},
	{CheckNetwork, KindEgress, NotPermitted, nil, `egress web {"act":"reserve","egress_id":"e","url":"ftp://docs.example.org/","by":"redirect","bytes":1}`},
	{CheckRepeat, KindEgress, Malformed, nil, `egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"redirect","bytes":1}
egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"redirect","bytes":2}`},
	{CheckLinks, KindEgress, NotPermitted, func(m *Mesh, _ *Channel) { m.Agents[4].Egress.LinksOnly = true }, `egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"composed","bytes":1}`},
	{CheckEgressBudget, KindEgress, BudgetExhausted, nil, `egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"link","nano_bits":1000000000001,"bytes":1}`},
	{CheckEgressBytes, KindEgress, BudgetExhausted, nil, `egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"redirect","bytes":4194305}`},
	{CheckPermission, KindViolation, NotPermitted, nil, "event violation mail 1"},
}

// notPlayed are the checks without a history above, and why: what a limited
// agent sends, or pushes too often, is counted, a full channel takes thousands of deliveries, other
// definitions are loaded in a test of their own, and a refused erasure is not
// recorded.
var notPlayed = []Check{CheckRefusals, CheckRate, CheckBatch, CheckOutbox, CheckStands, CheckErasure}

// A refusal is explained by the check that made it: the rules in front of it
// passed, it is the last, and its code is the decision's. Every check and every
// code that refuses is here.
//
// covers P10, P11.1, P11.3, BCP-92
func TestExplainEveryRefusal(t *testing.T) {
	t.Parallel()
	checked, heard := map[Check]bool{}, map[Code]bool{RateLimited: true, ApprovalRejected: true, Unavailable: true, Internal: true}
	for _, tt := range refusals {
		mesh := testMesh()
		if tt.edit != nil {
			tt.edit(mesh, mesh.channel(plannerMail))
		}
		w := newWorld(t, mesh).play(tt.history)
		d := w.last
		if d.Check != tt.check || d.Kind != tt.kind || d.Code != tt.code {
			t.Errorf("%s: %s refused by %s with %s, want %s by %s with %s", tt.history, d.Kind, d.Check, d.Code, tt.kind, tt.check, tt.code)
			continue
		}
		checked[d.Check], heard[d.Code] = true, true
		public := d.Public()
		x := Explain(&public, mesh)
		var names []Check
		for i, r := range x.Rules {
			names = append(names, r.Check)
			if r.Passed == (i == len(x.Rules)-1) || r.Rule == "" || r.Text == "" {
				t.Errorf("%s: rule %d of %d is %+v", tt.history, i, len(x.Rules), r)
			}
		}
		if n := len(names); n == 0 || names[n-1] != d.Check || x.Rule != x.Rules[n-1].Rule || x.Code != d.Code {
			t.Errorf("%s: explained by %v, %s", tt.history, names, x.Rule)
		}
		if !isSubsequence(names, Checks(d.Kind)) || len(x.Changes) == 0 || x.Decided == "" {
			t.Errorf("%s: %+v", tt.history, x)
		}
		if x := Explain(&public, nil); len(x.Changes) == 0 || len(x.Rules) == 0 {
			t.Errorf("%s: without definitions: %+v", tt.history, x)
		}
	}
	for _, info := range everyCheck() {
		if checked[info.Check] == slices.Contains(notPlayed, info.Check) {
			t.Errorf("%s: played %v", info.Check, checked[info.Check])
		}
	}
	for _, line := range Catalogue() {
		if !line.Outcome && !heard[line.Code] {
			t.Errorf("no history is refused with %s", line.Code)
		}
	}
}

func isSubsequence(part, whole []Check) bool {
	for _, c := range part {
		i := slices.Index(whole, c)
		if i < 0 {
			return false
		}
		whole = whole[i+1:]
	}
	return true
}

// The value that an explanation names lets the message through, and one
// nano-bit less does not.
//
// covers P4.2, P4.4, P4.7
func TestExplainedBudgetsSuffice(t *testing.T) {
	t.Parallel()
	set := map[Check]func(*Mesh, *Channel, Bits){
		CheckBudget:         func(_ *Mesh, c *Channel, b Bits) { c.Budget = b },
		CheckPushBudget:     func(_ *Mesh, c *Channel, b Bits) { c.PushBudget = b },
		CheckCapacityBudget: func(_ *Mesh, c *Channel, b Bits) { c.CapacityBudget = b },
		CheckWindowBudget:   func(_ *Mesh, c *Channel, b Bits) { c.WindowBudget = b },
		CheckTotalBudget:    func(m *Mesh, _ *Channel, b Bits) { m.Agents[2].TotalBudget = b },
	}
	for _, tt := range refusals {
		if set[tt.check] == nil {
			continue
		}
		build := func(limit Bits, other bool) *Mesh {
			mesh := testMesh()
			tt.edit(mesh, mesh.channel(plannerMail))
			if other {
				set[tt.check](mesh, mesh.channel(plannerMail), limit)
			}
			return mesh
		}
		mesh := build(0, false)
		d := newWorld(t, mesh).play(tt.history).last
		enough, known := Enough(&d, mesh)
		if want := d.Check.Info().Key + ": " + strings.TrimSuffix(enough.String(), ".0") + " "; !known || !strings.HasPrefix(Explain(&d, mesh).Changes[0], want) {
			t.Errorf("%s: %q does not begin with %q", tt.history, Explain(&d, mesh).Changes[0], want)
		}
		if d := newWorld(t, build(enough, true)).play(tt.history).last; !d.accepted() {
			t.Errorf("%s: with %s it is refused by %s", tt.history, enough, d.Check)
		}
		if d := newWorld(t, build(enough-1, true)).play(tt.history).last; enough > 1 && d.Check != tt.check {
			t.Errorf("%s: with %s it is not refused", tt.history, enough-1)
		}
	}
}

// What is accepted or held passed every rule that was looked at.
//
// covers P3.5, P3.6, P6.3, P7.3
func TestExplainWhatPassed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		history, rule, decided string
		checks                 []Check
	}{
		{"ask planner mail yes", "", "accepted, 1.0 bits reserved", []Check{CheckRefusals, CheckMessage, CheckShape, CheckRepeat, CheckChannel, CheckCategory, CheckSpec,
			CheckSessionFailed, CheckBudget, CheckReader, CheckOutbox}},
		{"ask planner mail three" + why, "P6.3", "held: an escalation", []Check{CheckRefusals, CheckMessage, CheckShape, CheckRepeat, CheckChannel, CheckCategory, CheckSpec,
			CheckJustified, CheckOwnWords, CheckSessionFailed, CheckEscalations, CheckBudget, CheckReader, CheckOutbox}},
		{"push mail planner memo {\"summary\":\"x\"}", "P3.5", "held: a summary", []Check{CheckRefusals, CheckMessage, CheckRepeat, CheckSubscription, CheckAnswer, CheckBudget, CheckPushBudget, CheckQueue, CheckOutbox, CheckController}},
		{"push mail planner memo {\"summary\":\"x\"}\napprove 1", "P7.3", "a person decided: approve", Checks(KindApproval)},
		{"ask planner mail yes\nanswer mail 1 nei", "P3.9", "the query ends: not_enough_information", []Check{CheckRefusals, CheckMessage, CheckQuery, CheckAnswered, CheckCancelled, CheckDeadline, CheckNoInformation}},
		{"ask planner mail text\nanswer mail 1 " + strings.ReplaceAll(heldAnswer, " ", "_"), "P3.6", "held: the rules object", []Check{CheckRefusals, CheckMessage, CheckQuery, CheckAnswered, CheckCancelled, CheckDeadline, CheckAnswer, CheckQueue}},
		{"ask planner mail yes\nwait 15m\ndue", "P9.2", "the query ends: expired", nil},
		{"ask planner mail yes\nclose planner\ndue", "P7.6", "the query ends: cancelled", nil},
		{"ask planner mail yes id=r1\nask planner mail yes id=r1", "P2.6", "it repeats a message", nil},
		{"ask planner mail yes\nanswer mail 1 {\"ok\":true}\nack planner", "", "its receiver has it", nil},
	} {
		mesh := testMesh()
		d := newWorld(t, mesh).play(tt.history).last
		x := Explain(&d, mesh)
		var names []Check
		for _, r := range x.Rules {
			names = append(names, r.Check)
			if !r.Passed {
				t.Errorf("%s: %+v did not pass", tt.history, r)
			}
		}
		if x.Rule != tt.rule || !strings.HasPrefix(x.Decided, tt.decided) || !slices.Equal(names, tt.checks) {
			t.Errorf("%s: %q %q %v", tt.history, x.Rule, x.Decided, names)
		}
		if held := x.Verdict == Hold; held != (len(x.Changes) > 0) {
			t.Errorf("%s: changes %q", tt.history, x.Changes)
		}
	}
}
