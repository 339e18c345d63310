package contract_test

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

const minute = int64(time.Minute)

var begin = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// Each rule raises an alert at its threshold and not one event before it; events count
// within the time of the threshold, which ends where it says; and after an alert its rule
// is quiet for as long.
//
// covers DUAL-94, DUAL-96, P16.2
func TestThresholds(t *testing.T) {
	t.Parallel()
	want := map[bcp.SuspectRule]contract.SuspectThreshold{
		bcp.SuspectSubject: {Count: 3, Within: 10 * time.Minute}, bcp.SuspectOtherRole: {Count: 1, Within: 10 * time.Minute},
		bcp.SuspectTools: {Count: 3, Within: 24 * time.Hour}, bcp.SuspectUnusual: {Count: 1, Within: 24 * time.Hour},
		bcp.SuspectCall: {Count: 5, Within: 10 * time.Minute}, bcp.SuspectAnswer: {Count: 10, Within: 10 * time.Minute},
		bcp.SuspectReply: {Count: 1, Within: 10 * time.Minute}, bcp.SuspectOutcome: {Count: 3, Within: 24 * time.Hour},
	}
	stopIf(t, len(contract.SuspectRules()) != len(want), "%d rules", len(contract.SuspectRules()))
	for rule, threshold := range want {
		got, ok := contract.ThresholdOf(rule)
		failIf(t, !ok || got != threshold, "%s: %+v", rule, got)
	}
	for _, rule := range contract.SuspectRules() {
		if rule == bcp.SuspectUnusual { // counts otherwise
			continue
		}
		count, within := want[rule].Count, int64(want[rule].Within)
		see := func(w *contract.Watch, at int64, n int) int {
			return w.See(at, bcp.Seen{Agent: "eve", Rule: rule, Count: n})
		}
		for name, counts := range map[string][]int{"one by one": slices.Repeat([]int{1}, count), "in two records": {max(count-1, 0), 1}, "in one record": {count}} {
			w, seen := contract.NewWatch(), 0
			for i, n := range counts {
				seen += n
				got, want := see(w, begin+int64(i), n), 0
				if seen == count {
					want = count
				}
				failIf(t, got != want, "%s %s: %d after %d", rule, name, got, seen)
			}
			expect(t, see(w, begin+within-1, 1000), 0, "%s: raised again while it is quiet", rule)
			expect(t, see(w, begin+2*within, count), count, "%s: after it was quiet", rule)
		}
		if count == 1 {
			continue
		}
		for span, want := range map[int64]int{within - 1: count, within: 0} {
			w := contract.NewWatch()
			see(w, begin, count-1)
			expect(t, see(w, begin+span, 1), want, "%s: after %v", rule, time.Duration(span))
		}
	}
}

// Each agent and each rule counts by itself, time does not go back, and what is no event
// counts nothing.
func TestEventsOfOthers(t *testing.T) {
	t.Parallel()
	type event struct {
		at int64
		bcp.Seen
	}
	of := func(at int64, agent bcp.AgentName, rule bcp.SuspectRule, n int) event {
		return event{begin + at, bcp.Seen{Agent: agent, Rule: rule, Count: n}}
	}
	for name, c := range map[string]struct {
		events []event
		want   int // of the last
	}{
		"two agents":             {[]event{of(0, "eve", bcp.SuspectSubject, 2), of(1, "kim", bcp.SuspectSubject, 1)}, 0},
		"two rules":              {[]event{of(0, "eve", bcp.SuspectSubject, 2), of(1, "eve", bcp.SuspectCall, 1)}, 0},
		"a clock that goes back": {[]event{of(0, "eve", bcp.SuspectSubject, 1), of(60*minute, "eve", bcp.SuspectSubject, 1), of(minute, "eve", bcp.SuspectSubject, 2)}, 3},
		"no rule":                {[]event{of(0, "eve", "charm", 1000)}, 0},
		"nobody":                 {[]event{of(0, "", bcp.SuspectSubject, 1000)}, 0},
		"nothing":                {[]event{of(0, "eve", bcp.SuspectReply, 0)}, 0},
		"less":                   {[]event{of(0, "eve", bcp.SuspectReply, -1)}, 0},
	} {
		w, got := contract.NewWatch(), 0
		for _, e := range c.events {
			got = w.See(e.at, e.Seen)
		}
		failIf(t, got != c.want, "%s: %d", name, got)
	}
}

