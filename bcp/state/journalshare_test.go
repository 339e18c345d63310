package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// flood decides the same again and again within a second, and returns how many records
// there were, and how many bytes.
func flood(w *world, say func(n int) bcp.Decision) (records, size int) {
	for n := range 300 {
		w.body = nil
		d := say(n)
		if d.Code == bcp.RateLimited {
			continue
		}
		if recorded, _ := w.state.Admit(&d); recorded {
			w.commit(d)
			records++
			size += len(w.journal[len(w.journal)-1])
		}
	}
	return records, size
}

// Every refusal that an agent can cause is in the journal max_refusals times a minute,
// whoever's fault it is, and beyond that only counted.
//
// covers P4.7, P11.1
func TestEveryRefusalIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range refusals {
		if tt.kind == bcp.KindApproval || tt.kind == bcp.KindEndorse || tt.kind == bcp.KindViolation || tt.check == bcp.CheckAct {
			continue // people's, or counted as the server tells of it
		}
		mesh := testMesh()
		if tt.edit != nil {
			tt.edit(mesh, channelIn(mesh, plannerMail))
		}
		w := newWorld(t, mesh).play(tt.history)
		lines := strings.Split(tt.history, "\n")
		before := len(w.journal)
		for range 300 {
			w.act(lines[len(lines)-1])
		}
		n := len(w.journal) - before
		failIf(t, n > mesh.MaxRefusals+maxRepeats, "%s by %s: %d records of 300 messages", tt.kind, tt.check, n)
		last := w.journal[len(w.journal)-1]
		failIf(t, len(last) > bcp.MaxFreeBytes+recordBytes, "%s by %s: a record of %d bytes", tt.kind, tt.check, len(last))
	}
}

