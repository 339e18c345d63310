package gateway

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Limits of one step: a batch fits one record.
const (
	maxBatch      = jetstream.MaxRecordDecisions / 4
	maxBatchBytes = jetstream.MaxRecordBytes / 4
	// maxDeciding is how long a batch is decided about. What is left of it waits again, and
	// others have their turns first: an agent whose messages take long does not keep them
	// waiting.
	maxDeciding = 20 * time.Millisecond
)

// outcome is a decided message: the decision and its receivers. Some outcomes
// need no record: an unknown acknowledgement, a list for an approver, a message
// beyond the limit.
type outcome struct {
	in       *input
	decision bcp.Decision
	record   []byte // the decision as the journal keeps it, if it does: a part of Gateway.records
}

// unasked is a decision without a message or event.
func unasked(d bcp.Decision) outcome { return outcome{in: new(input), decision: d} }

// step processes one batch of messages. A question passes here four times: as
// the Controller's ask, as the Reader's answer, as the Controller's
// acknowledgement of the delivery, and, when a deadline or a budget ends, by
// itself.
func (g *Gateway) step(ctx context.Context, batch []*input) error {
	// 1. Decide. Each decision is made on the state after the previous one. A
	// crash here leaves nothing behind.
	outcomes := g.outcomes[:0]
	g.records = g.records[:0]
	defer func() {
		clear(outcomes)
		g.outcomes = outcomes
	}()
	began := g.clock()
	for g.judged = 0; g.judged < len(batch) && (g.judged == 0 || g.clock().Sub(began) < maxDeciding); g.judged++ {
		in := batch[g.judged]
		g.readMark(ctx, in)
		decision, recorded := g.decideSafely(in)
		outcomes = append(outcomes, outcome{in: in, decision: decision})
		if !recorded {
			continue
		}
		var err error
		if outcomes, err = g.applyLast(ctx, outcomes); err != nil {
			return err
		}
	}
	for _, decide := range []func() (outcome, bool){g.nextCounted, g.nextDue, g.nextRun} {
		for len(outcomes) < 2*maxBatch {
			decided, ok := decide()
			if !ok {
				break
			}
			var err error
			if outcomes, err = g.applyLast(ctx, append(outcomes, decided)); err != nil {
				return err
			}
		}
	}
	// 2. Record. Without a record nothing is released: after an error nobody
	// has been told anything, and the state is read from the journal again. A
	// crash here leaves decisions that the next start finds and releases.
	g.working = work{}
	if err := safely(func() error { return g.record(ctx, outcomes) }); err != nil {
		g.uncertain = slices.Clone(outcomes)
		return err
	}
	if g.damage.Load() != nil {
		return errDamaged
	}
	g.countsRecorded(g.state.Last())
	g.released = g.state.Last()
	// 3. Release. A crash here is a message that was lost on the way: queries
	// and deliveries are sent again, and an agent that missed its receipt
	// repeats its request id.
	for i := range outcomes {
		g.releaseSafely(&outcomes[i])
	}
	runtime.Gosched() // first send what was released
	g.runTimers()
	return nil
}

// errDamaged says that nothing more is released.
var errDamaged = errors.New("the journal is damaged")

// stepSafely is step, but returns a panic as an error: its cause is set aside.
func (g *Gateway) stepSafely(ctx context.Context, batch []*input) error {
	err := safely(func() error { return g.step(ctx, batch) })
	if mistake := mistakeIn(err); mistake != nil {
		g.setAside(mistake)
	}
	return err
}

// decideSafely refuses a message that causes a panic, or did so before: deciding
// changes nothing, so the rest of the batch goes on.
func (g *Gateway) decideSafely(in *input) (d bcp.Decision, recorded bool) {
	g.working = work{in: in}
	if in.event == nil && !in.unheard && g.config.Quarantine.holds(in) {
		return bcp.Decision{Code: bcp.Internal}, false
	}
	defer func() {
		if value := recover(); value != nil {
			g.setAside(newPanicError(value))
			d, recorded = bcp.Decision{Code: bcp.Internal}, false
		}
	}()
	d, recorded = g.decide(in)
	if !recorded || in.event != nil {
		return d, recorded
	}
	return g.admit(in, d)
}

