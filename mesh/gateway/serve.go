package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

const (
	// maxEvents bounds the server's events that are kept while the journal
	// cannot be written; reporters of more must wait.
	maxEvents = 4096
	// recoveryWait is the pause between attempts to open the journal again, and
	// clusterWait that on a cluster: there most attempts wait for a leader.
	recoveryWait = time.Second
	clusterWait  = 100 * time.Millisecond
	// startPatience is how long a start tries to take the journal.
	startPatience = 30 * time.Second
	// clusterTimeout is the timeout for a cluster server's reply about the
	// streams: a leader that is gone never answers.
	clusterTimeout = 2 * time.Second
)

// Start replays the journal and begins to serve. The streams must exist. If the
// first record is not acknowledged, it retries for half a minute. Cancelling ctx
// begins what Stop does.
func Start(ctx context.Context, config Config) (*Gateway, error) {
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Interrupter == nil {
		config.Interrupter = new(jetstream.Interrupter)
	}
	var options []natsjs.JetStreamOpt
	if config.Cluster {
		options = append(options, natsjs.WithDefaultTimeout(clusterTimeout))
	}
	js, err := natsjs.New(config.Conn, options...)
	if err != nil {
		return nil, fmt.Errorf("starting the gateway: %w", err)
	}
	g := &Gateway{
		config: config, log: config.Logger, js: js, keys: jetstream.NewSealingKeys(js), interrupter: config.Interrupter,
		inbox: newInbox(), links: make(map[agentRole]link), done: make(chan struct{}),
		agents: make(map[agentRole]*connection), leaving: make(map[bcp.AgentName]func([]string)), modelSaid: make(map[bcp.AgentName]string), sending: make(map[bcp.DeliveryID]*sending), notices: make(map[bcp.DeliveryID]*sending),
		dispatched: make(map[bcp.QueryID][]int), counts: make(map[counted]count), counting: make(map[agentRole]countingRecord), countedAt: make(map[agentRole]time.Time),
		runs:  runs{sent: make(map[string]int), unmade: make(map[string]int), unheard: make(map[string]int), dispatchers: make(map[bcp.AgentName]*dispatcher)},
		flaps: make(map[agentRole]connectionEvents), crowding: make(map[bcp.AgentName]time.Time), dueAside: make(map[state.Due]aside), tellings: make(map[agentRole]*telling),
	}
	g.keys.SyncWith(config.SyncKeys)
	g.events = g.inbox.lane()
	config.Conn.SetDisconnectErrHandler(func(_ *nats.Conn, err error) {
		if err != nil { // it is not closed
			g.log.Warn("the journal's connection is lost", "error", err)
		}
		g.Unwritten("the connection is lost")
	})
	g.began.at = g.clock()
	runCtx, cancel := context.WithCancelCause(ctx)
	g.cancel, g.ending = cancel, runCtx.Done()
	if err := g.openFirst(runCtx); err != nil {
		cancel(err)
		return nil, err
	}
	if err := cmp.Or(g.subscribe(), g.connectKernels(g.state)); err != nil {
		cancel(err)
		g.inbox.close()
		g.unlink()
		return nil, err
	}
	g.began.decision, g.released = g.state.Last(), g.state.Last()
	if g.snappedUpTo.Load() > 0 && !g.checked {
		g.beside.Go(func() { g.checkJournal(runCtx) })
	}
	go g.run(runCtx)
	return g, nil
}

// Stop stops the gateway after the record that is being written, and returns
// why it had already ended, if it had. It is safe to call twice.
func (g *Gateway) Stop() error {
	g.Hasten()
	g.cancel(errStopped)
	<-g.done
	g.calls.Wait()
	return g.err
}

// End ends the gateway by itself and leaves nothing behind: what it writes would go astray. The reason is what Stop returns.
func (g *Gateway) End(reason error) { g.cancel(reason) }

