package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

const why = " why=my_own_words"

// refusals have for each check a history that ends with a decision that it
// refuses, and the code that is heard.
var refusals = []struct {
	check   bcp.Check
	kind    bcp.DecisionKind
	code    bcp.Code
	edit    func(*bcp.Mesh, *bcp.Channel)
	history string
}{
	{bcp.CheckMessage, bcp.KindAsk, bcp.Malformed, nil, `say planner mail {{`},
	{bcp.CheckMessage, bcp.KindAsk, bcp.MessageTooLarge, nil, `say planner mail ` + strings.Repeat("x", bcp.MaxControllerMessage+1)},
	{bcp.CheckChannelFirst, bcp.KindAsk, bcp.NoChannel, nil, `say planner planner {"no":1}`},
	{bcp.CheckShape, bcp.KindAsk, bcp.InvalidQuery, nil, `say planner mail {"no":1}`},
	{bcp.CheckRepeat, bcp.KindAsk, bcp.Malformed, nil, "ask planner mail yes id=r1\nask planner mail num id=r1"},
	{bcp.CheckChannel, bcp.KindAsk, bcp.NoChannel, nil, `ask planner clerk yes`},
	{bcp.CheckCategory, bcp.KindAsk, bcp.CategoryDenied, func(_ *bcp.Mesh, c *bcp.Channel) { c.MaxCategory, c.Subscriptions = 1, nil }, `ask planner mail name`},
	{bcp.CheckSpec, bcp.KindAsk, bcp.InvalidQuery, nil, `say planner mail {"category":1,"fields":[]}`},
	{bcp.CheckHandle, bcp.KindAsk, bcp.UnknownHandle, func(_ *bcp.Mesh, c *bcp.Channel) { c.MaxArgumentBytes = 99 }, `say planner mail {"category":1,"fields":[{"name":"ok","type":"boolean"}],"arguments":{"a":"sealed:d.0"}}`},
	{bcp.CheckJustified, bcp.KindAsk, bcp.EscalationRequired, nil, `ask planner mail three`},
	{bcp.CheckOwnWords, bcp.KindAsk, bcp.EscalationRequired, nil, "ask planner mail text\nanswer mail 1 {\"q\":\"a_b_c_d_e_f_g\"}\nask planner mail three why=he_says_a_b_c_d_e_f_g"},
	{bcp.CheckSessionFailed, bcp.KindAsk, bcp.EscalationLimitReached, func(_ *bcp.Mesh, c *bcp.Channel) { c.MaxEscalations = 1 },
		"ask planner mail three" + why + "\nask planner mail three" + why + "\nask planner mail yes"},
	{bcp.CheckEscalations, bcp.KindAsk, bcp.EscalationLimitReached, func(_ *bcp.Mesh, c *bcp.Channel) { c.MaxEscalations = 0 }, "ask planner mail three" + why},
	{bcp.CheckCat2Queries, bcp.KindAsk, bcp.QueryLimitReached, func(_ *bcp.Mesh, c *bcp.Channel) { c.MaxCat2Queries = 0 }, "ask planner mail name"},
	{bcp.CheckBudget, bcp.KindAsk, bcp.BudgetExhausted, func(_ *bcp.Mesh, c *bcp.Channel) { c.Budget = 21 * bcp.Bit }, "ask planner mail name"},
	{bcp.CheckCapacityBudget, bcp.KindAsk, bcp.BudgetExhausted, func(_ *bcp.Mesh, c *bcp.Channel) { c.CapacityBudget, c.ReleaseInterval = 20*bcp.Bit, time.Minute }, "ask planner mail name"},
	{bcp.CheckWindowBudget, bcp.KindAsk, bcp.BudgetExhausted, func(_ *bcp.Mesh, c *bcp.Channel) { c.WindowBudget = 12 * bcp.Bit }, "ask planner mail num\nask planner mail num"},
	{bcp.CheckTotalBudget, bcp.KindAsk, bcp.BudgetExhausted, func(m *bcp.Mesh, _ *bcp.Channel) { m.Agents[2].TotalBudget = 24 * bcp.Bit }, "ask planner relay num\nask planner mail num"},
	{bcp.CheckReader, bcp.KindAsk, bcp.ReaderUnavailable, nil, "process mail unavailable\nask planner mail yes"},
	{bcp.CheckMessage, bcp.KindAnswer, bcp.Malformed, nil, "ask planner mail yes\nanswer mail 1 junk"},
	{bcp.CheckMessage, bcp.KindAnswer, bcp.MessageTooLarge, nil, "ask planner mail yes\nanswer mail 1 {\"ok\":" + strings.Repeat("1", 2000) + "}"},
	{bcp.CheckQuery, bcp.KindAnswer, bcp.QueryUnknown, nil, `answer mail qnone {"ok":true}`},
	{bcp.CheckAnswered, bcp.KindAnswer, bcp.AlreadyAnswered, nil, "ask planner mail yes\nanswer mail 1 {\"ok\":true}\nanswer mail 1 {\"ok\":true}"},
	{bcp.CheckAnswered, bcp.KindAnswer, bcp.QueryExpired, nil, "ask planner mail yes\nwait 15m\ndue\nanswer mail 1 {\"ok\":true}"},
	{bcp.CheckCancelled, bcp.KindAnswer, bcp.Cancelled, nil, "ask planner mail yes\nclose planner\nanswer mail 1 {\"ok\":true}"},
	{bcp.CheckDeadline, bcp.KindAnswer, bcp.QueryExpired, nil, "ask planner mail yes\nwait 15m\nanswer mail 1 {\"ok\":true}"},
	{bcp.CheckNoInformation, bcp.KindAnswer, bcp.ValidationFailed, nil, "ask planner mail must\nanswer mail 1 nei"},
	{bcp.CheckAnswer, bcp.KindAnswer, bcp.ValidationFailed, nil, "ask planner mail yes\nanswer mail 1 {\"ok\":\"true\"}"},
	{bcp.CheckAnswer, bcp.KindAnswer, bcp.ValidationFailed, func(_ *bcp.Mesh, c *bcp.Channel) { c.OnAnomaly = bcp.AnomalyReject }, "ask planner mail text\nanswer mail 1 " + strings.ReplaceAll(heldAnswer, " ", "_")},
	{bcp.CheckQueue, bcp.KindAnswer, bcp.ApprovalQueueFull, func(_ *bcp.Mesh, c *bcp.Channel) { c.MaxPendingApprovals = 0 }, "ask planner mail text\nanswer mail 1 " + strings.ReplaceAll(heldAnswer, " ", "_")},
	{bcp.CheckMessage, bcp.KindPush, bcp.Malformed, nil, `push mail planner alarm junk`},
	{bcp.CheckRepeat, bcp.KindPush, bcp.Malformed, nil, "push mail planner alarm {\"ok\":true} id=p1\npush mail planner alarm {\"ok\":false} id=p1"},
	{bcp.CheckSubscription, bcp.KindPush, bcp.SubscriptionNotFound, nil, `push mail planner none {"ok":true}`},
	{bcp.CheckAnswer, bcp.KindPush, bcp.ValidationFailed, nil, `push mail planner alarm {"ok":1}`},
	{bcp.CheckFilter, bcp.KindPush, bcp.Filtered, func(_ *bcp.Mesh, c *bcp.Channel) { c.Subscriptions[0].PublishWhen = "ok" }, `push mail planner alarm {"ok":false}`},
	{bcp.CheckBudget, bcp.KindPush, bcp.BudgetExhausted, func(_ *bcp.Mesh, c *bcp.Channel) { c.Budget = 0 }, `push mail planner alarm {"ok":true}`},
	{bcp.CheckPushBudget, bcp.KindPush, bcp.BudgetExhausted, func(_ *bcp.Mesh, c *bcp.Channel) { c.PushBudget = 0 }, `push mail planner alarm {"ok":true}`},
	{bcp.CheckQueue, bcp.KindPush, bcp.ApprovalQueueFull, func(_ *bcp.Mesh, c *bcp.Channel) { c.MaxPendingApprovals = 0 }, `push mail planner memo {"summary":"x"}`},
	{bcp.CheckController, bcp.KindPush, bcp.ControllerUnavailable, nil, "process planner unavailable\npush mail planner alarm {\"ok\":true}"},
	{bcp.CheckAct, bcp.KindTaint, bcp.Malformed, nil, "taint nobody web"},
	{bcp.CheckItem, bcp.KindApproval, bcp.ItemNotFound, nil, "approve inone"},
	{bcp.CheckItem, bcp.KindApproval, bcp.AlreadyDecided, nil, "push mail planner memo {\"summary\":\"x\"}\napprove 1\napprove 1"},
	{bcp.CheckItem, bcp.KindApproval, bcp.ItemExpired, nil, "push mail planner memo {\"summary\":\"x\"}\nwait 24h\ndue\napprove 1"},
	{bcp.CheckInTime, bcp.KindApproval, bcp.ItemExpired, nil, "push mail planner memo {\"summary\":\"x\"}\napprove 1 until=-1h"},
	{bcp.CheckDigest, bcp.KindApproval, bcp.DigestMismatch, nil, "push mail planner memo {\"summary\":\"x\"}\napprove 1 swap=1"},
	{bcp.CheckApprover, bcp.KindApproval, bcp.NotPermitted, nil, "push mail planner memo {\"summary\":\"x\"}\nreject 1 no as=eve until=1h"},
	{bcp.CheckSignature, bcp.KindApproval, bcp.NotPermitted, nil, "push mail planner memo {\"summary\":\"x\"}\napprove 1 unsigned=1"},
	{bcp.CheckApproval, bcp.KindApproval, bcp.Malformed, nil, "push mail planner memo {\"summary\":\"x\"}\nedit 1 {\"no\":1}"},
	{bcp.CheckEndorse, bcp.KindEndorse, bcp.NotPermitted, nil, "endorse spec=text uses=6"},
	{bcp.CheckSuspended, bcp.KindAsk, bcp.Suspended, suspends, "event violation planner 3\ndue\nask planner mail yes"},
	{bcp.CheckSuspended, bcp.KindAnswer, bcp.Suspended, suspends, "ask planner mail yes\nevent violation mail 3\ndue\nanswer mail 1 {\"ok\":true}"},
	{bcp.CheckSuspended, bcp.KindPush, bcp.Suspended, suspends, "event violation mail 3\ndue\npush mail planner alarm {\"ok\":true}"},
	{bcp.CheckSuspended, bcp.KindEgress, bcp.Suspended, suspends, "event violation web 3\ndue\n" + `egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"redirect","bytes":1}`},
	{bcp.CheckMessage, bcp.KindEgress, bcp.Malformed, nil, `egress web {"act":"settle"}`},
	{bcp.CheckMessage, bcp.KindEgress, bcp.MessageTooLarge, nil, `egress web ` + strings.Repeat("x", bcp.MaxEgressMessage+1)},
	{bcp.CheckKeeper, bcp.KindEgress, bcp.NotPermitted, nil, `egress web {"act":"refuse","code":"private_address"}`},
	{bcp.CheckNetwork, bcp.KindEgress, bcp.NotPermitted, nil, `egress web {"act":"reserve","egress_id":"e","url":"http://evil.example/","by":"redirect","bytes":1}`},
	{bcp.CheckNetwork, bcp.KindEgress, bcp.NotPermitted, nil, `egress web {"act":"reserve","egress_id":"e","url":"ftp://docs.example.org/","by":"redirect","bytes":1}`},
	{bcp.CheckRepeat, bcp.KindEgress, bcp.Malformed, nil, `egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"redirect","bytes":1}
egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"redirect","bytes":2}`},
	{bcp.CheckLinks, bcp.KindEgress, bcp.NotPermitted, func(m *bcp.Mesh, _ *bcp.Channel) { m.Agents[4].Egress.LinksOnly = true }, `egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"composed","bytes":1}`},
	{bcp.CheckEgressBudget, bcp.KindEgress, bcp.BudgetExhausted, nil, `egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"link","nano_bits":1000000000001,"bytes":1}`},
	{bcp.CheckEgressBytes, bcp.KindEgress, bcp.BudgetExhausted, nil, `egress web {"act":"reserve","egress_id":"e","url":"http://docs.example.org/","by":"redirect","bytes":4194305}`},
	{bcp.CheckRole, bcp.KindAsk, bcp.RoleRequired, func(_ *bcp.Mesh, c *bcp.Channel) { c.ReaderRole = bcp.DualLLMRole }, "ask planner mail yes"},
	{bcp.CheckRole, bcp.KindPush, bcp.RoleRequired, func(_ *bcp.Mesh, c *bcp.Channel) { c.ControllerRole = bcp.DualLLMRole }, `push mail planner memo {"summary":"x"}`},
	{bcp.CheckSuspended, bcp.KindUsage, bcp.Suspended, suspends, "event violation web 3\ndue\n" + `usage web {"act":"reserve","call_id":"c","model":"small","request_bytes":1,"max_output_tokens":1}`},
	{bcp.CheckMessage, bcp.KindUsage, bcp.Malformed, nil, `usage web {"act":"settle"}`},
	{bcp.CheckModel, bcp.KindUsage, bcp.NotPermitted, nil, `usage web {"act":"reserve","call_id":"c","model":"unpriced","request_bytes":1,"max_output_tokens":1}`},
	{bcp.CheckRepeat, bcp.KindUsage, bcp.Malformed, nil, `usage web {"act":"reserve","call_id":"c","model":"small","request_bytes":1,"max_output_tokens":1}
usage web {"act":"reserve","call_id":"c","model":"small","request_bytes":2,"max_output_tokens":1}`},
	{bcp.CheckTokenBudget, bcp.KindUsage, bcp.BudgetExhausted, nil, `usage web {"act":"reserve","call_id":"c","model":"small","request_bytes":1,"max_output_tokens":100000}`},
	{bcp.CheckCostBudget, bcp.KindUsage, bcp.BudgetExhausted, func(m *bcp.Mesh, _ *bcp.Channel) { m.Agents[4].Run.CostBudget = 1 }, `usage web {"act":"reserve","call_id":"c","model":"small","request_bytes":1,"max_output_tokens":1}`},
	{bcp.CheckPermission, bcp.KindViolation, bcp.NotPermitted, nil, "event violation mail 1"},
}

