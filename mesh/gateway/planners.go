package gateway

import (
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// isOnceOnly reports whether a message can be sent only once: the server lets planners
// and tools answer each message once.
func (m *message) isOnceOnly() bool {
	return m.subject.Kind == subjects.KindReply && m.subject.Role != bcp.RoleReader && m.subject.Role != bcp.RoleController
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
	reply := subjects.ReplyPlanner(role, r.Agent, id, 1+rand.IntN(subjects.MaxAttempt))
	if err := conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: r.Body}); err != nil {
		g.log.Warn("asking a planner", "error", err)
	}
}

// unheardPlan repeats a plan request without a listener, with a backoff.
func (g *Gateway) unheardPlan(id string) {
	g.runs.unheard[id]++
	wait := min(firstBackoff<<min(g.runs.unheard[id], 20), maxPlannerBackoff)
	g.runAt(g.clock().Add(wait), func() { g.askPlanner(id) })
}

// maxPlannerBackoff is the maximum backoff for a planner that was not connected.
const maxPlannerBackoff = time.Second
