package agents

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Controller asks Readers and gets what the gateway lets through. BCP is
// asynchronous (PROTOCOL P9.1): Ask returns once the gateway has accepted the
// question, and the answer comes as a delivery. Asking needs no Start; getting
// deliveries does.
type Controller struct {
	listener
	lanes lanes[bcp.AgentName] // by the peer of the channel
	*prompts

	mu      sync.Mutex // guards what follows; taken before those of lanes and prompts
	handler func(context.Context, bcp.Delivery) error
	known   *recent[bcp.DeliveryID]           // handled
	busy    map[bcp.DeliveryID]sending        // queued, parked or being handled: the newest sending
	waiting map[bcp.QueryID]chan bcp.Delivery // AskAndWait calls
	asking  map[bcp.AgentName]int             // AskAndWait calls that have no query id yet
	parked  map[bcp.AgentName][]bcp.Delivery  // deliveries for a query id that one of them may get
}

// NewController returns the Controller of a connection. It starts nothing.
func NewController(c *Connection) *Controller {
	return &Controller{
		listener: listener{conn: c, role: bcp.RoleController, log: c.log.Named("controller")}, prompts: newPrompts(), known: newRecent[bcp.DeliveryID](maxKnown),
		busy: make(map[bcp.DeliveryID]sending), waiting: make(map[bcp.QueryID]chan bcp.Delivery),
		asking: make(map[bcp.AgentName]int), parked: make(map[bcp.AgentName][]bcp.Delivery),
	}
}

// AskOptions go with one ask.
type AskOptions struct {
	// Justification is why an escalation is needed, in the Controller's own
	// words (PROTOCOL P6). Empty: the ask is no escalation.
	Justification string
	// RequestID makes a later ask a repeat of an earlier one: with the same
	// reader and spec it returns the first outcome and charges nothing more,
	// for 24 hours. Empty: a fresh one is made.
	RequestID bcp.ClientID
	// ReturnHeld makes AskAndWait return also when the answer waits for a
	// person; the final outcome is then an ordinary delivery.
	ReturnHeld bool
}

// Ask sends a question to a Reader and returns as soon as the gateway has
// accepted it, with its maximum cost. After a lost reply, without a gateway, or
// after the refusal unavailable it retries with the same request id, until ctx
// ends: a retry never charges twice (PROTOCOL P2.6). So ctx should have a
// deadline.
//
// Errors: [*RefusedError]; [*UnansweredError] when ctx ended first;
// nats.ErrPermissionViolation if there is no such channel.
func (c *Controller) Ask(ctx context.Context, reader bcp.AgentName, spec bcp.Spec, o AskOptions) (bcp.Accepted, error) {
	id, err := clientID(o.RequestID)
	if err != nil {
		return bcp.Accepted{}, fmt.Errorf("agents: AskOptions.RequestID: %w", err)
	}
	ask := bcp.Ask{Type: bcp.TypeQueryRequest, Target: reader, RequestID: id, Spec: spec}
	if o.Justification != "" {
		ask.Escalation = &bcp.Escalation{Justification: o.Justification}
	}
	return exchange(ctx, c.conn, c.conn.options.Encoding, subjects.Ask(c.conn.options.Name, reader), id, ask, func(a bcp.Accepted) error { return understood(a.QueryID != "") })
}

// AskAndWait asks and waits for the final delivery of the query, which is
// acknowledged and does not go to the handler of OnDelivery. A refusal after
// acceptance, such as rejected or expired, is the delivery's Outcome, not an
// error. It needs Start, and may be called by a handler. When ctx ends first,
// the query goes on, and its answer is an ordinary delivery.
//
// The protocol is asynchronous: a Controller that can do other work meanwhile
// should use Ask and OnDelivery. With a RequestID that was used before, the
// delivery may have come already, and does not come again.
func (c *Controller) AskAndWait(ctx context.Context, reader bcp.AgentName, spec bcp.Spec, o AskOptions) (bcp.Delivery, error) {
	r := c.running()
	if !r.goesOn() {
		return bcp.Delivery{}, ErrNotStarted
	}
	c.mu.Lock()
	c.asking[reader]++
	c.mu.Unlock()
	accepted, err := c.Ask(ctx, reader, spec, o)
	deliveries := c.accepted(reader, accepted.QueryID)
	if err != nil {
		return bcp.Delivery{}, err
	}
	defer c.endWait(accepted.QueryID, deliveries)
	for {
		select {
		case d := <-deliveries:
			c.finished(d)
			if d.Outcome != bcp.Held || o.ReturnHeld {
				return d, nil
			}
		case <-r.stopping:
			return bcp.Delivery{}, ErrNotStarted
		case <-ctx.Done():
			return bcp.Delivery{}, fmt.Errorf("agents: waiting for query %s: %w", accepted.QueryID, ended(ctx))
		}
	}
}