// admit has a decision recorded, or refuses or only counts the message ([state.State.Admit]).
func (g *Gateway) admit(in *input, d bcp.Decision) (bcp.Decision, bool) {
	recorded, code := g.state.Admit(&d)
	if recorded {
		return d, true
	}
	if in.change = nil; code == "" {
		in.gathered = true
		return d, false
	}
	if in.roles.message, in.roles.verdict = nil, nil; code == bcp.Unavailable {
		g.tellShare(in.sender())
	}
	return bcp.Decision{Code: code}, false
}

// decide judges one message or event; it sends nothing. It returns false if
// there is nothing to record.
func (g *Gateway) decide(in *input) (bcp.Decision, bool) {
	if in.event != nil {
		return g.decideEvent(in)
	}
	if in.unheard {
		return bcp.Decision{}, false
	}
	in.change, in.releases, in.repeats, in.gathered = nil, nil, "", false
	if in.subject.Kind == subjects.KindRole {
		in.roles = rolesAnswer{over: g.rolesOver(in.subject.Agent)}
	}
	if in.reply != "" && in.inbox() == "" { // counted, and neither answered nor recorded
		in.gathered = true
		return bcp.Decision{Code: bcp.NotPermitted}, false
	}
	s, m := in.subject, g.moment()
	if g.closes(in) {
		return bcp.Decision{Code: bcp.Unavailable}, false
	}
	if s.Kind == subjects.KindRole {
		return g.decideRole(m, in)
	}
	if kind, ok := toKernel(&s); ok {
		return g.decideRun(kind, in)
	}
	var d bcp.Decision
	switch s.Kind {
	case subjects.KindAsk:
		g.state.Adopt(in.prepared)
		d = g.state.DecideAsk(m, s.Controller, s.Reader, in.body)
	case subjects.KindPush:
		d = g.state.DecidePush(m, s.Reader, s.Controller, s.Subscription, in.body)
	case subjects.KindSession:
		if g.state.ListsChannels(m, s.Controller, in.body) {
			return bcp.Decision{}, false
		}
		d = g.state.DecideSession(m, s.Controller, in.body)
	case subjects.KindEgress:
		return g.state.DecideEgress(m, s.Agent, in.body)
	case subjects.KindUsage:
		return g.state.DecideUsage(m, s.Agent, in.body)
	case subjects.KindApproval:
		return g.decideApproval(m, in)
	case subjects.KindControl:
		if s.Event == bcp.ControlErase {
			return g.decideErase(m, in)
		}
		if s.Event == bcp.ControlStopRun {
			return g.decideStop(in), true
		}
		if s.Event == bcp.ControlRevocations {
			return g.decideRevocations(m, in)
		}
		if bcp.ControlAside(s.Event) {
			return bcp.Decision{}, false
		}
		return g.state.DecideControl(m, s.Event, in.body), true
	case subjects.KindReply:
		if s.Role != bcp.RoleReader || isNotice(s) {
			return g.state.DecideAcknowledge(m, s.Agent, s.Role, bcp.DeliveryID(s.ID))
		}
		if isHandshake(s) || isReceipt(s) {
			return bcp.Decision{}, false
		}
		id := bcp.QueryID(s.ID)
		d = g.state.DecideAnswer(m, s.Agent, id, g.sendingAttempt(id, s.Attempt), in.body)
	default:
		return bcp.Decision{}, false
	}
	return d, d.Code != bcp.RateLimited
}

// nextDue makes the decisions that only depend on time, except those that recently
// caused a panic.
func (g *Gateway) nextDue() (o outcome, ok bool) {
	g.working = work{}
	defer func() {
		if value := recover(); value != nil {
			g.setAside(newPanicError(value))
			o, ok, g.overdue = outcome{}, false, true
		}
	}()
	var decision bcp.Decision
	if g.closing() < ClosedToAll {
		decision, ok = g.state.DecideDueBut(g.moment(), g.passOver)
	}
	if !ok {
		at, due := g.state.NextDue()
		g.overdue = due && !at.After(g.clock())
		return outcome{}, false
	}
	return unasked(decision), true
}