func suspends(m *bcp.Mesh, _ *bcp.Channel) { m.SuspendSuspects = true }

// notPlayed are the checks without a history above, and why: what a limited
// agent sends, or pushes too often, is counted, a full channel takes thousands of deliveries, other
// definitions are loaded in a test of their own, and a refused erasure is not
// recorded.
var notPlayed = []bcp.Check{bcp.CheckRefusals, bcp.CheckRate, bcp.CheckBatch, bcp.CheckOutbox, bcp.CheckStands, bcp.CheckErasure}

// A refusal is explained by the check that made it: the rules in front of it
// passed, it is the last, and its code is the decision's. Every check and every
// code that refuses is here.
//
// covers P10, P11.1, P11.3, BCP-92
func TestExplainEveryRefusal(t *testing.T) {
	t.Parallel()
	checked, heard := map[bcp.Check]bool{}, map[bcp.Code]bool{bcp.RateLimited: true, bcp.ApprovalRejected: true, bcp.Unavailable: true, bcp.Internal: true}
	for _, tt := range refusals {
		mesh := testMesh()
		if tt.edit != nil {
			tt.edit(mesh, channelIn(mesh, plannerMail))
		}
		w := newWorld(t, mesh).play(tt.history)
		d := w.last
		if d.Check != tt.check || d.Kind != tt.kind || d.Code != tt.code {
			t.Errorf("%s: %s refused by %s with %s, want %s by %s with %s", tt.history, d.Kind, d.Check, d.Code, tt.kind, tt.check, tt.code)
			continue
		}
		checked[d.Check], heard[d.Code] = true, true
		public := d.Public()
		x := tell.Explain(&public, mesh)
		var names []bcp.Check
		for i, r := range x.Rules {
			names = append(names, r.Check)
			failIf(t, r.Passed == (i == len(x.Rules)-1) || r.Rule == "" || r.Text == "",
				"%s: rule %d of %d is %+v", tt.history, i, len(x.Rules), r)
		}
		if n := len(names); n == 0 || names[n-1] != d.Check || x.Rule != x.Rules[n-1].Rule || x.Code != d.Code {
			t.Errorf("%s: explained by %v, %s", tt.history, names, x.Rule)
		}
		failIf(t, !isSubsequence(names, bcp.Checks(d.Kind)) || len(x.Changes) == 0 || x.Decided == "", "%s: %+v", tt.history, x)
		if x := tell.Explain(&public, nil); len(x.Changes) == 0 || len(x.Rules) == 0 {
			t.Errorf("%s: without definitions: %+v", tt.history, x)
		}
	}
	for _, info := range everyCheck() {
		failIf(t, checked[info.Check] == slices.Contains(notPlayed, info.Check), "%s: played %v", info.Check, checked[info.Check])
	}
	for _, line := range bcp.Catalogue() {
		failIf(t, !line.Outcome && !heard[line.Code], "no history is refused with %s", line.Code)
	}
}

