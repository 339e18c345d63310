package agents

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Query is a query as a Reader's handler gets it.
type Query struct {
	bcp.Query `json:",inline"`
	// Attempt is 0 at first and increases with each rejected answer of this
	// client.
	Attempt int `json:"attempt"`
	// LastDetail says why the answer before was rejected; empty for the first.
	LastDetail string `json:"last_detail,omitempty"`
}

// NotEnoughInformation is returned by a handler instead of an answer if the
// Reader does not know (PROTOCOL P3.9).
type NotEnoughInformation struct{}

// Reader answers queries and pushes against subscriptions. Pushing needs no
// Start; getting queries, subscriptions and results does.
type Reader struct {
	listener
	lanes lanes[bcp.QueryID] // for other jobs the id is empty
	*prompts

	mu            sync.Mutex // guards what follows; taken before those of lanes and prompts
	query         func(context.Context, Query) (any, error)
	subscriptions func([]bcp.ActiveSubscription)
	result        func(bcp.ValidationResult)
	answers       answers
	queries       *queries
	pending       int                      // queries that wait for a handler or have one
	active        *bcp.SubscriptionsActive // the last one, as far as it is known here
	tools         []string
	results       *recent[string]
}

// NewReader returns the Reader of a connection. It starts nothing.
func NewReader(c *Connection) *Reader {
	return &Reader{listener: listener{conn: c, role: bcp.RoleReader, log: c.log.Named("reader")}, prompts: newPrompts(), results: newRecent[string](maxKnown)}
}

// OnQuery sets the handler of queries. Set it before Start. The handler returns
// a value that encodes as a JSON object, in one of the shapes of the query's
// category, or [NotEnoughInformation]. At most Options.Handlers calls run at a
// time.
//
// If the gateway repeats an answered query, because either side was away, the
// same answer is sent again without calling the handler; after a rejection the
// handler is called again, with Attempt and LastDetail set. After an error or a
// panic nothing is sent, and the query stays open until it comes again or
// expires.
func (r *Reader) OnQuery(handler func(context.Context, Query) (any, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.query = handler
}

// OnSubscriptions sets the handler of the Reader's list of subscriptions: the
// first list after Start, and each changed one. Set it before Start. Calls of
// it and of OnResult come one at a time.
func (r *Reader) OnSubscriptions(handler func([]bcp.ActiveSubscription)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscriptions = handler
}

// Tools returns the protocol's own tools that the Reader's definition lists, as
// of the newest list of subscriptions; none before the first. A handler of
// OnSubscriptions gets those of its list, or newer ones.
func (r *Reader) Tools() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tools)
}

// OnResult sets the handler of the gateway's results for answers, and of the
// final ones for held answers (PROTOCOL P7.6). It does not get what Push
// returns. Set it before Start.
func (r *Reader) OnResult(handler func(bcp.ValidationResult)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = handler
}

// Start begins to take queries and returns when the server has confirmed it: if the
// connection is lost, it waits for a reconnect until ctx ends. Queries are taken
// until Stop, which waits for Start, or until ctx ends, which also cancels the
// context of the handlers.
func (r *Reader) Start(ctx context.Context) error {
	name := r.conn.options.Name
	return r.listen(ctx, "", []string{subjects.QueriesOf(name), subjects.DeliveriesOf(bcp.RoleReader, name)}, func(started *run) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pending, r.active = 0, nil
		r.answers.restart()
		r.prompts.restart()
		r.lanes.begin(started)
		r.queries = &started.queries
	}, r.receive)
}

// receive handles one message. Queries and results are received in the order in
// which they were sent, so a rejection's detail is known before the query comes
// again.
func (r *Reader) receive(_ *run, m *nats.Msg, to subjects.Subject) {
	from, err := subjects.Parse(m.Subject)
	if err != nil {
		r.malformed()
		return
	}
	if from.Kind == subjects.KindDeliver {
		r.delivered(m)
		return
	}
	var q bcp.Query
	if bcp.Decode(m.Data, r.conn.options.Encoding, &q) != nil || q.Type != bcp.TypeQuery || q.Controller != from.Controller || !q.Spec.Known() {
		r.malformed()
		return
	}
	if string(q.QueryID) != to.ID {
		count(&r.counters.foreign, r.log, "dropped a query with the reply subject of another")
		return
	}
	r.queried(q, r.conn.arrived(m))
}

// promptLane is the lane of prompts, which wait for each other, but not for queries.
const promptLane bcp.QueryID = "."