// Everything else that an agent can cause without bits is bounded as well. A new kind of
// record needs its flood here, or says what bounds it.
//
// covers P4.7, P11.1
func TestEveryKindOfRecordIsBounded(t *testing.T) {
	t.Parallel()
	padded := func(w *world, body string) []byte {
		return w.said([]byte(body + strings.Repeat(" ", 4*bcp.MaxFreeBytes)))
	}
	session := func(bodies ...string) func(*world, int) bcp.Decision {
		return func(w *world, n int) bcp.Decision {
			return w.state.DecideSession(w.moment(), "planner", padded(w, bodies[n%len(bodies)]))
		}
	}
	repeats := func(history string) func(*world, int) bcp.Decision {
		return func(w *world, n int) bcp.Decision {
			id := fmt.Sprintf(history, n/(maxRepeats+1)) // as many ids as there are repeats of each
			words := strings.Fields(id)
			if words[0] == "ask" {
				return w.state.DecideAsk(w.moment(), "planner", "mail", w.said(askBytes(words[1], words[2], "")))
			}
			return w.state.DecidePush(w.moment(), "mail", "planner", "alarm", w.said(pushBytes("planner", "alarm", `{"ok":true}`, words[1])))
		}
	}
	proposal := `{"verb":"propose","proposal":{"reader":"mail","subscription":{` + proposedNew + `}}}`
	verdict := func(w *world, accepted bool) RoleVerdict {
		return RoleVerdict{Acceptance: contract.Acceptance{Accepted: accepted, Until: w.now.Add(time.Hour)}, Organisation: "other", List: RoleRevocations{"other", contract.Revocations{Number: 1}}}
	}
	rich := func(c *bcp.Channel) { c.Budget, c.PushBudget = 1<<20*bcp.Bit, 1<<20*bcp.Bit }
	// bits says that bits or others' messages bound a kind's records, and the journal's share
	// what they take (TestNobodyHasMoreOfTheJournalThanIsFree).
	const bits, operator, server = "bits, or messages that it is allowed to answer", "the operator", "the gateway or the server, once a second or less"
	bounds := map[bcp.DecisionKind]any{
		bcp.KindStart: operator, bcp.KindReload: operator, bcp.KindErase: operator, bcp.KindTruncate: operator, bcp.KindPrompt: operator, bcp.KindApproval: operator, bcp.KindEndorse: operator,
		bcp.KindAcknowledge: bits, bcp.KindExpire: bits, bcp.KindBatch: bits, bcp.KindAnswer: bits, bcp.KindUsage: bits, bcp.KindEgress: bits,
		bcp.KindRun: bits, bcp.KindPlan: bits, bcp.KindStep: bits, bcp.KindCall: bits, bcp.KindOutcome: bits,
		bcp.KindConnect: server, bcp.KindDisconnect: server, bcp.KindViolation: server, bcp.KindRefusals: server, bcp.KindAlert: server, bcp.KindProcess: server, bcp.KindCredential: server,
		bcp.KindAsk:     repeats("ask yes r%d"),
		bcp.KindPush:    repeats("push p%d"),
		bcp.KindSession: session(`{"verb":"open"}`, `{"verb":"close"}`),
		bcp.KindTaint:   session(`{"verb":"taint","taint":{"source":"web"}}`),
		bcp.KindPropose: session(proposal),
		bcp.KindHand: func(w *world, n int) bcp.Decision {
			if n == 0 {
				w.sealed("mail")
			}
			return w.state.DecideSession(w.moment(), "planner", padded(w, fmt.Sprintf(`{"verb":"hand","handle":%q}`, "sealed:"+w.state.Outbox(plannerMail)[0].DeliveryID+".0")))
		},
		bcp.KindDeclare: []func(*world, int) bcp.Decision{
			func(w *world, n int) bcp.Decision {
				return w.state.DecideHeard(w.moment(), "relay", bcp.RoleController, "mail", padded(w, "{}"), verdict(w, n%2 == 0).Acceptance)
			},
			func(w *world, n int) bcp.Decision {
				return w.state.DecideDeclare(w.moment(), "relay", bcp.RoleController, bcp.DualLLMRole, "key", padded(w, "{}"), verdict(w, n%2 == 0))
			},
			func(w *world, n int) bcp.Decision {
				d, _ := w.state.DecideRevocations(w.moment(), "relay", bcp.RoleController, padded(w, "{}"), RoleRevocations{"other", contract.Revocations{Number: int64(n)}})
				return d
			},
			func(w *world, _ int) bcp.Decision {
				return w.state.DecideRoleMissing(w.moment(), "relay", padded(w, "{}"))
			},
		},
	}
	for _, kind := range bcp.DecisionKinds() {
		bound, known := bounds[kind]
		failIf(t, !known, "nothing says what bounds records of %s", kind)
		floods, _ := bound.([]func(*world, int) bcp.Decision)
		if one, ok := bound.(func(*world, int) bcp.Decision); ok {
			floods = append(floods, one)
		}
		for i, say := range floods {
			mesh := edited(rich)
			mesh.Trust = []bcp.Trust{{Organisation: "other"}}
			w := newWorld(t, mesh)
			records, size := flood(w, func(n int) bcp.Decision { return say(w, n) })
			paid := 0
			if kind == bcp.KindAsk || kind == bcp.KindPush {
				paid = 300/(maxRepeats+1) + 1
			}
			if most := reportsAMinute + paid + 1; records == 0 || records > most || size > most*(bcp.MaxFreeBytes+recordBytes) {
				t.Errorf("%s %d: %d records of %d bytes", kind, i, records, size)
			}
		}
	}
}

// What the other end of a channel brought about silences nobody on other channels: a Reader
// whose queries are cancelled, expire or find the budget spent, a Controller whose Reader
// has spent it.
//
// covers P4.7, P7.6
func TestTheOtherEndSilencesNobody(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]string{
		"cancelled":    strings.Repeat("ask planner mail yes => accept\n", 40) + "close planner => ends\n" + answersTo(40, "cancelled"),
		"ended":        strings.Repeat("ask planner mail yes => accept\n", 40) + "close planner => ends\n" + strings.Repeat("due => expire\n", 40) + answersTo(40, "cancelled"),
		"too late":     strings.Repeat("ask planner mail yes => accept\n", 40) + "wait 15m\n" + answersTo(40, "query_expired"),
		"spent":        "ask planner mail num => accept\n" + strings.Repeat("push mail planner alarm {\"ok\":true} => budget_exhausted\n", 40),
		"unavailable":  "process planner unavailable\n" + strings.Repeat("push mail planner alarm {\"ok\":true} => controller_unavailable\n", 40),
		"a full queue": "push mail planner memo {\"summary\":\"a\"} => hold\n" + strings.Repeat("push mail planner memo {\"summary\":\"a\"} => approval_queue_full\n", 40),
	} {
		w := newWorld(t, edited(func(c *bcp.Channel) {
			c.MaxPendingApprovals = 1
			if name == "spent" {
				c.Budget = 10*bcp.Bit + bcp.Bit/2
			}
		}))
		w.play(history + "push mail clerk alarm {\"n\":1} => accept")
		n := len(w.journal)
		failIf(t, n > 2*40+2*w.config.Mesh.MaxRefusals+4, "%s: %d records", name, n)
	}
}

