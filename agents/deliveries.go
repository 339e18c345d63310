package agents

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// OnDelivery sets the handler of all deliveries, of queries and of pushes. Set
// it before Start. A delivery is acknowledged when the handler has returned
// nil; until then the gateway keeps it, even if either side restarts.
// Deliveries of one channel are handled one at a time, in the order of release;
// those of several channels concurrently (Options.Handlers).
//
// If the handler fails, it is called again with a backoff from 100 ms to 30 s,
// before any later delivery of the channel. A delivery is handled once, except
// after a crash between handling and acknowledging: then it comes again with
// the same DeliveryID. Without a handler, deliveries that no AskAndWait waits
// for stay with the gateway.
//
// A handler that returns [ErrKeep] keeps the delivery: it is not handled again
// in this run, does not block later ones, and is acknowledged by Acknowledge.
// The gateway limits the unacknowledged deliveries of a channel to a window.
func (c *Controller) OnDelivery(handler func(context.Context, bcp.Delivery) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handler = handler
}

// Start begins to take deliveries and returns when the server has confirmed it: if
// the connection is lost, it waits for a reconnect until ctx ends. Deliveries are
// taken until Stop, which waits for Start, or until ctx ends, which also cancels
// the context of the handlers.
func (c *Controller) Start(ctx context.Context) error {
	return c.listen(ctx, "", []string{subjects.DeliveriesOf(bcp.RoleController, c.conn.options.Name)}, func(r *run) {
		c.mu.Lock()
		defer c.mu.Unlock()
		clear(c.busy)
		clear(c.parked)
		c.prompts.restart()
		c.lanes.begin(r)
	}, c.receive)
}

// receive checks one message: its sender, its kind, and whether it is new.
func (c *Controller) receive(_ *run, m *nats.Msg, to subjects.Subject) {
	from, err := subjects.Parse(m.Subject)
	if err == nil && from.Peer == bcp.Gateway {
		got, err := bcp.Receive(m.Data, c.conn.options.Encoding)
		if err == nil && got.Type == bcp.TypePrompt {
			err = c.prompts.receive(c.conn, m, got, func(j job) bool { return c.lanes.add(bcp.Gateway, j) })
		}
		if err != nil || got.Type != bcp.TypePrompt {
			c.malformed()
		}
		return
	}
	var d bcp.Delivery
	if err != nil || bcp.Decode(m.Data, c.conn.options.Encoding, &d) != nil || d.Type != bcp.TypeResponseDelivery ||
		string(d.DeliveryID) != to.ID || d.FromAgent != from.Peer || (d.QueryID == "") == (d.SubscriptionID == "") {
		c.malformed()
		return
	}
	newest := c.conn.arrived(m)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known.has(d.DeliveryID) {
		c.counters.duplicates.Add(1)
		c.conn.reply(newest, nil)
		return
	}
	_, busy := c.busy[d.DeliveryID]
	c.busy[d.DeliveryID] = newest
	if busy {
		c.counters.duplicates.Add(1)
		return
	}
	c.route(d)
}

// route gives a delivery to the AskAndWait that waits for it, or to the lane of
// its channel. While an AskAndWait to the same Reader does not know its query
// id yet, answers and everything after them are parked, to keep the order.
// Called with mu held and the delivery in busy.
func (c *Controller) route(d bcp.Delivery) {
	if w := c.waiting[d.QueryID]; w != nil && d.QueryID != "" {
		c.deliverToWaiter(w, d)
		return
	}
	parked := c.parked[d.FromAgent]
	if len(parked) == 0 && (d.QueryID == "" || c.asking[d.FromAgent] == 0) {
		c.enqueue(d)
		return
	}
	if len(parked) >= maxQueued {
		c.drop(d)
		return
	}
	c.parked[d.FromAgent] = append(parked, d)
}

// deliverToWaiter gives a delivery to an AskAndWait. A query has at most two, held and
// the final one; any more are not answers. Called with mu held.
func (c *Controller) deliverToWaiter(w chan bcp.Delivery, d bcp.Delivery) {
	select {
	case w <- d:
	default:
		c.drop(d)
	}
}

// drop leaves a delivery to the gateway, which will send it again. Called with
// mu held.
func (c *Controller) drop(d bcp.Delivery) {
	delete(c.busy, d.DeliveryID)
	count(&c.counters.overflow, c.log, "too many deliveries wait")
}

// accepted ends the ask phase of one AskAndWait. If the query was accepted, it
// returns the channel of its deliveries, the parked ones first.
func (c *Controller) accepted(reader bcp.AgentName, id bcp.QueryID) chan bcp.Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	var w chan bcp.Delivery
	if id != "" {
		w = make(chan bcp.Delivery, 2)
		c.waiting[id] = w
		c.parked[reader] = slices.DeleteFunc(c.parked[reader], func(d bcp.Delivery) bool {
			if d.QueryID != id {
				return false
			}
			c.deliverToWaiter(w, d)
			return true
		})
	}
	if c.asking[reader]--; c.asking[reader] > 0 {
		return w
	}
	parked := c.parked[reader]
	delete(c.asking, reader)
	delete(c.parked, reader)
	for _, d := range parked {
		c.enqueue(d)
	}
	return w
}

// endWait ends the waiting for a query. Unread deliveries become ordinary ones.
func (c *Controller) endWait(id bcp.QueryID, w chan bcp.Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[id] == w {
		delete(c.waiting, id)
	}
	for {
		select {
		case d := <-w:
			c.route(d)
		default:
			return
		}
	}
}

// enqueue puts a delivery into the lane of its channel. Called with mu held.
func (c *Controller) enqueue(d bcp.Delivery) {
	handler := c.handler
	if handler == nil {
		delete(c.busy, d.DeliveryID)
		return
	}
	if !c.lanes.add(d.FromAgent, func(ctx context.Context, r *run) { c.deliver(ctx, r, handler, d) }) {
		c.drop(d)
	}
}

// deliver calls the handler until it succeeds, or the run ends.
func (c *Controller) deliver(ctx context.Context, r *run, handler func(context.Context, bcp.Delivery) error, d bcp.Delivery) {
	for n := 1; ; n++ {
		var err error
		called := r.handle(ctx, func() {
			err = guarded("delivery", string(d.DeliveryID), func() error { return handler(ctx, d) })
		})
		switch {
		case !called:
			return
		case err == nil:
			c.finished(d)
			return
		case errors.Is(err, ErrKeep), interrupted(ctx, err):
			return
		}
		c.conn.handlerFailed(err)
		if !sleep(ctx, r.stopping, pauseBefore(n, firstHandlerWait, maxHandlerWait)) {
			return
		}
	}
}

// finished remembers a handled delivery and acknowledges it.
func (c *Controller) finished(d bcp.Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.add(d.DeliveryID)
	c.conn.reply(c.busy[d.DeliveryID], nil)
	delete(c.busy, d.DeliveryID)
}

// Acknowledge acknowledges a delivery that a handler kept. It reports false for
// one that is not waiting: unknown, already acknowledged, or of an earlier run.
// A lost acknowledgement is repeated when the delivery comes again.
func (c *Controller) Acknowledge(id bcp.DeliveryID) bool {
	c.mu.Lock()
	_, waits := c.busy[id]
	c.mu.Unlock()
	if waits {
		c.finished(bcp.Delivery{DeliveryID: id})
	}
	return waits
}
