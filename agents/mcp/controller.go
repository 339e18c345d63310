package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// controller is the side of a Controller. What the gateway delivers waits here,
// not acknowledged, until the host says so: over an end of this process the
// gateway keeps it.
type controller struct {
	server  *Server
	log     hclog.Logger
	agent   *agents.Controller
	inbox   keyedQueue[bcp.DeliveryID, bcp.Delivery]
	prompts prompts
	files   []*wrap.File
	away    func(context.Context, bcp.AgentName) bool // nil: nobody knows
	nudge   chan struct{}                             // has an element if the agent's channels may have changed
}

func newController(s *Server, conn *agents.Connection, o Options) *controller {
	c := &controller{server: s, log: s.log, agent: agents.NewController(conn), files: o.Tools, away: o.Away, nudge: make(chan struct{}, 1)}
	c.agent.OnDelivery(func(_ context.Context, d bcp.Delivery) error {
		c.inbox.put(d.DeliveryID, d)
		return agents.ErrKeep
	})
	c.agent.OnPrompt(c.prompts.handle)
	s.prompt("controller", "How to be a Controller", "How to ask Readers, and what to make of what they answer.", controllerPrompt)
	return c
}

func (c *controller) start(ctx context.Context, run func(func(context.Context))) error {
	if err := c.agent.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if _, f := c.channels(ctx); f != nil {
		stopNow(ctx, c)
		return fmt.Errorf("%s: %s", f.Code, f.Detail)
	}
	run(c.keepUp)
	return nil
}

func (c *controller) stop(ctx context.Context) error { return c.agent.Stop(ctx) }

// keepUp has the tools follow the definitions.
func (c *controller) keepUp(ctx context.Context) {
	ticker := time.NewTicker(refreshTime)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-c.nudge:
		}
		asking, cancel := context.WithTimeout(ctx, listTimeout)
		if _, f := c.channels(asking); f != nil && ctx.Err() == nil {
			c.log.Debug("the channels are not known now", "code", string(f.Code))
		}
		cancel()
	}
}

// channels gets the agent's channels, and updates the tools.
func (c *controller) channels(ctx context.Context) ([]bcp.ChannelView, *fault) {
	list, err := c.agent.Channels(ctx)
	if err != nil {
		return nil, refused(err, bcp.NotPermitted)
	}
	tools := map[*sdk.Tool]sdk.ToolHandler{
		queryTool(list):     handler(c.log, c.query),
		inboxTool():         handler(c.log, c.read),
		budgetTool(list):    handler(c.log, c.budget),
		subscribeTool(list): handler(c.log, c.subscribe),
	}
	maps.Copy(tools, c.wrapped(list))
	c.server.announce(tools)
	return list, nil
}

// budget is the result of BCPBudget.
type budget struct {
	Channels []bcp.ChannelView `json:"channels"`
}