// queried sends a remembered answer again, or starts the handler.
func (r *Reader) queried(q bcp.Query, newest sending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.query == nil {
		r.conn.tell("a query came and there is nothing to answer it: set OnQuery before Start", "")
		return
	}
	entry := r.answers.findOrAdd(q.QueryID)
	entry.newest = newest
	switch {
	case entry.running:
		r.counters.duplicates.Add(1)
		return
	case entry.message != nil && !entry.rejected:
		r.counters.duplicates.Add(1)
		r.conn.reply(newest, entry.message)
		return
	}
	if r.queries.shared() && r.pending >= r.conn.options.Handlers {
		r.conn.handBack(newest)
		return
	}
	query, handler := Query{Query: q, Attempt: entry.attempt, LastDetail: entry.detail}, r.query
	r.answers.setMessage(q.QueryID, entry, nil)
	entry.running = r.pending < maxQueued && r.lanes.add(q.QueryID, func(ctx context.Context, run *run) {
		r.answer(ctx, run, handler, query, entry)
	})
	if !entry.running {
		count(&r.counters.overflow, r.log, "too many queries wait")
		return
	}
	r.pending++
}

// answer calls the handler and sends what it returns, to the newest sending of
// the query.
func (r *Reader) answer(ctx context.Context, run *run, handler func(context.Context, Query) (any, error), q Query, entry *answered) {
	var message []byte
	var err error
	called := run.handle(ctx, func() {
		err = guarded("query", string(q.QueryID), func() error {
			value, err := handler(ctx, q)
			if err == nil {
				message, err = r.encode(bcp.Response{Type: bcp.TypeResponse, QueryID: q.QueryID}, value)
			}
			return err
		})
	})
	r.mu.Lock()
	r.pending--
	entry.running = false
	if called && err == nil {
		r.answers.setMessage(q.QueryID, entry, message)
		r.conn.reply(entry.newest, message)
	}
	r.mu.Unlock()
	if err != nil && !interrupted(ctx, err) {
		r.conn.handlerFailed(err)
	}
}

// encode puts an answer into its message.
func (r *Reader) encode(message bcp.Response, answer any) ([]byte, error) {
	if _, unknown := answer.(NotEnoughInformation); unknown && message.QueryID != "" {
		message.NotEnoughInformation = true
		return bcp.Encode(message, r.conn.options.Encoding)
	}
	var err error
	if message.Response, err = encodeResponse(answer); err != nil {
		return nil, err
	}
	return bcp.Encode(message, r.conn.options.Encoding)
}

// delivered takes bcp_subscriptions_active, bcp_validation_result or a prompt.
func (r *Reader) delivered(m *nats.Msg) {
	got, err := bcp.Receive(m.Data, r.conn.options.Encoding)
	if err == nil {
		switch got.Type {
		case bcp.TypeSubscriptionsActive:
			var list bcp.SubscriptionsActive
			if err = got.Decode(&list); err == nil {
				r.listed(m, list)
			}
		case bcp.TypePrompt:
			err = r.prompts.receive(r.conn, m, got, func(j job) bool { return r.lanes.add(promptLane, j) })
		case bcp.TypeValidationResult:
			var result bcp.ValidationResult
			if err = got.Decode(&result); err == nil {
				r.judged(m, result)
			}
		default:
			err = ErrMessage
		}
	}
	if err != nil {
		r.malformed()
	}
}

