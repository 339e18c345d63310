package gateway

import (
	"maps"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// deliveryWindow is how many unacknowledged deliveries of a channel may be in flight.
const deliveryWindow = 64

// window is how many deliveries of a channel may be on their way to its
// Controller. It is one until the Controller listens: if it began to in the
// middle of many, it would get the later ones first. One that was found not to listen
// gets none for a while.
func (g *Gateway) window(controller bcp.AgentName) int {
	c := g.agents[agentRole{controller, bcp.RoleController}]
	switch {
	case c == nil, g.clock().Before(c.resume):
		return 0
	case !c.ready:
		return 1
	}
	return deliveryWindow
}

// sendDeliveries sends as many deliveries as the channel's window allows. Those
// already in the window are repeated by their own timers.
func (g *Gateway) sendDeliveries(key bcp.ChannelKey) {
	if g.isKernel(key.Controller) {
		g.collect(key)
		return
	}
	outbox := g.state.Outbox(key)
	if len(outbox) > 0 {
		g.wake(agentRole{key.Controller, bcp.RoleController})
	}
	for i := range min(len(outbox), g.window(key.Controller)) {
		out := &outbox[i]
		if wait := out.Release.Sub(g.clock()); wait > 0 {
			g.runAt(out.Release, func() { g.sendDeliveries(key) })
			return
		}
		s := g.sending[out.DeliveryID]
		if s == nil {
			s = &sending{to: agentRole{key.Controller, bcp.RoleController}, parked: true}
			g.sending[out.DeliveryID] = s
		}
		if s.parked {
			s.parked, s.backoff = false, g.firstBackoff(key.Controller)
			g.sendDelivery(key, out)
		}
	}
}

func (g *Gateway) sendAllDeliveries(controller bcp.AgentName) {
	for _, key := range g.state.ChannelsOf(controller) {
		g.sendDeliveries(key)
	}
}

// firstBackoff is the first timeout for the acknowledgement of a delivery. An agent
// that listens gets the delivery, unless its connection ends, which we are told of:
// repeating it while everybody is busy would only add load. An agent that has just
// connected may not listen yet.
func (g *Gateway) firstBackoff(controller bcp.AgentName) time.Duration {
	if c := g.agents[agentRole{controller, bcp.RoleController}]; c != nil && c.ready {
		return patience
	}
	return firstBackoff
}

// sendDelivery sends one delivery now and repeats it until it is acknowledged,
// with the same id and the same bytes.
func (g *Gateway) sendDelivery(key bcp.ChannelKey, out *state.Outgoing) {
	id := out.DeliveryID
	s := g.sending[id]
	g.publish(s.to, subjects.Deliver(bcp.RoleController, key.Controller, key.Reader),
		subjects.Reply(bcp.RoleController, key.Controller, id, s.count), out.Delivery)
	s.count++
	count, backoff := s.count, s.backoff
	s.backoff = min(4*backoff, maxBackoff)
	g.runAt(g.clock().Add(backoff+10*time.Millisecond), func() {
		if s.count == count {
			g.resend(key, id, s)
		}
	})
}

// park takes unacknowledged deliveries out of the window, for a new connection.
func (g *Gateway) park(key bcp.ChannelKey) {
	outbox := g.state.Outbox(key)
	for i := range outbox {
		if s := g.sending[outbox[i].DeliveryID]; s != nil {
			g.sending[outbox[i].DeliveryID] = &sending{to: s.to, count: s.count, parked: true}
		}
	}
}

// forgetSent drops everything in flight that nobody waits for, after the state
// was read from the journal. The others keep their reply subjects distinct.
func (g *Gateway) forgetSent() {
	waiting := make(map[bcp.DeliveryID]*sending)
	for _, c := range g.config.State.Mesh.Channels {
		for _, out := range g.state.Outbox(c.ChannelKey) {
			if s := g.sending[out.DeliveryID]; s != nil {
				waiting[out.DeliveryID] = s
			}
		}
	}
	g.sending = waiting
	maps.DeleteFunc(g.notices, func(id bcp.DeliveryID, _ *sending) bool { return !g.state.Waits(id) })
}

// resend repeats a delivery if this sending of it is still unacknowledged.
func (g *Gateway) resend(key bcp.ChannelKey, id bcp.DeliveryID, s *sending) {
	if g.sending[id] != s || s.parked {
		return
	}
	outbox := g.state.Outbox(key)
	for i := range min(len(outbox), g.window(key.Controller)) {
		if outbox[i].DeliveryID == id {
			g.sendDelivery(key, &outbox[i])
			return
		}
	}
	s.parked = true
}