func (c *controller) budget(ctx context.Context, arguments []byte) (any, *fault) {
	var in struct {
		Target bcp.AgentName `json:"target"`
	}
	if err := read(arguments, &in); err != nil {
		return nil, newFault(bcp.Malformed).saying("%s", err).next("BCPBudget takes target, or nothing")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, f := c.channels(ctx)
	if f != nil || in.Target == "" {
		return budget{list}, f
	}
	for _, one := range list {
		if one.Reader == in.Target {
			return budget{[]bcp.ChannelView{one}}, nil
		}
	}
	return nil, noChannel(list)
}

func noChannel(list []bcp.ChannelView) *fault {
	f := newFault(bcp.NoChannel)
	if len(list) == 0 {
		return f.next("this agent has no channel: an operator declares it in both agents' definitions")
	}
	return f.next("name one of: %s", strings.Join(readerNames(list), ", "))
}

func readerNames(list []bcp.ChannelView) []string {
	var names []string
	for _, one := range list {
		names = append(names, string(one.Reader))
	}
	return names
}

// asked is the result of BCPQuery.
type asked struct {
	bcp.Accepted `json:",inline"`
	Next         string `json:"what_next"`
}

func (c *controller) query(ctx context.Context, arguments []byte) (any, *fault) {
	q, f := parseQuery(arguments)
	if f != nil {
		return nil, f
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	accepted, err := c.agent.Ask(ctx, q.Target, q.Spec, agents.AskOptions{Justification: q.Escalation.Justification, RequestID: q.RequestID})
	if err != nil {
		return nil, c.notAsked(ctx, err, q)
	}
	return asked{accepted, "Go on with something else. The answer comes later, once: BCPInbox with this query_id waits for it."}, nil
}

// ArgumentsAdvice is what to do about a query with arguments that is not valid.
const ArgumentsAdvice = "give arguments to a Reader that takes them alone, and no more bytes than it takes: the target of BCPQuery says so"

// notAsked says what to do about an ask that was not accepted.
func (c *controller) notAsked(ctx context.Context, err error, q bcp.Ask) *fault {
	f := refused(err, bcp.NoChannel)
	switch f.Code {
	case bcp.Unavailable:
		return f.next("try again with request_id %q and everything else the same: it is never charged twice", q.RequestID)
	case bcp.EscalationRequired:
		return f.next("add justification: why a lower category cannot do, in your own words and from your own analysis, not the Reader's claims")
	case bcp.InvalidQuery:
		if q.Spec.Arguments != nil {
			return f.next(ArgumentsAdvice)
		}
		return f.next("correct the arguments: the tool's schema says their form")
	case bcp.NoChannel, bcp.CategoryDenied:
		return c.outdated(ctx, f, q.Target)
	}
	return f
}

// outdated says what to do if the definitions differ from the tools.
func (c *controller) outdated(ctx context.Context, f *fault, target bcp.AgentName) *fault {
	select {
	case c.nudge <- struct{}{}:
	default:
	}
	if list, listed := c.channels(ctx); listed == nil && f.Code == bcp.NoChannel && !slices.Contains(readerNames(list), string(target)) {
		return noChannel(list)
	}
	return f
}

// proposed is the result of BCPSubscribe.
type proposed struct {
	bcp.Proposed `json:",inline"`
	Next         string `json:"what_next"`
}

func (c *controller) subscribe(ctx context.Context, arguments []byte) (any, *fault) {
	p, f := parseSubscribe(arguments)
	if f != nil {
		return nil, f
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	item, err := c.agent.Propose(ctx, p)
	if err == nil {
		return proposed{bcp.Proposed{Item: item}, "Go on without it. A person decides, and an operator writes what was approved into your definition; you are not told. BCPBudget lists the subscriptions that you have."}, nil
	}
	f = refused(err, bcp.NotPermitted)
	switch f.Code {
	case bcp.Unavailable:
		return nil, f.next("try again with the same arguments: the same proposal is never two")
	case bcp.InvalidQuery:
		return nil, f.next("take an id that BCPBudget does not list for this reader, and correct the arguments: the tool's schema says their form")
	case bcp.ApprovalQueueFull:
		return nil, f.next("%d proposals for this reader wait for a person already: go on without it", bcp.MaxProposals)
	case bcp.NoChannel, bcp.CategoryDenied:
		return nil, c.outdated(ctx, f, p.Reader)
	}
	return nil, f
}

// delivered is a delivery for a host: the wire's message verbatim, and what to
// do about an outcome without an answer.
type delivered struct {
	bcp.Delivery `json:",inline"`
	Next         string `json:"what_next,omitempty"`
}

// inboxList is the result of BCPInbox.
type inboxList struct {
	Notice       string           `json:"notice"`
	Deliveries   []delivered      `json:"deliveries"`
	More         int              `json:"more,omitzero"`
	Prompts      []bcp.Prompt     `json:"prompts,omitempty"`
	Acknowledged []bcp.DeliveryID `json:"acknowledged,omitempty"`
	// NotWaiting are ids that could not be acknowledged because they do not
	// wait: already acknowledged, or unknown.
	NotWaiting []bcp.DeliveryID `json:"not_waiting,omitempty"`
	Handed     []bcp.Handle     `json:"handed,omitempty"`
}

func (c *controller) read(ctx context.Context, arguments []byte) (any, *fault) {
	var in struct {
		Acknowledge []string     `json:"acknowledge"`
		Hand        []bcp.Handle `json:"hand"`
		QueryID     bcp.QueryID  `json:"query_id"`
		WaitSeconds int          `json:"wait_seconds"`
	}
	if err := read(arguments, &in); err != nil {
		return nil, newFault(bcp.Malformed).saying("%s", err).next("BCPInbox takes acknowledge, hand, query_id and wait_seconds, or nothing")
	}
	wait, f := checkWait(in.WaitSeconds)
	switch {
	case f != nil:
		return nil, f
	case len(in.Acknowledge) > maxAcknowledged:
		return nil, newFault(bcp.Malformed).saying("acknowledge names more than %d deliveries", maxAcknowledged).next("acknowledge fewer at a time")
	}
	if len(in.Hand) > maxHanded {
		return nil, newFault(bcp.Malformed).saying("hand names more than %d handles", maxHanded).next("hand fewer at a time")
	}
	for _, h := range in.Hand { // first: an acknowledgement is not repeated
		asking, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := c.agent.Hand(asking, h)
		cancel()
		if err != nil {
			return nil, refused(err, bcp.NotPermitted)
		}
	}
	var acknowledged, unknown []bcp.DeliveryID
	for _, text := range in.Acknowledge {
		id, err := bcp.ParseDeliveryID(text)
		if err != nil {
			return nil, newFault(bcp.Malformed).saying("acknowledge: %s", err).next("give the delivery_id of deliveries that BCPInbox listed")
		}
		if _, waits := c.inbox.take(id); waits && c.agent.Acknowledge(id) {
			acknowledged = append(acknowledged, id)
		} else {
			unknown = append(unknown, id)
		}
	}
	list := c.waiting(in.QueryID, wait, c.prompts.coming(), ctx)
	list.Acknowledged, list.NotWaiting, list.Handed, list.Prompts = acknowledged, unknown, in.Hand, c.prompts.takeAll()
	return list, nil
}

// checkWait checks how long a call is to wait.
func checkWait(seconds int) (time.Duration, *fault) {
	if most := int(maxWait / time.Second); seconds < 0 || seconds > most {
		return 0, newFault(bcp.Malformed).saying("wait_seconds is not from 0 to %d", most).next("wait for less, and call again")
	}
	return time.Duration(seconds) * time.Second, nil
}

// waiting lists the waiting deliveries, of one query or of all.
func (c *controller) waiting(query bcp.QueryID, wait time.Duration, woken <-chan struct{}, ctx context.Context) inboxList {
	found, more := c.inbox.wait(ctx, wait, woken, maxListed, func(d bcp.Delivery) bool { return query == "" || d.QueryID == query })
	list := inboxList{Notice: dataNotice, Deliveries: make([]delivered, 0, len(found)), More: more}
	for _, d := range found {
		one := delivered{Delivery: d}
		if d.Outcome != "" {
			info := d.Outcome.Info()
			one.Next = info.Text + ": " + info.Decision
		}
		list.Deliveries = append(list.Deliveries, one)
	}
	return list
}