// OpenSession begins a session if none is open (PROTOCOL P9.2). Ask does this
// itself.
func (c *Controller) OpenSession(ctx context.Context) error {
	_, err := session[receipt](ctx, c, bcp.Session{Verb: bcp.VerbOpen}, nil)
	return err
}

// CloseSession ends the session and cancels its open queries, at their failure
// price (PROTOCOL P7.6). The next session opens new epochs: a Controller that
// closes after each delivery, while others are on their way, gives its Readers a
// full budget every time, and only window_budget_bits bounds the total.
func (c *Controller) CloseSession(ctx context.Context) error {
	_, err := session[receipt](ctx, c, bcp.Session{Verb: bcp.VerbClose}, nil)
	return err
}

// Channels returns what the Controller may ask each Reader, the rest of each
// budget, and the current cost of questions (PROTOCOL P9.6). It begins no session
// and costs nothing. Errors are those of Ask.
func (c *Controller) Channels(ctx context.Context) ([]bcp.ChannelView, error) {
	list, err := session(ctx, c, bcp.Session{Verb: bcp.VerbChannels}, func(l bcp.Channels) error { return understood(l.Type == bcp.TypeChannels) })
	for i := range list.Channels {
		c := &list.Channels[i]
		c.Subscriptions = keepUnderstood(c.Subscriptions)
	}
	return list.Channels, err
}

// keepUnderstood removes subscriptions of a newer gateway that this program does not
// understand: it could neither push nor explain them.
func keepUnderstood(list []bcp.ActiveSubscription) []bcp.ActiveSubscription {
	return slices.DeleteFunc(list, func(s bcp.ActiveSubscription) bool { return !s.Spec.Known() })
}

// Propose asks people for a subscription on a channel of this Controller. By
// itself it changes nothing: an approver decides, and the operator must write an
// approved one into the definitions (PROTOCOL P12.4). It returns the waiting item;
// the same proposal again returns the same item. Errors are those of Ask.
func (c *Controller) Propose(ctx context.Context, p bcp.Proposal) (bcp.ItemID, error) {
	return c.held(ctx, bcp.Session{Verb: bcp.VerbPropose, Proposal: &p})
}

// Hand hands a sealed value of an answer to the people who approve what its Reader says:
// they see it, and this agent does not (PROTOCOL P3.12). It returns the item; the same
// handle again returns the same item. Errors are those of Ask.
func (c *Controller) Hand(ctx context.Context, h bcp.Handle) (bcp.ItemID, error) {
	return c.held(ctx, bcp.Session{Verb: bcp.VerbHand, Handle: h})
}

// held sends what waits for a person, and returns its item.
func (c *Controller) held(ctx context.Context, message bcp.Session) (bcp.ItemID, error) {
	proposed, err := session(ctx, c, message, func(p bcp.Proposed) error { return understood(p.Item != "") })
	return proposed.Item, err
}

// ReportTaint reports that this agent has read something that others may have
// written. From then on its answers as a Reader are tainted; only the operator
// can undo this (PROTOCOL P8.1).
func (c *Controller) ReportTaint(ctx context.Context, source bcp.TaintSource) error {
	_, err := session[receipt](ctx, c, bcp.Session{Verb: bcp.VerbTaint, Taint: &bcp.TaintReport{Source: source}}, nil)
	return err
}

// session sends a message about the session, and returns the reply.
func session[R any](ctx context.Context, c *Controller, message bcp.Session, check func(R) error) (R, error) {
	message.Type = bcp.TypeSession
	return exchange(ctx, c.conn, c.conn.options.Encoding, subjects.Session(c.conn.options.Name), "", message, check)
}