// What is taken off is the oldest that still counts, and no more than there is; nobody gets
// ahead by it.
//
// covers P16.2
func TestTakenOff(t *testing.T) {
	t.Parallel()
	w := contract.NewWatch()
	see := func(at int64, n int) int {
		return w.See(begin+at, bcp.Seen{Agent: "eve", Rule: bcp.SuspectAnswer, Count: n})
	}
	for _, step := range []struct {
		at        int64
		seen, got int
	}{
		{0, -5, 0}, {0, 9, 0}, {1, -1, 0}, {1, 1, 0}, {2, 1, 10}, // one taken off, one more, and the tenth
		{20 * minute, math.MinInt, 0}, {20 * minute, 9, 0}, {21 * minute, -100, 0}, {21 * minute, 9, 0}, {21 * minute, 1, 10},
		{40 * minute, 5, 0}, {45 * minute, 4, 0}, {50 * minute, -1, 0}, {50 * minute, 6, 0}, {50 * minute, 1, 10}, // the first five are over, and one of the four is off
	} {
		expect(t, see(step.at, step.seen), step.got, "%+v", step)
	}
	honest := contract.NewWatch()
	for i := range int64(10_000) { // a Reader that fails each second query
		for _, n := range []int{1, -1} {
			stopIf(t, honest.See(begin+i, bcp.Seen{Agent: "kim", Rule: bcp.SuspectAnswer, Count: n}) > 0, "it is suspected")
		}
	}
	silent := contract.NewWatch()
	silent.See(begin, bcp.Seen{Agent: "kim", Rule: bcp.SuspectAnswer, Count: -1})
	saved, none := save(t, silent), save(t, contract.NewWatch())
	failIf(t, !bytes.Equal(saved, none), "%q is remembered of a Reader that answers as it should", saved)
}

// A plan is unusual from ten times the median of the 31 before it on, and from 40 steps.
//
// covers DUAL-94
func TestUnusualPlans(t *testing.T) {
	t.Parallel()
	plan := func(agent bcp.AgentName, steps int) bcp.Seen {
		return bcp.Seen{Agent: agent, Rule: bcp.SuspectUnusual, Count: steps}
	}
	for _, c := range []struct {
		plans, usual, steps int
		want                bool
	}{{31, 4, 40, true}, {31, 4, 39, false}, {30, 4, 4000, false}, {31, 5, 50, true}, {31, 5, 49, false}, {31, 1, 40, true}, {31, 1, 39, false}} {
		w := contract.NewWatch()
		for i := range c.plans {
			steps := c.usual
			if c.usual > 1 && i < 10 {
				steps = 1000 // rare large plans do not change what is usual
			}
			stopIf(t, w.See(begin, plan("kim", steps)) != 0, "an alert before 31 plans")
		}
		got := w.See(begin, plan("kim", c.steps))
		failIf(t, (got == 1) != c.want, "%+v: %d", c, got)
		failIf(t, w.See(begin, plan("eve", 1000)) != 0, "an alert about another agent's first plan")
	}
}

func save(t bcptest.TB, w *contract.Watch) []byte {
	return bcptest.MustIn(bcp.AppendSaved(nil, w))(t)
}

// What is remembered of an agent has a bound that no agent can move: whatever comes, what
// is saved is no longer than that.
//
// covers DUAL-94
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	w := contract.NewWatch()
	longest := 0
	for i := range 100_000 {
		for _, rule := range contract.SuspectRules() {
			w.See(begin+int64(i)*int64(time.Second)/3, bcp.Seen{Agent: "eve", Rule: rule, Count: 1 + i%7*(1<<40)})
		}
		if i%1000 == 0 {
			longest = max(longest, len(save(t, w)))
		}
	}
	failIf(t, longest > 2000, "%d bytes are remembered of one agent", longest)
}

