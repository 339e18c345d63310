package gateway

import (
	"cmp"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// Runs of kernels (ADR 0055). What package kernel decides about a message, an answer or
// time is one decision of the journal like any other, and its consequences are sent
// once that is stored. Nothing kept here survives the process: after a start it is
// derived from the state again.

// recordRun makes a decision from a kernel's change.
func (g *Gateway) recordRun(m bcp.Moment, o *outcome, c kernel.Change, from bcp.AgentName) bcp.Decision {
	o.change = &c
	return g.state.DecideRun(m, &c, from, o.body)
}

// nextRun decides consequences of earlier decisions about runs, and then what only
// depends on time.
func (g *Gateway) nextRun() (o outcome, ok bool) {
	state := g.runState()
	g.working = work{runs: true}
	trying := false
	defer func() {
		if value := recover(); value != nil {
			g.setAside(newPanicError(value))
			if o, ok = (outcome{}), false; trying { // again, after the others
				g.runs.todo = append(g.runs.todo[1:], g.runs.todo[0])
			}
		}
	}()
	if g.clock().Before(g.runs.stuck) {
		return outcome{}, false
	}
	for len(g.runs.todo) > 0 {
		trying = true
		o, ok := g.runs.todo[0].decide(g)
		if g.runs.todo = g.runs.todo[1:]; ok {
			return o, true
		}
	}
	if trying = false; g.closing() >= ClosedToAll {
		g.runs.stuck = g.clock().Add(overduePause)
		return outcome{}, false
	}
	m := g.runMoment()
	if o, ok := g.giveUp(m); ok {
		return o, true
	}
	if g.runs.suspects = g.runs.suspects && g.state.AnySuspended(); g.runs.suspects {
		if id, open := state.RunOf(g.state.Suspended); open {
			return g.unaskedRun(m, state.DecideStop(m, id, kernel.Suspended)), true
		}
		g.runs.suspects = false
	}
	c, due := state.DecideDue(m)
	if !due {
		return outcome{}, false
	}
	return g.unaskedRun(m, c), true
}

// unaskedRun is a decision about a run without a message.
func (g *Gateway) unaskedRun(m bcp.Moment, c kernel.Change) (o outcome) {
	o.decision = g.recordRun(m, &o, c, "")
	return o
}

// runsDue is when nextRun has something to decide.
func (g *Gateway) runsDue() (time.Time, bool) {
	due := g.clock()
	if len(g.runs.todo) == 0 && !g.runs.suspects {
		at := g.runState().NextDue()
		if at == 0 {
			return time.Time{}, false
		}
		due = time.Unix(0, at)
	}
	if due.Before(g.runs.stuck) {
		return g.runs.stuck, true
	}
	return due, true
}

// appliedRun notes the consequences of an applied decision about a run, or of an ask of
// a kernel: they are released once it is stored.
func (g *Gateway) appliedRun(o *outcome) {
	g.runs.suspects = g.runs.suspects || o.decision.Suspends
	if c := o.change; c != nil {
		o.releases = g.runState().Releases(c)
		if c.Code == "" && (c.Wait == nil || c.Wait.ID != c.Input) {
			delete(g.runs.sent, c.Input) // nobody waits for its outcome any more
		}
	}
	if o.wait != "" && o.decision.Query != "" {
		g.runs.waits[o.decision.Query] = o.wait
	}
}

// releaseWait sends what a run waits for, or how it ended.
func (g *Gateway) releaseWait(r *kernel.Release) {
	switch r.Kind {
	case kernel.ReleasePlan, kernel.ReleaseSubPlan:
		g.askPlanner(r.Wait.ID)
	case kernel.ReleaseParse:
		g.todo(contentRead{r.Agent})
		g.todo(readerAsk{r.Wait.ID})
	case kernel.ReleaseCall:
		g.call(r)
	case kernel.ReleaseItem:
		if r.Wait.Kind == kernel.WaitQuestion {
			g.tellRequester(r)
		}
	case kernel.ReleaseOutcome:
		g.tellRequester(r)
	}
}

// call makes a recorded call. If it cannot be sent, it is decided as not made.
func (g *Gateway) call(r *kernel.Release) {
	if g.closing() >= ClosedToAll { // until it opens, up to the call's timeout
		g.callLater(r, overduePause)
		return
	}
	id := r.Wait.ID
	if r.Tool != nil && g.state.Suspended(bcp.AgentName(r.Tool.Service)) {
		g.todo(unsentCall{id, kernel.Suspended})
		return
	}
	err := errNoHandle
	if d := g.runs.dispatchers[r.Kernel]; d != nil {
		g.runs.sent[id] = r.Wait.Attempt
		err = d.Call(r)
	}
	delete(g.runs.unmade, id)
	switch {
	case err == nil:
		return
	case errors.Is(err, errAway):
		g.runs.unmade[id] = r.Wait.Attempt
		waited := time.Duration(g.runMoment().Now.UnixNano() - r.Wait.Since)
		g.callLater(r, min(max(waited/4, awayPause), overduePause))
		return
	}
	g.log.Error("a call cannot be sent", "kernel", r.Kernel, "tool", r.Wait.Tool, "error", err)
	g.todo(unsentCall{id, kernel.ToolUnavailable})
}

// awayPause is the shortest pause before a tool without a listener is tried again.
const awayPause = 20 * time.Millisecond

// callLater makes a call after a pause, if its run still waits for it then.
func (g *Gateway) callLater(r *kernel.Release, pause time.Duration) {
	id, attempt := r.Wait.ID, r.Wait.Attempt
	g.runAt(g.clock().Add(pause), func() {
		if r, open := g.runState().Waiting(id); open && r.Kind == kernel.ReleaseCall && r.Wait.Attempt == attempt {
			g.call(&r)
		}
	})
}

// giveUp decides about a call that timed out and was never sent: if it may not be made
// twice, no reply can come.
func (g *Gateway) giveUp(m bcp.Moment) (outcome, bool) {
	for id, attempt := range g.runs.unmade {
		r, open := g.runState().Waiting(id)
		if !open || r.Kind != kernel.ReleaseCall || r.Wait.Attempt != attempt {
			delete(g.runs.unmade, id)
			continue
		}
		if r.Wait.Deadline <= m.Now.UnixNano() && r.Tool != nil && !r.Tool.Repeats() {
			delete(g.runs.unmade, id)
			return unsentCall{id, kernel.ToolUnavailable}.decide(g)
		}
	}
	return outcome{}, false
}

// unsentCall is about a call that could not be sent, that the server refused, or whose tool
// is suspended.
type unsentCall struct {
	call string
	code kernel.Code
}

func (t unsentCall) decide(g *Gateway) (outcome, bool) {
	delete(g.runs.sent, t.call)
	return g.waited(t.call, kernel.WaitTool, func(m bcp.Moment) kernel.Change { return g.runState().DecideUnsent(m, t.call, t.code) })
}

// waited decides about what a run waits for, if it still does.
func (g *Gateway) waited(id string, kind kernel.WaitKind, decide func(bcp.Moment) kernel.Change) (outcome, bool) {
	if r, open := g.runState().Waiting(id); !open || r.Wait.Kind != kind {
		return outcome{}, false
	}
	m := g.runMoment()
	return g.unaskedRun(m, decide(m)), true
}

// refusedTool decides about the calls of a tool that the server refuses. It may be
// called by any goroutine.
func (g *Gateway) refusedTool(of bcp.AgentName, tool string) {
	g.tell(call(func() {
		for _, id := range g.runState().Unanswered() {
			if r, open := g.runState().Waiting(id); open && r.Kernel == of && r.Wait.Tool == tool {
				g.todo(unsentCall{id, kernel.ToolUnavailable})
			}
		}
	}))
}

// contentRead has a Reader read content.
type contentRead struct{ reader bcp.AgentName }

func (t contentRead) decide(g *Gateway) (outcome, bool) {
	d, tainted := g.state.DecideContent(g.moment(), t.reader)
	return outcome{decision: d}, tainted
}

// readerAsk asks a Reader what a run waits for: an ask of the kernel as a Controller, with
// the request id of the wait. Asked again it is a repeat, with the same outcome.
type readerAsk struct{ wait string }

func (t readerAsk) decide(g *Gateway) (outcome, bool) {
	r, open := g.runState().Waiting(t.wait)
	if !open || r.Wait.Kind != kernel.WaitReader {
		return outcome{}, false
	}
	if r.Schema == nil { // the definitions of today cannot ask it
		return readerAnswer{t.wait, nil, bcp.Unavailable}.decide(g)
	}
	body, err := bcp.Encode(bcp.Ask{RequestID: bcp.ClientID(t.wait), Spec: r.Schema.Spec}, cmp.Or(g.state.Encoding(r.Kernel), bcp.JSON))
	if err != nil {
		return readerAnswer{t.wait, nil, bcp.InvalidQuery}.decide(g)
	}
	d := g.state.DecideAsk(g.moment(), r.Kernel, r.Agent, body)
	if d.Code == bcp.RateLimited { // and not recorded
		g.runAt(g.clock().Truncate(time.Minute).Add(time.Minute), func() { g.todo(t) })
		return outcome{}, false
	}
	return outcome{wait: t.wait, body: body, decision: d}, true
}

// askedReader continues once an ask of a kernel is recorded.
func (g *Gateway) askedReader(o *outcome) {
	switch d := &o.decision; {
	case d.Verdict == bcp.Reject:
		g.todo(readerAnswer{o.wait, nil, d.Code})
	case d.Repeat && len(g.dispatched[d.Query]) == 0:
		g.sendQuery(d.Query)
	}
}

// readerAnswer is the step of a run that waited for a Reader.
type readerAnswer struct {
	wait   string
	answer []byte
	code   bcp.Code
}

func (t readerAnswer) decide(g *Gateway) (outcome, bool) {
	return g.waited(t.wait, kernel.WaitReader, func(m bcp.Moment) kernel.Change {
		return g.runState().DecideAnswer(m, t.wait, t.answer, t.code)
	})
}

// collected is the wait of a query whose answer is about to be decided.
const collected = "collected"

// collect takes the Readers' answers to a kernel: first the run's step is decided, then
// the delivery acknowledged. Later releases are collected then.
func (g *Gateway) collect(key bcp.ChannelKey) {
	if g.runs.resuming {
		return
	}
	for _, out := range g.state.Outbox(key) {
		if out.Release.After(g.clock()) {
			g.runAt(out.Release, func() { g.collect(key) })
			return
		}
		wait, has := g.runs.waits[out.QueryID], kernelReceipt{agentRole: agentRole{key.Controller, bcp.RoleController}, id: out.DeliveryID}
		switch {
		case wait == collected:
		case out.Outcome == bcp.Held:
			g.todo(has)
		default:
			g.runs.waits[out.QueryID], has.query = collected, out.QueryID
			g.todo(collection{readerAnswer{wait, []byte(out.Response), out.Outcome}, has})
		}
	}
}

// collection takes the answer of a delivery. Not before that is it acknowledged: until then
// it is delivered again.
type collection struct {
	readerAnswer
	then kernelReceipt
}

func (t collection) decide(g *Gateway) (outcome, bool) {
	o, decided := t.readerAnswer.decide(g)
	g.todo(t.then)
	return o, decided
}

// resumeRuns continues all runs after the journal was read: first it decides about calls
// that may have been made, then it repeats requests.
func (g *Gateway) resumeRuns() {
	if g.config.Continues {
		return
	}
	state := g.runState()
	g.runs.todo, g.runs.waits, g.runs.resuming, g.runs.suspects = nil, make(map[bcp.QueryID]string), true, true
	open := make(map[string]int)
	for _, id := range state.Unanswered() {
		if r, _ := state.Waiting(id); g.runs.sent[id] == r.Wait.Attempt { // its answer comes to this process
			open[id] = r.Wait.Attempt
			continue
		}
		g.todo(restartedCall{id})
	}
	g.runs.sent = open
	pending := state.Pending()
	for i := range pending {
		g.releaseWait(&pending[i])
	}
	g.todo(resumption{})
}

// resumption follows what waited at the start.
type resumption struct{}

func (resumption) decide(g *Gateway) (outcome, bool) {
	g.runs.resuming = false
	for _, c := range g.config.State.Mesh.Channels {
		if g.isKernel(c.Controller) {
			g.collect(c.ChannelKey)
		}
	}
	return outcome{}, false
}

// restartedCall is about a call that an earlier process may have made.
type restartedCall struct{ call string }

func (t restartedCall) decide(g *Gateway) (outcome, bool) {
	return g.waited(t.call, kernel.WaitTool, func(m bcp.Moment) kernel.Change { return g.runState().DecideRestart(m, t.call) })
}

// result decides about sending a requester the value of a run that an applied decision
// committed: a push of the kernel on the channel of both, if there is one. It is recorded
// right after that decision, in the same record unless the batch needs several.
func (g *Gateway) result(o *outcome) (outcome, bool) {
	for i := range o.releases {
		r := &o.releases[i]
		if r.Kind != kernel.ReleaseOutcome || r.Final == nil {
			continue
		}
		if c, has := g.config.State.Mesh.Channel(bcp.ChannelKey{Controller: r.Agent, Reader: r.Kernel}); !has || len(c.Subscriptions) == 0 {
			continue
		}
		body, err := bcp.Encode(bcp.Response{
			Type: bcp.TypeResponse, SubscriptionID: bcp.ResultSubscription, Controller: r.Agent, PushID: bcp.ClientID(r.Run), Response: r.Final,
		}, cmp.Or(g.state.Encoding(r.Kernel), bcp.JSON))
		if err != nil {
			g.log.Error("writing the result of a run", "run", r.Run, "error", err)
			continue
		}
		d := g.state.DecidePush(g.moment(), r.Kernel, r.Agent, bcp.ResultSubscription, body)
		if d.Code == bcp.RateLimited {
			g.count(counted{kind: bcp.KindRefusals, agent: agentRole{r.Kernel, bcp.RoleReader}}, 1)
			continue
		}
		return outcome{body: body, decision: d}, true
	}
	return outcome{}, false
}

// connectKernels listens to the planners and tools of kernels, and makes their dispatchers
// anew, which connect at their next calls.
func (g *Gateway) connectKernels(state *state.State) error {
	g.closeDispatchers()
	for name, k := range state.Runs().Kernels() {
		if err := g.listenToKernel(k); err != nil {
			return err
		}
		if g.config.ConnectTool == nil {
			continue
		}
		d, err := newDispatcher(k, k.Gate(), g.config.ConnectTool, func(tool string) { g.refusedTool(name, tool) })
		if err != nil {
			return err
		}
		d.unheard = g.config.Unheard
		g.runs.dispatchers[name] = d
	}
	return nil
}

func (g *Gateway) closeDispatchers() {
	for _, d := range g.runs.dispatchers {
		d.Close()
	}
	g.runs.dispatchers = make(map[bcp.AgentName]*dispatcher)
}