// answersTo are late answers to the first n queries.
func answersTo(n int, code string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "answer mail %d {\"ok\":true} => %s\n", i+1, code)
	}
	return b.String()
}

// Nobody has more of the journal than is free, not even by messages that bits pay for; the
// others are heard. It is as much as before once the journal is truncated.
//
// covers P4.7
func TestNobodyHasMoreOfTheJournalThanIsFree(t *testing.T) {
	t.Parallel()
	mesh := edited(func(c *bcp.Channel) { c.Budget, c.PushBudget = 1<<20*bcp.Bit, 1<<20*bcp.Bit })
	mesh.MaxDisk = 512 << 10 // the journal has half of it
	w := newWorld(t, mesh)
	limit := mesh.JournalBytes()
	refused := func(line string) bool {
		d := w.act(line)
		return strings.Contains(strings.Join(d, " "), " unavailable")
	}
	for n := range 1000 {
		if refused(`push mail planner alarm {"ok":true}`) {
			break
		}
		stopIf(t, n == 999, "a Reader fills the journal")
	}
	own := w.state.share.of["mail"]
	free := limit - w.state.share.all
	failIf(t, own <= free || own > free+2*3*recordBytes, "it has %d bytes, and %d are free", own, free)
	failIf(t, !w.state.ExceedsShare("mail") || w.state.ExceedsShare("planner") || refused("ask planner relay yes") || refused(`push relay planner alarm {"ok":true}`),
		"another is not heard, or this one is")
	size := 0
	for _, record := range w.journal {
		size += len(record)
	}
	failIf(t, int64(size) > w.state.share.all, "the journal has %d bytes, and %d are counted", size, w.state.share.all)
	w.play("start") // which compares the state with its replay and checkpoint
	w.commit(w.state.DecideTruncate(w.moment(), bcp.Truncation{Sequence: 1}))
	failIf(t, !w.state.ExceedsShare("mail"), "it is heard when a truncation is announced")
	w.commit(w.state.DecideTruncate(w.moment(), bcp.Truncation{Sequence: 1, Base: bcp.Digest{1}, Backup: bcp.Digest{1}, File: "a"}))
	failIf(t, w.state.ExceedsShare("mail") || refused(`push mail planner alarm {"ok":true}`),
		"it is not heard once the journal is truncated")
	// At the limit, and one byte past it.
	s := w.fresh()
	s.share.add("mail", limit/2)
	failIf(t, s.ExceedsShare("mail"), "an agent may have as much as is free")
	s.share.add("mail", 1)
	failIf(t, !s.ExceedsShare("mail"), "an agent may have more than is free")
}