func isSubsequence(part, whole []bcp.Check) bool {
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
	set := map[bcp.Check]func(*bcp.Mesh, *bcp.Channel, bcp.Bits){
		bcp.CheckBudget:         func(_ *bcp.Mesh, c *bcp.Channel, b bcp.Bits) { c.Budget = b },
		bcp.CheckPushBudget:     func(_ *bcp.Mesh, c *bcp.Channel, b bcp.Bits) { c.PushBudget = b },
		bcp.CheckCapacityBudget: func(_ *bcp.Mesh, c *bcp.Channel, b bcp.Bits) { c.CapacityBudget = b },
		bcp.CheckWindowBudget:   func(_ *bcp.Mesh, c *bcp.Channel, b bcp.Bits) { c.WindowBudget = b },
		bcp.CheckTotalBudget:    func(m *bcp.Mesh, _ *bcp.Channel, b bcp.Bits) { m.Agents[2].TotalBudget = b },
	}
	for _, tt := range refusals {
		if set[tt.check] == nil {
			continue
		}
		build := func(limit bcp.Bits, other bool) *bcp.Mesh {
			mesh := testMesh()
			tt.edit(mesh, channelIn(mesh, plannerMail))
			if other {
				set[tt.check](mesh, channelIn(mesh, plannerMail), limit)
			}
			return mesh
		}
		mesh := build(0, false)
		d := newWorld(t, mesh).play(tt.history).last
		change := tell.Explain(&d, mesh).Changes[0]
		value, named := strings.CutPrefix(change, d.Check.Info().Key+": ")
		value, _, _ = strings.Cut(value, " ")
		enough, err := bcp.ParseBits(value)
		failIf(t, err != nil || !named,
			"%s: %q does not begin with a value of %s, %v", tt.history, change, d.Check.Info().Key, err)
		if d := newWorld(t, build(enough, true)).play(tt.history).last; !d.Accepted() {
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
		checks                 []bcp.Check
	}{
		{"ask planner mail yes", "", "accepted; 1 bit ", []bcp.Check{bcp.CheckRefusals, bcp.CheckSuspended, bcp.CheckMessage, bcp.CheckShape, bcp.CheckRepeat, bcp.CheckChannel, bcp.CheckCategory, bcp.CheckSpec,
			bcp.CheckSessionFailed, bcp.CheckBudget, bcp.CheckReader, bcp.CheckOutbox}},
		{"ask planner mail three" + why, "P6.3", "held for a person", []bcp.Check{bcp.CheckRefusals, bcp.CheckSuspended, bcp.CheckMessage, bcp.CheckShape, bcp.CheckRepeat, bcp.CheckChannel, bcp.CheckCategory, bcp.CheckSpec,
			bcp.CheckJustified, bcp.CheckOwnWords, bcp.CheckSessionFailed, bcp.CheckEscalations, bcp.CheckBudget, bcp.CheckReader, bcp.CheckOutbox}},
		{"push mail planner memo {\"summary\":\"x\"}", "P3.5", "held for a person", []bcp.Check{bcp.CheckRefusals, bcp.CheckSuspended, bcp.CheckMessage, bcp.CheckRepeat, bcp.CheckSubscription, bcp.CheckAnswer, bcp.CheckBudget, bcp.CheckPushBudget, bcp.CheckQueue, bcp.CheckOutbox, bcp.CheckController}},
		{"push mail planner memo {\"summary\":\"x\"}\napprove 1", "P7.3", "delivered as ", bcp.Checks(bcp.KindApproval)},
		{"ask planner mail yes\nanswer mail 1 nei", "P3.9", "accepted; planner hears not_enough_information", []bcp.Check{bcp.CheckRefusals, bcp.CheckSuspended, bcp.CheckMessage, bcp.CheckQuery, bcp.CheckAnswered, bcp.CheckCancelled, bcp.CheckDeadline, bcp.CheckNoInformation}},
		{"ask planner mail text\nanswer mail 1 " + strings.ReplaceAll(heldAnswer, " ", "_"), "P3.6", "held for a person", []bcp.Check{bcp.CheckRefusals, bcp.CheckSuspended, bcp.CheckMessage, bcp.CheckQuery, bcp.CheckAnswered, bcp.CheckCancelled, bcp.CheckDeadline, bcp.CheckAnswer, bcp.CheckQueue}},
		{"ask planner mail yes\nwait 15m\ndue", "P9.2", "planner hears expired", nil},
		{"ask planner mail yes\nclose planner\ndue", "P7.6", "planner hears cancelled", nil},
		{"ask planner mail yes id=r1\nask planner mail yes id=r1", "P2.6", "a repeat, which hears the same", nil},
		{"ask planner mail yes\nanswer mail 1 {\"ok\":true}\nack planner", "", "planner has it", nil},
	} {
		mesh := testMesh()
		d := newWorld(t, mesh).play(tt.history).last
		x := tell.Explain(&d, mesh)
		var names []bcp.Check
		for _, r := range x.Rules {
			names = append(names, r.Check)
			failIf(t, !r.Passed, "%s: %+v did not pass", tt.history, r)
		}
		failIf(t, x.Rule != tt.rule || !strings.HasPrefix(x.Decided, tt.decided) || !slices.Equal(names, tt.checks),
			"%s: %q %q %v", tt.history, x.Rule, x.Decided, names)
		expect(t, x.Verdict == bcp.Hold, len(x.Changes) > 0, "%s: changes %q", tt.history, x.Changes)
	}
}