// Hasten stops all waiting to report to the gateway: while there is no room, as in an
// outage, reports are dropped. Call it before the reporters are stopped, and then Stop.
func (g *Gateway) Hasten() { g.events.endWaiting() }

// Unwritten tells the gateway that the journal cannot be written, and why: the
// acknowledgement that it waits for will not come.
func (g *Gateway) Unwritten(reason string) {
	g.interrupter.Interrupt(reason)
}

// Done is closed when the gateway ended, by Stop or because another gateway
// writes to its journal.
func (g *Gateway) Done() <-chan struct{} { return g.done }

// openFirst is open for a start. It retries after a failed write, and while a server
// closes and reopens its streams; on a cluster, where another gateway may do better, the
// holder of the lease decides. A full journal is final. A replicated journal that seems
// to have lost its end may have been reported by a former leader that does not know its
// successor yet.
func (g *Gateway) openFirst(ctx context.Context) error {
	var first error
	for end := time.Now().Add(startPatience); ; {
		err := g.interrupter.Do(ctx, g.openSafely)
		unwritten := errors.Is(err, jetstream.ErrUncertain) || errors.Is(err, jetstream.ErrUnanswered) ||
			g.replicated() && errors.Is(err, jetstream.ErrLost) ||
			!g.config.Cluster && (jetstream.Unanswered(err) || errors.Is(err, natsjs.ErrStreamNotFound))
		switch {
		case err == nil, errors.Is(err, jetstream.ErrFull), !unwritten && first == nil, !unwritten && !errors.Is(err, context.DeadlineExceeded):
			return err
		case first == nil:
			first = err
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return first
		}
		g.log.Warn("the journal cannot be taken; trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(g.recoveryPause()):
		}
	}
}

// recoveryPause is between two attempts to open the journal.
func (g *Gateway) recoveryPause() time.Duration {
	if g.config.Cluster {
		return clusterWait
	}
	return recoveryWait
}

// openSafely is open, but returns a panic as an error: nothing can be served then, and
// the error says what this version cannot read.
func (g *Gateway) openSafely(ctx context.Context) error {
	err := safely(func() error { return g.open(ctx) })
	if mistake := mistakeIn(err); mistake != nil {
		g.logMistake("reading the journal", mistake)
	}
	return err
}

// open makes the state from the journal and records that this gateway starts.
func (g *Gateway) open(ctx context.Context) error {
	journal, err := jetstream.OpenJournal(ctx, g.js)
	if err != nil {
		return err
	}
	each := g.unacknowledged()
	r, err := g.replay(ctx, journal, g.config.State, each)
	if err != nil {
		return err
	}
	state := r.state
	// Copies do not lose their end while the gateway runs, and to wait for the leaders
	// of all streams would take long.
	if g.state == nil || !g.replicated() {
		if err := jetstream.CheckEnd(ctx, g.js, state.Last()); err != nil {
			return err
		}
	}
	if g.state == nil && state.Last() > r.read {
		if g.checked, err = g.checkBefore(ctx); err != nil {
			return err
		}
	}
	g.state, g.journal = state, journal
	g.snappedUpTo.Store(state.Last() - r.read)
	g.log.Info("journal replayed", "decisions", state.Last(), "read", r.read)
	if !g.config.Continues {
		err = g.takeJournal(ctx, each)
	}
	g.sound = err == nil
	return err
}

// takeJournal records that this gateway writes from here on. If another gateway wrote first, its
// records are read, with each called, and it tries again. The record fences the other
// gateway off, which steps down.
func (g *Gateway) takeJournal(ctx context.Context, each func(*bcp.Decision)) error {
	for tries := 1; ; tries++ {
		start := g.state.DecideStart(g.moment(), g.config.State.Version)
		record, err := bcp.EncodeDecision(&start)
		if err != nil {
			return err
		}
		switch err := g.journal.Append(ctx, [][]byte{record}); {
		case err == nil:
			if err := g.state.Apply(&start, bcp.RecordDigest(record)); err != nil {
				return err
			}
			g.observe(&start)
			return nil
		case !errors.Is(err, jetstream.ErrFenced) || tries == maxTakes:
			return err
		}
		behind := jetstream.Position{Sequence: g.journal.Last(), Head: g.state.Head()}
		if err := g.journal.ReplayBehind(ctx, behind, applyTo(ctx, g.keys, g.state, each)); err != nil {
			return err
		}
		if g.journal.Last() == behind.Sequence { // the answering server does not have the end yet
			select {
			case <-ctx.Done():
			case <-time.After(clusterWait):
			}
		}
	}
}