// apply seals the content of a decision, with its message, and applies it to
// the state: it is about to be recorded.
func (g *Gateway) apply(ctx context.Context, o *outcome) (err error) {
	if err := g.keys.Seal(ctx, &o.decision, o.in.body); err != nil {
		return err
	}
	begin := len(g.records)
	if g.records, err = bcp.AppendDecision(g.records, &o.decision); err != nil {
		return err
	}
	o.record = slices.Clip(g.records[begin:])
	if err := g.state.Apply(&o.decision, bcp.RecordDigest(o.record)); err != nil {
		return err
	}
	g.appliedRun(o)
	return nil
}

// applyLast applies the last outcome, and what is decided with it.
func (g *Gateway) applyLast(ctx context.Context, outcomes []outcome) ([]outcome, error) {
	last := &outcomes[len(outcomes)-1]
	if err := g.apply(ctx, last); err != nil {
		return outcomes, err
	}
	result, ok := g.result(last)
	if !ok {
		return outcomes, nil
	}
	outcomes = append(outcomes, result)
	return outcomes, g.apply(ctx, &outcomes[len(outcomes)-1])
}

// record writes the decisions as one record of the journal, and waits until it is
// stored.
func (g *Gateway) record(ctx context.Context, outcomes []outcome) error {
	records := make([][]byte, 0, len(outcomes))
	for i := range outcomes {
		if record := outcomes[i].record; record != nil {
			records = append(records, record)
		}
	}
	if len(records) == 0 {
		return nil
	}
	if err := g.keys.Sync(); err != nil {
		return err
	}
	if err := g.journal.Append(ctx, records); err != nil {
		return err
	}
	for i := range outcomes {
		if outcomes[i].record != nil {
			g.observe(&outcomes[i].decision)
		}
	}
	return nil
}

// recordNow applies and records a decision outside a batch, and returns it as it is
// in the journal. After an error the state is read from the journal again.
func (g *Gateway) recordNow(d bcp.Decision) (bcp.Decision, error) {
	if g.failed != nil {
		return d, g.failed
	}
	o := unasked(d)
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	g.failed = g.interrupter.Do(ctx, func(ctx context.Context) error {
		if err := g.apply(ctx, &o); err != nil {
			return err
		}
		return g.record(ctx, []outcome{o})
	})
	return o.decision, g.failed
}

// release sends agents the results of a decision that is recorded or needs no
// record.
func (g *Gateway) release(o *outcome) {
	d := &o.decision
	if o.record == nil {
		g.releaseUnrecorded(o)
		return
	}
	switch d.Kind {
	case bcp.KindRun, bcp.KindPlan, bcp.KindStep, bcp.KindCall, bcp.KindOutcome:
		g.releaseRun(o)
	case bcp.KindAsk:
		if o.in.wait != "" {
			g.askedReader(o)
		}
		g.answer(o.in, g.receipt(d))
		// A Reader that became ready in the same batch already has it.
		if d.Verdict == bcp.Accept && !d.Repeat && len(g.dispatched[d.Query]) == 0 {
			g.sendQuery(d.Query)
		}
	case bcp.KindAnswer:
		g.sendResult(d)
		if d.Attempt > g.sendingAttempt(d.Query, o.in.subject.Attempt) {
			g.sendQuery(d.Query)
		}
		g.freed(agentRole{d.Reader, bcp.RoleReader})
	case bcp.KindPush:
		g.answer(o.in, d.Result())
	case bcp.KindApproval, bcp.KindEndorse:
		g.answer(o.in, g.decided(d, o.in))
		if len(g.dispatched[d.Query]) == 0 {
			g.sendQuery(d.Query)
		}
	case bcp.KindEgress:
		g.answer(o.in, egressReceipt(d))
	case bcp.KindDeclare:
		g.releaseDeclare(o)
	case bcp.KindUsage:
		g.answer(o.in, usageReceipt(d))
		g.logModel(d, o.in)
	case bcp.KindPropose, bcp.KindHand:
		if d.Verdict == bcp.Hold {
			g.answer(o.in, bcp.Proposed{Item: d.Item})
		} else {
			g.answer(o.in, bcp.RefusalOf(d.Code))
		}
	case bcp.KindSession, bcp.KindTaint: // without a request there is no reply
		if d.Verdict == bcp.Accept {
			g.answer(o.in, sessionReceipt{Session: d.Session})
		} else {
			g.answer(o.in, bcp.RefusalOf(d.Code))
		}
	case bcp.KindAcknowledge:
		delete(g.sending, d.Delivery)
		delete(g.notices, d.Notice)
		g.listens(agentRole{d.Agent, d.Role})
	case bcp.KindConnect, bcp.KindDisconnect:
		if o.in.event != nil {
			g.noteConnection(d)
		}
	case bcp.KindRefusals, bcp.KindViolation:
		g.kickFlooder(d)
	case bcp.KindCredential:
		o.in.event.change.Recorded()
	case bcp.KindAlert:
		if e := o.in.event; e != nil && e.recorded != nil {
			e.recorded()
		}
		if o.in.subject.Kind == subjects.KindControl {
			g.answer(o.in, sessionReceipt{})
		}
	case bcp.KindErase:
		g.erase(o.in, *d)
	}
	if d.Kind == bcp.KindAnswer || d.Kind == bcp.KindExpire {
		if _, _, _, open := g.state.Open(d.Query); !open {
			delete(g.dispatched, d.Query)
		}
	}
	if key, ok := d.Channel(); ok && d.Delivery != "" {
		g.sendDeliveries(key)
	}
	if d.Notice != "" && d.Kind != bcp.KindAcknowledge {
		g.sendNotices(d)
	}
	g.alert(d)
}

