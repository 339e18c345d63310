package gateway

import (
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// toKernel returns the kind of decision that a message to a kernel leads to.
func toKernel(s *subjects.Subject) (bcp.DecisionKind, bool) {
	switch {
	case s.Kind == subjects.KindRun:
		return bcp.KindRun, true
	case s.Kind == subjects.KindReply && (s.Role == bcp.RolePlanner || s.Role == bcp.RoleSubplanner):
		return bcp.KindPlan, true
	case s.Kind == subjects.KindReply && s.Role == bcp.RoleTool:
		return bcp.KindOutcome, true
	}
	return 0, false
}

// isOnceOnly reports whether a message can be sent once alone: the server lets planners and
// tools answer each message once.
func (in *input) isOnceOnly() bool {
	kind, ok := toKernel(&in.subject)
	return ok && kind != bcp.KindRun && in.event == nil
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

// askPlanner sends a plan request. Each sending has a reply subject of its own, also of
// different gateways: to the server a second message with the same one would use up the
// answer that the first allows.
func (g *Gateway) askPlanner(id string) {
	r, open := g.runState().Waiting(id)
	subject, role := "", bcp.RolePlanner
	switch {
	case !open:
		delete(g.runs.unheard, id)
	case r.Kind == kernel.ReleasePlan:
		subject = subjects.Plan(r.Agent, r.Kernel)
	case r.Kind == kernel.ReleaseSubPlan:
		subject, role = subjects.Subplan(r.Agent, r.Kernel), bcp.RoleSubplanner
	}
	conn := g.agentLink(agentRole{r.Agent, role})
	if subject == "" || conn == nil {
		return
	}
	reply := subjects.ReplyPlanner(role, r.Agent, id, 1+rand.IntN(subjects.MaxAttempt))
	if err := conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: r.Body}); err != nil {
		g.log.Warn("asking a planner", "error", err)
	}
}

// unheardPlan sends a plan request that nobody listened to again, later each time.
func (g *Gateway) unheardPlan(id string) {
	g.runs.unheard[id]++
	wait := min(firstBackoff<<min(g.runs.unheard[id], 20), maxPlannerBackoff)
	g.runAt(g.clock().Add(wait), func() { g.askPlanner(id) })
}

// maxPlannerBackoff is the longest pause before a planner that was not there is asked
// again.
const maxPlannerBackoff = time.Second
