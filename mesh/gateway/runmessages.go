package gateway

import (
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// runRequests are those of requesters: for a run, and answers to what one asks.
type runRequests struct{ plain }

func (runRequests) prepare(g *Gateway, m *message) {
	m.rules = prepare(g, m.body, "forbid", func(today *definitions) *kernel.OwnRules {
		if k := today.kernels[m.subject.Kernel]; k != nil {
			return k.Prepare(m.subject.Agent, m.subject.Grant, m.body)
		}
		return nil
	})
}

// decide returns false for a message beyond the limit, or one that was already decided.
func (runRequests) decide(g *Gateway, _ bcp.Moment, o *outcome) (bcp.Decision, bool) {
	state, now, m := g.runState(), g.runMoment(), o.message
	s := &m.subject
	if g.state.Limited(s.Agent, now) {
		return bcp.Decision{Code: bcp.RateLimited}, false
	}
	if g.state.Suspended(s.Agent) {
		return g.recordRun(now, o, state.RefuseRun(now, s.Kernel, kernel.Requester{Name: string(s.Agent)}, s.Grant, kernel.Suspended), s.Agent), true
	}
	if !g.state.MayRun(s.Kernel, s.Agent, now.Now) {
		return g.state.DecideRoleMissing(now, s.Agent, m.body), true
	}
	task, tells := kernel.Trusted(), g.state.Told
	if kernel.BeginsAnew(m.body) {
		tells = g.state.Anew
	}
	if bits, told := tells(s.Agent, now); told {
		task = kernel.Told(wholeBits(bits))
	}
	requester, _ := g.config.State.Mesh.Agent(s.Agent)
	state.Adopt(m.rules)
	c := state.DecideRun(now, s.Kernel, kernel.Requester{Name: string(s.Agent), Address: requester.Address}, s.Grant, task, m.body)
	if c.Code == kernel.Repeated {
		if o.repeats, o.ended = c.Run, c.End; c.End == nil || !g.state.HasForgotten(s.Agent, state.Ended(c.Run)) {
			return bcp.Decision{}, false
		}
	}
	return g.recordRun(now, o, c, s.Agent), true
}

func (runRequests) answer(g *Gateway, o *outcome) {
	if o.repeats != "" {
		g.answer(o.message, g.runReceipt(o.repeats, o.ended))
	}
}

// plans are those of planners and sub-planners. They and tools answer each message once.
type plans struct{ plain }

func (plans) decide(g *Gateway, _ bcp.Moment, o *outcome) (bcp.Decision, bool) {
	state, now, s := g.runState(), g.runMoment(), &o.message.subject
	delete(g.runs.unheard, s.ID)
	if g.state.Suspended(s.Agent) {
		return g.recordRun(now, o, state.Suspended(now, bcp.KindPlan, s.ID), s.Agent), true
	}
	return g.recordRun(now, o, state.DecidePlan(now, s.Agent, s.ID, o.message.body), s.Agent), true
}

// toolOutcomes are the answers of tools to calls.
type toolOutcomes struct{ plain }

func (toolOutcomes) decide(g *Gateway, _ bcp.Moment, o *outcome) (bcp.Decision, bool) {
	state, now, s := g.runState(), g.runMoment(), &o.message.subject
	delete(g.runs.sent, s.ID)
	return g.recordRun(now, o, state.DecideOutcome(now, s.Agent, s.ID, s.Attempt, o.message.body), s.Agent), true
}

// wholeBits rounds bits up to whole ones; unlimited stays unbounded.
func wholeBits(bits bcp.Bits) kernel.Width {
	if bits >= bcp.MaxBits*bcp.Bit {
		return kernel.Unbounded
	}
	return kernel.Width((bits + bcp.Bit - 1) / bcp.Bit)
}

// decideStop ends a run because the operator says so.
func (g *Gateway) decideStop(o *outcome) bcp.Decision {
	state, m := g.runState(), g.runMoment()
	var c bcp.Control
	if bcp.Decode(o.body, bcp.JSON, &c) != nil || c.Run == "" {
		return g.state.DecideControl(g.moment(), bcp.ControlStopRun, o.body) // which refuses it
	}
	return g.recordRun(m, o, state.DecideStop(m, kernel.RunID(c.Run), kernel.Cancelled), bcp.Operator)
}

// changes are those of runs, whoever causes them.
type changes struct{}

// release sends the consequences of a recorded decision about a run.
func (changes) release(g *Gateway, o *outcome) {
	for i := range o.releases {
		r := &o.releases[i]
		if r.Kind == kernel.ReleaseReply && o.repeats != "" {
			g.answer(o.message, g.runReceipt(o.repeats, o.ended))
			continue
		}
		if r.Kind == kernel.ReleaseReply {
			receipt := bcp.RunReceipt{Type: bcp.TypeRun, RunID: string(r.Run), Code: string(r.Code)}
			if at := r.Place; at != nil {
				receipt.Rule, receipt.Line, receipt.Column = at.Rule, at.Line, at.Column
			}
			g.answer(o.message, receipt)
			continue
		}
		g.releaseWait(r)
	}
	if o.message == nil {
		return
	}
	switch o.message.kind.request.(type) {
	case controls:
		r := o.decision.Run // also of one that had ended: the request may come again
		receipt, known := g.runState().Receipt(kernel.RunID(r.Run), nil)
		if !known {
			receipt = bcp.RunReceipt{Type: bcp.TypeRun, RunID: r.Run, Code: r.Code}
		}
		g.answer(o.message, receipt)
	case approvals:
		g.answer(o.message, g.decided(o))
	case runRequests:
		if c := o.change; c != nil && c.Start == nil { // the answer to a question
			receipt := bcp.RunReceipt{Type: bcp.TypeRun, Code: string(c.Code)}
			if c.Code == "" {
				receipt = g.runReceipt(c.Run, nil)
			}
			g.answer(o.message, receipt)
		}
	}
}

// tellRequester sends how a run ended, or what it asks. A requester that misses it asks
// again, with the same request id.
func (g *Gateway) tellRequester(r *kernel.Release) {
	g.publish(agentRole{r.Agent, bcp.RoleController}, subjects.Deliver(bcp.RoleController, r.Agent, r.Kernel), "", g.runReceipt(r.Run, nil))
}

// runReceipt says how a run is, also a forgotten one that ended as given.
func (g *Gateway) runReceipt(id kernel.RunID, ended *kernel.End) bcp.RunReceipt {
	receipt, _ := g.runState().Receipt(id, ended)
	return receipt
}

// servesKernel returns the planners and tools of a kernel. Its requesters are
// Controllers.
func servesKernel(k *kernel.Kernel) []agentRole {
	d := k.Definition()
	everybody := []agentRole{{d.Planner, bcp.RolePlanner}}
	if d.SubPlanner != "" {
		everybody = append(everybody, agentRole{d.SubPlanner, bcp.RoleSubplanner})
	}
	for i := range d.Tools {
		everybody = append(everybody, agentRole{bcp.AgentName(d.Tools[i].Service), bcp.RoleTool})
	}
	return everybody
}

// listenToKernel listens to the planners and tools of a kernel.
func (g *Gateway) listenToKernel(k *kernel.Kernel) error {
	for _, who := range servesKernel(k) {
		if err := g.link(who, agentPatterns(who)); err != nil {
			return err
		}
	}
	return g.listening()
}

// askPlanner sends a plan request. Each sending has its own reply subject, also across
// gateways: for the server a second message with the same one would use up the answer
// that the first allows.
func (g *Gateway) askPlanner(id string) {
	r, open := g.runState().Waiting(id)
	subject, role := "", bcp.RolePlanner
	switch {
	case !open:
		delete(g.runs.unheard, id)
	case g.clock().UnixNano() < r.Wait.NotBefore:
		g.runAt(time.Unix(0, r.Wait.NotBefore), func() { g.askPlanner(id) })
	case r.Kind == kernel.ReleasePlan:
		subject = subjects.Plan(r.Agent, r.Kernel)
	case r.Kind == kernel.ReleaseSubPlan:
		subject, role = subjects.Subplan(r.Agent, r.Kernel), bcp.RoleSubplanner
	}
	conn := g.agentLink(agentRole{r.Agent, role})
	if subject == "" || conn == nil {
		return
	}
	reply := subjects.Reply(role, r.Agent, id, 1+rand.IntN(subjects.MaxAttempt))
	if err := conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: r.Body}); err != nil {
		g.log.Warn("asking a planner", "error", err)
	}
}

// maxPlannerBackoff is the maximum backoff for a planner that was not connected.
const maxPlannerBackoff = time.Second
