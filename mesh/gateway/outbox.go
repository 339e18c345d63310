package gateway

import (
	"container/heap"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// deliveryWindow is how many deliveries of a channel are on their way at once.
const deliveryWindow = 64

// sending is a delivery on its way to its Controller.
type sending struct {
	count   int // sendings so far: each has a reply subject of its own
	backoff time.Duration
}

// sendDeliveries sends what the channel's window has room for. What is in the
// window already is sent again by its own timer.
func (g *Gateway) sendDeliveries(key bcp.ChannelKey) {
	if g.agents[agentRole{key.Controller, bcp.RoleController}] == nil {
		return
	}
	outbox := g.state.Outbox(key)
	for i := range min(len(outbox), deliveryWindow) {
		out := &outbox[i]
		if wait := out.Release.Sub(g.clock()); wait > 0 {
			g.at(out.Release, func() { g.sendDeliveries(key) })
			return
		}
		if g.sending[out.DeliveryID] == nil {
			g.sending[out.DeliveryID] = &sending{backoff: firstBackoff}
			g.sendDelivery(key, out)
		}
	}
}

// sendDelivery sends one delivery now and again until it is acknowledged, with
// the same id and the same bytes.
func (g *Gateway) sendDelivery(key bcp.ChannelKey, out *bcp.Outgoing) {
	id := out.DeliveryID
	s := g.sending[id]
	g.publish(subjects.Deliver(bcp.RoleController, key.Controller, key.Reader),
		subjects.ReplyAttempt(bcp.RoleController, key.Controller, id, s.count), g.state.Encoding(key.Controller), out.Delivery)
	s.count++
	backoff := s.backoff
	s.backoff = min(4*backoff, maxBackoff)
	g.at(g.clock().Add(backoff+10*time.Millisecond), func() { g.resend(key, id, s) })
}

// sendAgain sends at once what is on its way, to a connection that is new.
func (g *Gateway) sendAgain(key bcp.ChannelKey) {
	outbox := g.state.Outbox(key)
	for i := range outbox {
		if s := g.sending[outbox[i].DeliveryID]; s != nil {
			g.sending[outbox[i].DeliveryID] = &sending{count: s.count, backoff: firstBackoff}
			g.sendDelivery(key, &outbox[i])
		}
	}
}

// resend sends a delivery again if this sending of it still waits.
func (g *Gateway) resend(key bcp.ChannelKey, id bcp.DeliveryID, s *sending) {
	if g.sending[id] != s || g.agents[agentRole{key.Controller, bcp.RoleController}] == nil {
		return
	}
	outbox := g.state.Outbox(key)
	for i := range min(len(outbox), deliveryWindow) {
		if outbox[i].DeliveryID == id {
			g.sendDelivery(key, &outbox[i])
			return
		}
	}
	delete(g.sending, id)
}

// timers run in the gateway's goroutine, after the step in which they are due.
type timers []timer

type timer struct {
	at  time.Time
	run func()
}

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = timer{}
	*t = old[:len(old)-1]
	return last
}

func (g *Gateway) at(at time.Time, run func()) { heap.Push(&g.timers, timer{at: at, run: run}) }

func (g *Gateway) clock() time.Time { return time.Now() }

func (g *Gateway) runTimers() {
	now := g.clock()
	for len(g.timers) > 0 && !g.timers[0].at.After(now) {
		heap.Pop(&g.timers).(timer).run()
	}
}

// untilDue is how long there is nothing to do without a message.
func (g *Gateway) untilDue() time.Duration {
	wait := time.Minute
	if len(g.timers) > 0 {
		wait = min(wait, g.timers[0].at.Sub(g.clock()))
	}
	if at, ok := g.state.NextDue(); ok {
		wait = min(wait, at.Sub(g.clock()))
	}
	return max(0, wait)
}