// What bounds a record: what is told again, what changes nothing and what somebody is at fault
// for is never taken for what bits pay for, nor the other way round.
//
// covers P4.7
func TestWhatBoundsARecord(t *testing.T) {
	t.Parallel()
	refusal := func(code bcp.Code, change func(*bcp.Decision)) bcp.Decision {
		d := bcp.Decision{Kind: bcp.KindAsk, Verdict: bcp.Reject, Agent: "planner", Role: bcp.RoleController, Controller: "planner", Reader: "mail", Code: code, Excused: true}
		if change != nil {
			change(&d)
		}
		return d
	}
	run := func(code string) bcp.Decision {
		return bcp.Decision{Kind: bcp.KindRun, Verdict: bcp.Accept, Agent: "planner", Run: &bcp.RunChange{Code: code}}
	}
	began := func(s *State, ch *channelState) {
		session := &s.agents["planner"].session
		session.begun, session.id = true, "now"
		ch.session = "now"
	}
	escalation := refusal(bcp.EscalationLimitReached, func(d *bcp.Decision) { d.Session = "now" })
	for name, c := range map[string]struct {
		d       bcp.Decision
		prepare func(*State, *channelState)
		want    costs
	}{
		"an act of a run":           {run(""), nil, costsElsewhere},
		"an end that is told again": {run("x"), nil, costsReport},
		"a proposal":                {bcp.Decision{Kind: bcp.KindPropose, Verdict: bcp.Hold, Agent: "planner"}, nil, costsElsewhere},
		"a repeated proposal":       {bcp.Decision{Kind: bcp.KindPropose, Verdict: bcp.Hold, Agent: "planner", Repeat: true}, nil, costsReport},
		"a repeated ask":            {bcp.Decision{Kind: bcp.KindAsk, Verdict: bcp.Accept, Agent: "planner", Repeat: true}, nil, costsNothing},
		"a new source of taint":     {bcp.Decision{Kind: bcp.KindTaint, Verdict: bcp.Accept, Agent: "planner", Target: "planner", Event: "new"}, nil, costsElsewhere},
		"a known one": {bcp.Decision{Kind: bcp.KindTaint, Verdict: bcp.Accept, Agent: "planner", Target: "planner", Event: "web", Taint: bcp.TaintHigh}, func(s *State, _ *channelState) {
			s.agents["planner"].reported = bcp.TaintHigh
			s.agents["planner"].sources = append(s.agents["planner"].sources, "web")
		}, costsReport},
		"of nobody":                   {bcp.Decision{Kind: bcp.KindTaint, Verdict: bcp.Accept, Agent: "planner", Target: "nobody", Event: "new"}, nil, costsReport},
		"a refusal that is delivered": {refusal(bcp.Unavailable, func(d *bcp.Decision) { d.Delivery = "d" }), nil, costsElsewhere},
		"one that changes nothing":    {refusal(bcp.Unavailable, nil), nil, costsNothing},
		"of a query's next attempt":   {refusal(bcp.Unavailable, func(d *bcp.Decision) { d.Query, d.Attempt = "q", 2 }), nil, costsElsewhere},
		"of the attempt before":       {refusal(bcp.Unavailable, func(d *bcp.Decision) { d.Query, d.Attempt = "q", 1 }), nil, costsNothing},
		"of no query":                 {refusal(bcp.Unavailable, func(d *bcp.Decision) { d.Query, d.Attempt = "gone", 2 }), nil, costsNothing},
		"the first of a spent budget": {refusal(bcp.BudgetExhausted, nil), func(_ *State, ch *channelState) { ch.exhausted = ch.newest() + 1 }, costsElsewhere},
		"the second":                  {refusal(bcp.BudgetExhausted, nil), func(_ *State, ch *channelState) { ch.exhausted = ch.newest() }, costsNothing},
		"while the alert is due": {refusal(bcp.BudgetExhausted, nil), func(s *State, ch *channelState) {
			ch.exhausted = ch.newest() + 1
			s.alerts = append(s.alerts, alert{channel: ch.definition.ChannelKey, kind: bcp.AlertExhausted})
		}, costsNothing},
		"of no channel":                 {refusal(bcp.BudgetExhausted, func(d *bcp.Decision) { d.Reader = "" }), nil, costsNothing},
		"the first escalation too many": {escalation, began, costsElsewhere},
		"the next":                      {escalation, func(s *State, ch *channelState) { began(s, ch); ch.failed = true }, costsNothing},
		"one of a new session":          {escalation, func(s *State, ch *channelState) { began(s, ch); ch.session, ch.failed = "before", true }, costsElsewhere},
		"one of another session": {escalation, func(s *State, ch *channelState) {
			began(s, ch)
			s.agents["planner"].session.id = "other"
		}, costsNothing},
		"one of no session": {escalation, func(s *State, ch *channelState) {
			began(s, ch)
			s.agents["planner"].session.begun = false
		}, costsNothing},
	} {
		s := newWorld(t, testMesh()).state
		s.queries["q"] = &queryState{attempt: 1}
		if c.prepare != nil {
			c.prepare(s, s.channels[bcp.ChannelKey{Controller: "planner", Reader: "mail"}])
		}
		expect(t, s.costs(&c.d), c.want, "%s", name)
	}
}