// Who is lifted is counted as ever, and nobody else is.
//
// covers P16.2, P16.3
func TestLift(t *testing.T) {
	t.Parallel()
	w := contract.NewWatch()
	see := func(agent bcp.AgentName) int {
		return w.See(begin, bcp.Seen{Agent: agent, Rule: bcp.SuspectReply, Count: 1})
	}
	failIf(t, see("eve") != 1 || see("kim") != 1 || see("eve") != 0, "no alert, or two")
	w.Lift("eve")
	failIf(t, see("eve") != 1 || see("kim") != 0, "who was lifted is not counted, or somebody else is")
}

// What records say, and of whom: of who sent the message, in a role in which agents send.
//
// covers DUAL-94, P16.2
func TestOf(t *testing.T) {
	t.Parallel()
	seen := func(rules ...bcp.SuspectRule) (all []bcp.Seen) {
		for _, rule := range rules {
			all = append(all, bcp.Seen{Agent: "eve", Rule: rule, Count: 1})
		}
		return all
	}
	denied := func(role bcp.Role, act, family string) bcp.Decision {
		return bcp.Decision{Kind: bcp.KindViolation, Agent: "eve", Role: role, Event: act, Family: family, Count: 1}
	}
	answer := func(check bcp.Check) bcp.Decision {
		return bcp.Decision{Kind: bcp.KindAnswer, Agent: "eve", Reader: "eve", Controller: "kim", Verdict: bcp.Reject, Check: check}
	}
	taken := func(v bcp.Outcome) bcp.Decision {
		return bcp.Decision{Kind: bcp.KindAnswer, Agent: "eve", Reader: "eve", Controller: "kim", Verdict: v}
	}
	off := []bcp.Seen{{Agent: "eve", Rule: bcp.SuspectAnswer, Count: -1}}
	last := func(check bcp.Check) bcp.Decision {
		d := answer(check)
		d.Outcome = bcp.Rejected
		return d
	}
	for name, c := range map[string]struct {
		d    bcp.Decision
		want []bcp.Seen
	}{
		"a Reader that asks":              {denied(bcp.RoleReader, "publish", "ask"), seen(bcp.SuspectSubject, bcp.SuspectOtherRole)},
		"a Reader that listens to asks":   {denied(bcp.RoleReader, "subscribe", "ask"), seen(bcp.SuspectSubject)},
		"a Reader that pushes elsewhere":  {denied(bcp.RoleReader, "publish", "push"), seen(bcp.SuspectSubject)},
		"a Reader's second answer":        {denied(bcp.RoleReader, "publish", "reply"), seen(bcp.SuspectSubject)},
		"a Controller that asks another":  {denied(bcp.RoleController, "publish", "ask"), seen(bcp.SuspectSubject)},
		"a Controller that pushes":        {denied(bcp.RoleController, "publish", "push"), seen(bcp.SuspectSubject, bcp.SuspectOtherRole)},
		"a Controller that calls a tool":  {denied(bcp.RoleController, "publish", "call"), seen(bcp.SuspectSubject, bcp.SuspectOtherRole)},
		"a planner that calls a tool":     {denied(bcp.RolePlanner, "publish", "call"), seen(bcp.SuspectSubject, bcp.SuspectOtherRole)},
		"a tool that answers a query":     {denied(bcp.RoleTool, "publish", "query"), seen(bcp.SuspectSubject, bcp.SuspectOtherRole)},
		"a keeper that pushes":            {denied(bcp.RoleKeeper, "publish", "push"), seen(bcp.SuspectSubject, bcp.SuspectOtherRole)},
		"streams":                         {denied(bcp.RoleReader, "publish", "streams"), seen(bcp.SuspectSubject)},
		"a subject like none":             {denied(bcp.RoleReader, "publish", ""), seen(bcp.SuspectSubject)},
		"an approver":                     {denied(bcp.RoleApprover, "publish", "ask"), nil},
		"an auditor":                      {denied(bcp.RoleAuditor, "publish", "ask"), nil},
		"the operator":                    {denied(bcp.RoleOperator, "publish", "ask"), nil},
		"a dispatcher":                    {denied(bcp.RoleDispatcher, "publish", "call"), nil},
		"nobody in a role":                {denied(0, "publish", "ask"), nil},
		"an answer that is not of a spec": {last(bcp.CheckAnswer), seen(bcp.SuspectAnswer)},
		"an answer that is no message":    {last(bcp.CheckMessage), seen(bcp.SuspectAnswer)},
		"an answer that may be mended":    {answer(bcp.CheckAnswer), nil},
		"no message, and may be mended":   {answer(bcp.CheckMessage), nil},
		"no message, to no query":         {bcp.Decision{Kind: bcp.KindAnswer, Agent: "eve", Reader: "eve", Verdict: bcp.Reject, Check: bcp.CheckMessage}, seen(bcp.SuspectAnswer)},
		"no information":                  {last(bcp.CheckNoInformation), nil},
		"a queue that stays full":         {last(bcp.CheckQueue), nil},
		"an answer to no query":           {answer(bcp.CheckQuery), seen(bcp.SuspectReply)},
		"an answer that is late":          {answer(bcp.CheckDeadline), nil},
		"a second answer":                 {answer(bcp.CheckAnswered), nil},
		"a full queue":                    {answer(bcp.CheckQueue), nil},
		"an answer as it should be":       {taken(bcp.Accept), off},
		"one that a person has to see":    {taken(bcp.Hold), off},
		"an answer in no verdict":         {taken(0), nil},
		"a refused ask":                   {bcp.Decision{Kind: bcp.KindAsk, Agent: "eve", Verdict: bcp.Reject, Check: bcp.CheckSpec}, nil},
		"a repeat":                        {bcp.Decision{Kind: bcp.KindAnswer, Agent: "eve", Reader: "eve", Verdict: bcp.Reject, Check: bcp.CheckAnswer, Repeat: true}, nil},
	} {
		diff := cmp.Diff(c.want, contract.SeenIn(&c.d))
		failIf(t, diff != "", "%s: %s", name, diff)
	}
}

