package gateway

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// maxDeciding is how long a batch is decided about. What is left of it waits again, and others have their turns first: an
// agent whose messages take long does not keep them waiting.
const maxDeciding = 20 * time.Millisecond

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
		o, recorded := g.decideSafely(in)
		outcomes = append(outcomes, o)
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
func (g *Gateway) decideSafely(in *input) (o outcome, recorded bool) {
	g.working = work{in: in}
	refused := outcome{in: in, message: in.message, event: in.event, decision: bcp.Decision{Code: bcp.Internal}}
	if in.message != nil && in.message.kind != notHeard && g.quarantined.holds(in.message) {
		return refused, false
	}
	defer func() {
		if value := recover(); value != nil {
			g.setAside(newPanicError(value))
			o, recorded = refused, false
		}
	}()
	o = outcome{in: in, message: in.message, event: in.event}
	if in.event != nil {
		o.decision, recorded = in.event.decide(g, &o)
		return o, recorded
	}
	o.body = in.message.body
	if o.decision, recorded = g.decide(&o); recorded {
		recorded = g.admit(&o)
	}
	return o, recorded
}

// admit has a decision recorded, or refuses or only counts the message ([state.State.Admit]).
func (g *Gateway) admit(o *outcome) (recorded bool) {
	recorded, code := g.state.Admit(&o.decision)
	if recorded {
		return true
	}
	if o.change = nil; code == "" {
		o.gathered = true
		return false
	}
	if o.reply, o.verdict = nil, nil; code == bcp.Unavailable {
		g.tellShare(g.sender(o.message))
	}
	o.decision = bcp.Decision{Code: code}
	return false
}

// decide judges one message; it sends nothing. It returns false if there is nothing to
// record.
func (g *Gateway) decide(o *outcome) (bcp.Decision, bool) {
	m := o.message
	if m.reply != "" && g.replyTo(m) == "" && m.kind != notHeard { // counted, and neither answered nor recorded
		o.gathered = true
		return bcp.Decision{Code: bcp.NotPermitted}, false
	}
	if g.closes(m) {
		return bcp.Decision{Code: bcp.Unavailable}, false
	}
	return m.kind.decide(g, g.moment(), o)
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
	return outcome{decision: decision}, true
}

// apply seals the content of a decision, with its message, and applies it to
// the state: it is about to be recorded.
func (g *Gateway) apply(ctx context.Context, o *outcome) (err error) {
	if err := g.keys.Seal(ctx, &o.decision, o.body); err != nil {
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

// recordNow applies and records a decision outside a batch. After an error the state is read
// from the journal again.
func (g *Gateway) recordNow(d bcp.Decision) error {
	if g.failed != nil {
		return g.failed
	}
	o := outcome{decision: d}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	g.failed = g.interrupter.Do(ctx, func(ctx context.Context) error {
		if err := g.apply(ctx, &o); err != nil {
			return err
		}
		return g.record(ctx, []outcome{o})
	})
	return g.failed
}

// release sends agents the results of a decision that is recorded or needs no
// record.
func (g *Gateway) release(o *outcome) {
	d := &o.decision
	if o.record == nil {
		g.releaseUnrecorded(o)
		return
	}
	if o.event != nil {
		o.event.recorded(g, d)
	}
	releasers[d.Kind].release(g, o)
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
	if o.message == nil {
		if o.event != nil && !o.in.dropped {
			o.event.unrecorded(g)
		}
		return
	}
	from, d := g.sender(o.message), &o.decision
	if d.Code == bcp.RateLimited {
		c := counted{kind: bcp.KindRefusals, agent: from}
		if d.Check == bcp.CheckRate {
			c.subject = o.message.subject.String()
		}
		g.count(c, 1)
	}
	if o.gathered {
		g.count(counted{kind: bcp.KindRefusals, agent: from}, 1)
	}
	switch kind := o.message.kind; {
	case o.gathered && d.Kind == 0: // it came from elsewhere
	case o.gathered || d.Code != "":
		kind.refuse(g, o)
	default:
		kind.answer(g, o)
	}
}

// releaseSafely is release for an outcome that may cause a panic.
func (g *Gateway) releaseSafely(o *outcome) {
	switch mistake := caught(func() { g.release(o) }); {
	case mistake == nil:
	case o.message != nil:
		g.quarantine(o.in, mistake)
	default:
		g.logMistake("a release", mistake)
		g.tellOwnMistake()
	}
}