// observe passes on a stored decision.
func (g *Gateway) observe(d *bcp.Decision) {
	g.observed = d.Seq
	if g.config.OnDecision != nil {
		if mistake := caught(func() { g.config.OnDecision(d) }); mistake != nil {
			g.logMistake("telling of a decision", mistake) // an alert would cause it again
		}
	}
}

// unacknowledged returns a function that observes decisions of this gateway whose
// record was not acknowledged, when the journal is read again. At the record of a
// start another gateway took the journal: later records are its own.
func (g *Gateway) unacknowledged() func(*bcp.Decision) {
	own := g.observed > 0
	return func(d *bcp.Decision) {
		if !own || d.Seq <= g.observed {
			return
		}
		if own = d.Kind != bcp.KindStart; own {
			g.stored = d.Seq
			g.observe(d)
		}
	}
}

// maxTakes is how often a gateway tries to write before the one that it
// replaces.
const maxTakes = 100

// run is the gateway's one goroutine.
func (g *Gateway) run(ctx context.Context) {
	defer close(g.done)
	defer func() {
		g.cancel(errEnded) // also if it ended by itself
		g.beside.Wait()
		if g.damage.Load() != nil {
			// The next start reads the whole journal, and so refuses it.
			if err := g.config.Snapshots.RemoveBefore(math.MaxUint64); err != nil {
				g.log.Error("removing the snapshots of a damaged journal", "error", err)
			}
		} else {
			g.lastSnapshot()
		}
	}()
	defer g.unlink()
	defer g.closeDispatchers()
	defer g.inbox.close()
	g.resume()
	var batch []*input
	for {
		if len(batch) == 0 {
			batch, g.mistakes = append(batch, g.mistakes...), nil
		}
		if len(batch) == 0 {
			batch = g.wait(ctx, batch)
		}
		if ctx.Err() != nil {
			switch cause, damage := context.Cause(ctx), g.damage.Load(); {
			case damage != nil:
				g.err = g.endDamaged(*damage)
			case !errors.Is(cause, errStopped):
				g.err, g.sound = cause, false // no snapshot of a journal that is not there any more
			}
			return
		}
		err := g.interrupter.Do(context.WithoutCancel(ctx), func(ctx context.Context) error { return g.stepSafely(ctx, batch) })
		if err == nil { // everybody of the batch has been answered, or waits again
			g.mistakes = append(g.mistakes, g.inbox.putBack(batch[g.judged:])...)
			clear(batch)
			batch, err, g.failed = batch[:0], g.failed, nil
		}
		switch {
		case err == nil:
			g.snapshotDue(ctx)
		case g.damage.Load() != nil: // the context has ended
			clear(batch)
			batch = batch[:0]
		default:
			g.sound = false
			if errors.Is(err, jetstream.ErrFenced) {
				g.log.Error("stepping down", "error", err)
				g.err = err
				return
			}
			batch = g.recover(ctx, batch, err)
		}
	}
}

// wait returns the waiting messages, at least one, or none when a timer is due.
// room is an empty batch.
func (g *Gateway) wait(ctx context.Context, room []*input) []*input {
	timer := time.NewTimer(g.untilDue())
	defer timer.Stop()
	return g.inbox.next(ctx, room, timer.C)
}