// A replay raises the same alerts, also one that begins with what was saved on the way,
// and an alert counts no fewer events than its threshold.
//
// covers DUAL-94, DUAL-96
func TestReplayRaisesTheSame(t *testing.T) {
	t.Parallel()
	type event struct {
		at int64
		bcp.Seen
	}
	rapid.Check(t, func(t *rapid.T) {
		var events []event
		at := begin
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			at += int64(rapid.IntRange(-60, 400).Draw(t, "seconds")) * int64(time.Second)
			events = append(events, event{at, bcp.Seen{
				Agent: rapid.SampledFrom([]bcp.AgentName{"eve", "kim"}).Draw(t, "agent"), Rule: rapid.SampledFrom(contract.SuspectRules()).Draw(t, "rule"),
				Count: rapid.IntRange(-2, 12).Draw(t, "count"),
			}})
		}
		play := func(saved int) (alerts []int, end []byte) {
			w := contract.NewWatch()
			for i, e := range events {
				if i == saved {
					before := save(t, w)
					w = contract.NewWatch()
					rest, err := bcp.CutSaved(before, w)
					stopIf(t, err != nil || len(rest) > 0 || !w.Valid(), "%q cannot be read: %v", before, err)
				}
				n := w.See(e.at, e.Seen)
				threshold, _ := contract.ThresholdOf(e.Rule)
				stopIf(t, n != 0 && n < threshold.Count, "an alert of %d", n)
				alerts = append(alerts, n)
			}
			return alerts, save(t, w)
		}
		first, end := play(-1)
		again, endAgain := play(rapid.IntRange(0, 60).Draw(t, "saved"))
		diff := cmp.Diff(first, again)
		stopIf(t, diff != "" || !bytes.Equal(end, endAgain), "a replay differs: %s\n%q\n%q", diff, end, endAgain)
	})
}