// releaseUnrecorded answers requests that change nothing. It comes after the
// record of the batch, since it may report changes of others.
func (g *Gateway) releaseUnrecorded(o *outcome) {
	in, code := o.in, o.decision.Code
	if code == bcp.RateLimited {
		c := counted{kind: bcp.KindRefusals, agent: in.sender()}
		if o.decision.Check == bcp.CheckRate {
			c.subject = in.subject.String()
		}
		g.count(c, 1)
	}
	if in.gathered {
		g.count(counted{kind: bcp.KindRefusals, agent: in.sender()}, 1)
		g.releaseGathered(in, &o.decision)
		return
	}
	switch {
	case in.event != nil && in.dropped:
	case in.event != nil && in.event.call != nil:
		in.event.call()
	case in.event != nil:
		g.countEvent(in.event)
	case in.unheard && in.isOnceOnly():
		g.unheardPlan(in.subject.ID)
	case in.unheard:
		g.noteUnheard(in.subject)
	case in.repeats != "" && code == "":
		g.answer(in, g.receiptOr(in.repeats, in.ended))
	case in.subject.Kind == subjects.KindRole:
		g.answerRole(in, &o.decision)
	case code != "" && in.subject.Kind == subjects.KindReply:
		g.refuseAnswer(in.subject, code)
	case code != "":
		g.answer(in, g.refusal(in, code))
	case in.subject.Kind == subjects.KindApproval:
		g.answerApproval(in)
	case in.subject.Kind == subjects.KindEgress: // reserved before
		g.answer(in, egressReceipt(&o.decision))
	case in.subject.Kind == subjects.KindUsage:
		g.answer(in, usageReceipt(&o.decision))
	case in.subject.Kind == subjects.KindControl:
		g.answerControl(in)
	case in.subject.Kind == subjects.KindSession:
		g.answer(in, g.state.Channels(in.subject.Controller, g.clock()))
	case isHandshake(in.subject):
		g.acknowledgedSubscriptions(in.subject)
	}
}

// releaseGathered answers a message whose refusal or repeat is only counted, as if it were
// recorded.
func (g *Gateway) releaseGathered(in *input, d *bcp.Decision) {
	switch d.Kind {
	case bcp.KindAsk:
		g.answer(in, g.receipt(d))
	case bcp.KindAnswer:
		g.sendResult(d)
	case bcp.KindPush:
		g.answer(in, d.Result())
	default:
		g.answer(in, bcp.RefusalOf(d.Code))
	}
}

// egressReceipt answers a keeper.
func egressReceipt(d *bcp.Decision) bcp.EgressReceipt {
	return bcp.EgressReceipt{Type: bcp.TypeEgress, Allowed: d.Verdict == bcp.Accept, Code: d.Egress.Why}
}

// usageReceipt answers a keeper.
func usageReceipt(d *bcp.Decision) bcp.UsageReceipt {
	return bcp.UsageReceipt{Type: bcp.TypeUsage, Allowed: d.Verdict == bcp.Accept, Code: d.Code}
}