// Agents are limited, each also as its keeper, by their refusals and by their share of the
// journal. Of an agent that the definitions do not have there is nothing to count, people and the
// gateway itself are not limited, and an acknowledgement is recorded whatever was before.
//
// covers P4.7
func TestWhomAdmitLimits(t *testing.T) {
	t.Parallel()
	mesh := testMesh()
	mesh.MaxDisk = 512 << 10
	refused, full := newWorld(t, mesh).state, newWorld(t, mesh).state
	refused.agents["planner"].gathered.count, refused.agents["planner"].reports.count = 1<<20, 1<<20
	full.share.add("planner", mesh.JournalBytes())
	for name, c := range map[string]struct {
		s        *State
		kind     bcp.DecisionKind
		agent    bcp.AgentName
		role     bcp.Role
		recorded bool
	}{
		"an agent":             {refused, bcp.KindSession, "planner", bcp.RoleController, false},
		"nobody":               {refused, bcp.KindSession, "nobody", bcp.RoleController, true},
		"a person of its name": {refused, bcp.KindSession, "planner", bcp.RoleApprover, true},
		"the operator":         {refused, bcp.KindSession, bcp.Operator, bcp.RoleOperator, true},
		"a full share":         {full, bcp.KindAsk, "planner", bcp.RoleController, false},
		"its keeper":           {full, bcp.KindEgress, "planner", bcp.RoleKeeper, false},
		"an acknowledgement":   {full, bcp.KindAcknowledge, "planner", bcp.RoleController, true},
	} {
		recorded, code := c.s.Admit(&bcp.Decision{Kind: c.kind, Verdict: bcp.Accept, Agent: c.agent, Role: c.role})
		failIf(t, recorded != c.recorded || recorded != (code == ""), "%s: recorded %v, %q", name, recorded, code)
	}
}

// A record is of the share of who caused it: a run's of its requester's, a batch of its Reader's.
// It is as large as what is sealed and what the run changed.
//
// covers P4.7
func TestWhoseShareARecordIs(t *testing.T) {
	t.Parallel()
	step := &bcp.RunChange{Run: "r", Change: make([]byte, 100)}
	runs := kernel.NewState()
	noError(t, runs.Apply(&kernel.Change{Kind: bcp.KindRun, Time: 1, Run: "r", Start: &kernel.Start{Kernel: "desk", Requester: kernel.Requester{Name: "planner"}}}))
	for name, c := range map[string]struct {
		runs  *kernel.State
		d     bcp.Decision
		whose bcp.AgentName
		bytes int64
	}{
		"an agent's":         {nil, bcp.Decision{Agent: "mail", Controller: "planner", Reader: "mail", Sealed: make([]byte, 7), SealedRaw: make([]byte, 5)}, "mail", recordBytes + 12},
		"time's":             {nil, bcp.Decision{Controller: "planner", Reader: "mail"}, "planner", recordBytes},
		"a batch":            {nil, bcp.Decision{Kind: bcp.KindBatch, Controller: "planner", Reader: "mail"}, "mail", recordBytes},
		"a run's":            {runs, bcp.Decision{Agent: "mail", Run: step}, "planner", recordBytes + 100},
		"of a forgotten run": {kernel.NewState(), bcp.Decision{Agent: "mail", Run: step}, "mail", recordBytes + 100},
		"of no run":          {runs, bcp.Decision{Agent: "mail"}, "mail", recordBytes},
	} {
		s := newWorld(t, testMesh()).state
		s.runs, s.share = c.runs, journalShare{of: map[bcp.AgentName]int64{}}
		if s.countShare(&c.d); s.share.of[c.whose] != c.bytes || s.share.all != c.bytes {
			t.Errorf("%s: %v, want %d of %s", name, s.share, c.bytes, c.whose)
		}
	}
}

// What a Controller was told before it began anew, at that very time too, counts again.
//
// covers P4.7
func TestHasForgotten(t *testing.T) {
	t.Parallel()
	s := newWorld(t, testMesh()).state
	failIf(t, s.HasForgotten("planner", 0) || s.HasForgotten("nobody", 0), "who never began anew has forgotten")
	s.agents["planner"].forgot = 5
	for since, want := range map[int64]bool{4: true, 5: true, 6: false} {
		expect(t, s.HasForgotten("planner", since), want, "since %d: %v", since, !want)
	}
}

// An end that tells bits is charged them, and is no refusal; one that tells nothing is.
//
// covers P4.7
func TestEndsThatTell(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		told    bcp.Bits
		code    kernel.Code
		end     *kernel.End
		verdict bcp.Outcome
	}{{0, "", nil, bcp.Accept}, {0, "x", nil, bcp.Reject}, {bcp.Bit, "x", &kernel.End{Status: kernel.Committed}, bcp.Accept}} {
		var d bcp.Decision
		kernel.NewState().Record(&d, &kernel.Change{Kind: bcp.KindRun, Run: "r", Code: c.code, End: c.end}, "")
		failIf(t, d.Verdict != c.verdict || d.Capacity != c.told || (d.Taint == bcp.TaintHigh.StepDown()) != (c.told > 0),
			"%v %q: %s of %v, %v", c.told, c.code, d.Verdict, d.Capacity, d.Taint)
	}
}