// listed acknowledges at once, since the gateway sends nothing else until then.
func (r *Reader) listed(m *nats.Msg, list bcp.SubscriptionsActive) {
	if err := r.queries.share(list.ShareQueries); err != nil {
		r.log.Warn("does not take queries as the definition says", "shared", list.ShareQueries, "error", err)
		return
	}
	r.conn.reply(r.conn.arrived(m), nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	list.Subscriptions = keepUnderstood(list.Subscriptions)
	if r.active != nil && reflect.DeepEqual(*r.active, list) {
		r.counters.duplicates.Add(1)
		return
	}
	handler := r.subscriptions
	if handler == nil || r.event(func() { r.call("subscriptions", func() { handler(slices.Clone(list.Subscriptions)) }) }) {
		r.active, r.tools = &list, list.Tools
	}
}

func (r *Reader) judged(m *nats.Msg, result bcp.ValidationResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if result.Status == bcp.StatusRefused {
		what := "an answer"
		if result.SubscriptionID != "" {
			what = "a push that was held"
		}
		r.conn.tellRefused(what, result.Code, result.Detail)
	}
	if !result.Success && result.QueryID != "" {
		r.answers.rejected(result.QueryID, result.Detail, r.queries.shared())
	}
	handler, sent := r.result, r.conn.arrived(m)
	r.event(func() {
		if r.repeated(sent.reply) {
			r.counters.duplicates.Add(1)
		} else if handler != nil {
			r.call("result", func() { handler(result) })
		}
		r.conn.reply(sent, nil)
	})
}

// repeated reports whether a result was seen before, and remembers it. Each
// sending has its own reply subject, with the same id.
func (r *Reader) repeated(reply string) bool {
	to, err := subjects.Parse(reply)
	if err != nil {
		return false // sent once, without one
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.results.has(to.ID) {
		return true
	}
	r.results.add(to.ID)
	return false
}

// event queues f after all earlier events, or reports false if too many wait.
// Called with mu held.
func (r *Reader) event(f func()) bool {
	ok := r.lanes.add("", func(context.Context, *run) { f() })
	if !ok {
		count(&r.counters.overflow, r.log, "too many results wait")
	}
	return ok
}

// call calls a handler that returns nothing.
func (r *Reader) call(what string, f func()) {
	if err := guarded(what, "", func() error { f(); return nil }); err != nil {
		r.conn.handlerFailed(err)
	}
}

// PushOptions go with one push.
type PushOptions struct {
	// PushID makes a later push a repeat of an earlier one: with the same
	// response it returns the first result and charges nothing more, for 24
	// hours. Empty: a fresh one is made.
	PushID bcp.ClientID
}

// Push sends an unsolicited answer against a subscription of a Controller and
// returns the result: delivered, or held for a person; then the final result
// comes through OnResult. The response encodes as a JSON object. After a lost
// reply, without a gateway, or after the refusal unavailable it retries with
// the same push id, until ctx ends: a retry never charges twice (PROTOCOL
// P2.6). So ctx should have a deadline.
//
// Errors: [ErrNotObject]; [*RefusedError], which charges nothing;
// [*UnansweredError] when ctx ended first; nats.ErrPermissionViolation if there
// is no such subscription.
func (r *Reader) Push(ctx context.Context, controller bcp.AgentName, subscription bcp.SubscriptionID, response any, o PushOptions) (bcp.ValidationResult, error) {
	var result bcp.ValidationResult
	id, err := clientID(o.PushID)
	if err != nil {
		return result, fmt.Errorf("agents: PushOptions.PushID: %w", err)
	}
	body, err := r.encode(bcp.Response{Type: bcp.TypeResponse, SubscriptionID: subscription, Controller: controller, PushID: id}, response)
	if err != nil {
		return result, err
	}
	subject, encoding := subjects.Push(r.conn.options.Name, controller, subscription), r.conn.options.Encoding
	result, err = exchangeBytes(ctx, r.conn, encoding, subject, id, body, func(got bcp.ValidationResult) error {
		switch {
		case got.Type != bcp.TypeValidationResult:
			return ErrMessage
		case !got.Success && got.Status != bcp.StatusHeld:
			return &RefusedError{Code: got.Code, Detail: got.Detail, RetryAfter: time.Duration(got.RetryAfter) * time.Second}
		}
		return nil
	})
	var refused *RefusedError
	if errors.As(err, &refused) {
		r.conn.tellRefused("a push", refused.Code, refused.Detail)
	}
	return result, err
}

// queries is a Reader's subscription to queries: to all, or to those that the server
// gives this connection of several that share them (PROTOCOL P9.5).
type queries struct {
	nc       *nats.Conn
	pattern  string
	messages chan *nats.Msg

	mu      sync.Mutex // guards what follows
	current *nats.Subscription
	over    bool
}

// share switches between the two ways of taking queries if necessary, and returns when
// the server has confirmed it. The old subscription ends before the new one begins, since
// the second of two copies of a query would use up its answer; in between the gateway
// finds no listener. Queries already on their way still come.
func (q *queries) share(shared bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over || shared == (q.current.Queue != "") {
		return nil
	}
	queue := ""
	if shared {
		queue = bcp.QueryQueue
	}
	if err := q.current.Drain(); err != nil {
		return err
	}
	next, err := q.nc.ChanQueueSubscribe(q.pattern, queue, q.messages)
	if err != nil {
		return err
	}
	q.current = next
	return q.nc.FlushTimeout(flushTimeout)
}

func (q *queries) shared() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.current.Queue != ""
}

// end ends the subscription; with the connection it has ended already.
func (q *queries) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	_ = q.current.Unsubscribe()
}