// logModel says when the model of an agent begins to fail, and when it works again. What
// its provider says is kept for the operator as long as it fails.
func (g *Gateway) logModel(d *bcp.Decision, in *input) {
	if d.Usage.Act != bcp.UsageReport || d.Verdict != bcp.Accept {
		return
	}
	said := ""
	if r, code := bcp.ParseUsage(in.body); code == "" {
		said = inert.Line(r.Said)
	}
	g.modelSaid[d.Agent] = said
	switch alert, _ := d.Alert(); alert.Alert {
	case bcp.AlertModelFails:
		g.log.Warn("an agent's model did not answer", "agent", d.Agent, "why", alert.Model.String(), "provider_says", hclog.Quote(cmp.Or(said, "nothing")))
	case bcp.AlertModelWorks:
		delete(g.modelSaid, d.Agent)
		g.log.Warn("the model of an agent works again", "agent", d.Agent, "failed_for", d.At().Sub(time.Unix(0, d.Usage.Since)).Round(time.Second))
	}
}

// ModelSaid is what the provider of an agent's model says while that fails, harmless to
// show, and for the operator alone. Call it within [Gateway.Inspect].
func (g *Gateway) ModelSaid(agent bcp.AgentName) string { return g.modelSaid[agent] }

// receipt answers an ask.
func (g *Gateway) receipt(d *bcp.Decision) any {
	if d.Verdict != bcp.Accept && d.Verdict != bcp.Hold {
		return bcp.RefusalOf(d.Code)
	}
	return bcp.Accepted{QueryID: d.Query, NominalBits: d.Nominal, CapacityBits: d.Capacity,
		RemainingBits: d.Remaining}
}

type sessionReceipt struct {
	Session bcp.SessionID `json:"session_id"`
}

// refusal returns the reply to the sender of an undecided message.
func (g *Gateway) refusal(in *input, code bcp.Code) any {
	if in.subject.Kind != subjects.KindPush {
		return bcp.RefusalOf(code)
	}
	s := in.subject
	result := bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: s.Subscription,
		Status: bcp.StatusRefused, Code: code, Detail: code.Info().Text}
	if code == bcp.RateLimited {
		wait := g.state.RetryAfter(g.clock(), s.Reader, s.Controller, s.Subscription)
		result.RetryAfter = int64((wait + time.Second - 1) / time.Second)
	}
	return result
}

// answer replies to a request in its sender's encoding, in the sender's own inbox.
func (g *Gateway) answer(in *input, message any) {
	to := in.inbox()
	if to == "" {
		return
	}
	if !g.publish(in.sender(), to, "", message) {
		g.publish(in.sender(), to, "", bcp.RefusalOf(bcp.Internal))
	}
}

// inbox returns the gateway's subject for the answer to a message, or nothing if it does
// not name an inbox of its sender. The subject of an auditor's request does not say
// whose it is: its answer may go to any person.
func (in *input) inbox() string {
	who := in.sender()
	if in.subject.Kind == subjects.KindControl && slices.Contains(bcp.AuditorActs(), in.subject.Event) {
		who.Agent = subjects.InboxOwner(in.reply)
	}
	return subjects.Answer(who.Role, who.Agent, in.reply)
}

// sender returns the agent that may publish on the message's subject.
func (in *input) sender() agentRole {
	s := &in.subject
	switch s.Kind {
	case subjects.KindAsk, subjects.KindSession:
		return agentRole{s.Controller, bcp.RoleController}
	case subjects.KindRun:
		return agentRole{s.Agent, bcp.RoleController}
	case subjects.KindRole:
		return agentRole{s.Agent, in.roles.over}
	case subjects.KindPush:
		return agentRole{s.Reader, bcp.RoleReader}
	case subjects.KindApproval:
		return agentRole{s.Agent, bcp.RoleApprover}
	case subjects.KindEgress, subjects.KindUsage:
		return agentRole{s.Agent, bcp.RoleKeeper}
	case subjects.KindControl:
		return agentRole{bcp.Operator, bcp.RoleOperator}
	default:
		return agentRole{s.Agent, s.Role}
	}
}