// recover discards the state, since it is unknown whether the last record is stored,
// and makes it again from the journal. Waiting clients get unavailable and retry. It
// returns the events of the batch that are not stored and those that came meanwhile,
// since the server does not repeat them.
func (g *Gateway) recover(ctx context.Context, batch []*input, cause error) (events []*input) {
	if errors.Is(cause, ErrPanic) {
		g.log.Error("the state may be half changed; reading the journal again", "error", cause)
	} else {
		g.log.Error("a record was not acknowledged; reading the journal again", "error", cause)
	}
	refuse := func(in *input) {
		switch m := in.message; {
		case in.dropped && m != nil:
			g.answer(m, m.kind.refusal(g, m, bcp.Internal))
		case in.dropped:
		case m == nil || m.isOnceOnly():
			events = append(events, in)
		default:
			g.answer(m, m.kind.refusal(g, m, bcp.Unavailable))
		}
	}
	for _, in := range batch {
		refuse(in)
	}
	defer g.events.hold(false)
	for tries := 1; ctx.Err() == nil; tries++ {
		err := g.interrupter.Do(ctx, g.openSafely)
		if err == nil {
			g.released = g.state.Last()
			g.forgetSent()
			g.resume()
			return g.releaseStored(events)
		}
		if errors.Is(err, ErrPanic) {
			g.log.Error("this version cannot read the journal; the gateway ends", "error", err)
			g.cancel(err)
			return events
		}
		g.log.Error("opening the journal", "error", err)
		if tries == 1 && ctx.Err() == nil {
			g.alertUnrecorded(bcp.Alert{Type: bcp.TypeAlert, Alert: bcp.AlertJournal, Time: g.clock()})
		}
		wait, cancel := context.WithTimeout(ctx, g.recoveryPause())
		for wait.Err() == nil {
			g.events.hold(len(events) >= maxEvents)
			for _, in := range g.inbox.next(wait, nil, nil) {
				refuse(in)
			}
		}
		cancel()
	}
	return events
}

// releaseStored finishes a batch that is stored although it was not acknowledged:
// counts are marked as recorded, and decisions without a request are released.
// Clients were told to retry. It returns the undecided events.
func (g *Gateway) releaseStored(events []*input) []*input {
	g.countsRecorded(g.stored)
	released := make(map[*input]bool)
	for i := range g.uncertain {
		o := &g.uncertain[i]
		if o.record != nil && o.message == nil && o.decision.Seq <= g.stored {
			g.releaseSafely(o)
			released[o.in] = true
		}
	}
	g.uncertain = nil
	return slices.DeleteFunc(events, func(in *input) bool { return released[in] })
}

// resume greets everybody again after the state was read from the journal, and wakes
// absent agents: messages for them may be stored although they were not
// acknowledged.
func (g *Gateway) resume() {
	g.guard("the runs", g.resumeRuns)
	for who, c := range g.agents {
		g.guard("a connection", func() { g.sendWaiting(who, c) })
	}
	for _, agent := range g.config.State.Mesh.Agents {
		if len(g.state.OpenQueries(agent.Name)) > 0 {
			g.wake(agentRole{agent.Name, bcp.RoleReader})
		}
	}
	for _, c := range g.config.State.Mesh.Channels {
		if len(g.state.Outbox(c.ChannelKey)) > 0 {
			g.wake(agentRole{c.Controller, bcp.RoleController})
		}
	}
}

// untilDue is how long there is nothing to do without a message.
func (g *Gateway) untilDue() time.Duration {
	wait := time.Minute
	if len(g.timers) > 0 {
		wait = min(wait, g.timers[0].at.Sub(g.clock()))
	}
	if at, ok := g.state.NextDue(); ok {
		due := at.Sub(g.clock())
		if g.overdue { // it could not be decided
			due = max(due, overduePause)
		}
		wait = min(wait, due)
	}
	if at, ok := g.runsDue(); ok {
		wait = min(wait, at.Sub(g.clock()))
	}
	if at, ok := g.countingDue(); ok {
		wait = min(wait, at.Sub(g.clock()))
	}
	return max(0, wait)
}
