package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// reader is the side of a Reader. A query waits here, with its handler, until the
// host answers it; the result of the answer is that of the host's call.
type reader struct {
	server  *Server
	log     hclog.Logger
	agent   *agents.Reader
	pending keyedQueue[bcp.QueryID, *pendingQuery]
	prompts prompts
	listed  chan struct{} // closed when the first list of subscriptions is here
	once    sync.Once

	mu            sync.Mutex // guards what follows
	subscriptions []bcp.ActiveSubscription
	results       map[bcp.QueryID]chan bcp.ValidationResult // of answers whose call waits
}

// pendingQuery is a query and the way to its handler.
type pendingQuery struct {
	agents.Query
	validator *bcp.Validator // nil if only the gateway can judge
	answer    chan any       // has room for one
}

func newReader(s *Server, conn *agents.Connection) *reader {
	r := &reader{server: s, log: s.log, agent: agents.NewReader(conn), listed: make(chan struct{}),
		results: map[bcp.QueryID]chan bcp.ValidationResult{}}
	r.agent.OnQuery(r.queried)
	r.agent.OnSubscriptions(r.subscribed)
	r.agent.OnResult(r.judged)
	r.agent.OnPrompt(r.prompts.handle)
	s.prompt("reader", "How to be a Reader", "How to answer queries and publish against subscriptions.", readerPrompt)
	return r
}

func (r *reader) start(ctx context.Context, _ func(func(context.Context))) error {
	if err := r.agent.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errNotListed)
	defer cancel()
	select {
	case <-r.listed:
		return nil
	case <-ctx.Done():
		stopNow(ctx, r)
		return context.Cause(ctx)
	}
}

var errNotListed = errors.New("the gateway does not say what the reader's subscriptions are")

func (r *reader) stop(ctx context.Context) error { return r.agent.Stop(ctx) }

// queried keeps a query until the host answers it.
func (r *reader) queried(ctx context.Context, q agents.Query) (any, error) {
	p := &pendingQuery{Query: q, answer: make(chan any, 1)}
	p.validator, _ = validator(q.Spec, bcp.Settings{Sealed: true}) // or only the gateway can judge
	r.pending.put(q.QueryID, p)
	select {
	case answer := <-p.answer:
		return answer, nil
	case <-ctx.Done():
		r.pending.take(q.QueryID)
		return nil, context.Cause(ctx)
	}
}

// subscribed has the tools follow the definitions.
func (r *reader) subscribed(list []bcp.ActiveSubscription) {
	r.mu.Lock()
	r.subscriptions = list
	r.mu.Unlock()
	tools := map[*sdk.Tool]sdk.ToolHandler{
		queriesTool(): handler(r.log, r.queries),
		respondTool(): handler(r.log, r.respond),
	}
	if len(list) > 0 && slices.Contains(r.agent.Tools(), bcp.ToolPublish) { // somebody has subscribed
		tools[publishTool(list)] = handler(r.log, r.publish)
	}
	r.server.announce(tools)
	r.once.Do(func() { close(r.listed) })
}

// judged passes a result to the call that waits for it.
func (r *reader) judged(result bcp.ValidationResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waits := r.results[result.QueryID]; waits != nil && result.QueryID != "" {
		select {
		case waits <- result:
		default:
		}
	}
}

// queryList is the result of BCPQueries.
type queryList struct {
	Notice  string        `json:"notice"`
	Queries []listedQuery `json:"queries"`
	More    int           `json:"more,omitzero"`
	Prompts []bcp.Prompt  `json:"prompts,omitempty"`
}

// listedQuery is a query as its host sees it.
type listedQuery struct {
	QueryID    bcp.QueryID   `json:"query_id"`
	Controller bcp.AgentName `json:"controller"`
	bcp.Spec   `json:",inline"`
	// Attempt is 0 at first and increases with each refused answer; LastDetail
	// has the reason.
	Attempt    int    `json:"attempt"`
	LastDetail string `json:"last_detail,omitempty"`
	// Answer is the JSON Schema of the arguments of BCPRespond.
	Answer any `json:"answer_schema"`
}

func (r *reader) queries(ctx context.Context, arguments []byte) (any, *fault) {
	var in struct {
		WaitSeconds int `json:"wait_seconds"`
	}
	if err := read(arguments, &in); err != nil {
		return nil, newFault(bcp.Malformed).saying("%s", err).next("BCPQueries takes wait_seconds, or nothing")
	}
	wait, f := checkWait(in.WaitSeconds)
	if f != nil {
		return nil, f
	}
	list := r.waiting(ctx, wait, r.prompts.coming())
	list.Prompts = r.prompts.takeAll()
	return list, nil
}

func (r *reader) waiting(ctx context.Context, wait time.Duration, woken <-chan struct{}) queryList {
	found, more := r.pending.wait(ctx, wait, woken, maxListed, func(*pendingQuery) bool { return true })
	list := queryList{Notice: answerNotice, Queries: make([]listedQuery, 0, len(found)), More: more}
	for _, p := range found {
		list.Queries = append(list.Queries, listedQuery{p.QueryID, p.Controller, p.Spec, p.Attempt, p.LastDetail, answerSchema(p.QueryID, p.Spec)})
	}
	return list
}

// judgement is the result of BCPRespond and BCPPublish.
type judgement struct {
	Status string `json:"status"` // delivered or held
	Detail string `json:"detail,omitempty"`
}

func (r *reader) respond(ctx context.Context, arguments []byte) (any, *fault) {
	id, answer, f := parseAnswer(arguments)
	if f != nil {
		return nil, f
	}
	found, _ := r.pending.wait(ctx, arrivalTime, nil, 1, func(p *pendingQuery) bool { return p.QueryID == id })
	if len(found) == 0 {
		return nil, newFault(bcp.QueryUnknown).next("BCPQueries lists the queries that wait for an answer")
	}
	p := found[0]
	if f := p.check(answer); f != nil {
		return nil, f
	}
	result := make(chan bcp.ValidationResult, 1)
	r.mu.Lock()
	if r.results[id] != nil {
		r.mu.Unlock()
		return nil, newFault(bcp.AlreadyAnswered).saying("an answer to this query is being judged").next("wait for the call before")
	}
	r.results[id] = result
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.results, id)
		r.mu.Unlock()
	}()
	if _, waits := r.pending.take(id); !waits {
		return nil, newFault(bcp.AlreadyAnswered).next("BCPQueries lists the queries that wait for an answer")
	}
	p.answer <- answer.value()
	select {
	case got := <-result:
		return judged(got)
	case <-time.After(resultTimeout):
		return nil, newFault(bcp.Unavailable).saying("the answer was sent, and the gateway has not said what became of it").
			next("list BCPQueries: if the query waits again, answer it again")
	case <-ctx.Done():
		return nil, newFault(bcp.Cancelled).saying("the call was cancelled after the answer was sent")
	}
}

// judged converts the gateway's result to that of a call.
func judged(got bcp.ValidationResult) (any, *fault) {
	if got.Success || got.Status == bcp.StatusHeld {
		return judgement{got.Status, got.Detail}, nil
	}
	f := newFault(got.Code)
	f.Detail = got.Detail
	if got.QueryID != "" && f.Code == bcp.ValidationFailed {
		f.Next = "the query comes again unless its retries are used up: list BCPQueries and correct the answer"
	}
	return nil, f
}

// check checks an answer as the gateway will, as far as possible here: a refused
// answer would use up a retry.
func (p *pendingQuery) check(a answer) *fault {
	want := map[bcp.Category]string{1: "fields", 2: "answers", 3: "summary"}[p.Category]
	switch {
	case a.unknown && p.AllowNotEnoughInformation != nil && !*p.AllowNotEnoughInformation:
		return newFault(bcp.ValidationFailed).saying("this query does not take not_enough_information").next("answer with %s", want)
	case a.unknown:
		return nil
	case a.member != want:
		return newFault(bcp.ValidationFailed).saying("a query of category %d is answered with %s, not %s", p.Category, want, a.member).
			next("send %s as the query's answer_schema says", want)
	}
	return checkAnswer(p.validator, a.json())
}

// checkAnswer judges an answer on its own; without a validator nothing can be
// said.
func checkAnswer(v *bcp.Validator, raw []byte) *fault {
	if v == nil {
		return nil
	}
	if got := v.Validate(raw, bcp.JSON); got.Outcome == bcp.Reject {
		return newFault(bcp.ValidationFailed).saying("%s", bcp.ReaderDetail(bcp.ValidationFailed, got.Reason, got.Field, "", "")).
			next("correct the answer; nothing was sent")
	}
	return nil
}

func (r *reader) publish(ctx context.Context, arguments []byte) (any, *fault) {
	p, f := parsePublish(arguments)
	if f != nil {
		return nil, f
	}
	r.mu.Lock()
	list := r.subscriptions
	r.mu.Unlock()
	at := slices.IndexFunc(list, func(s bcp.ActiveSubscription) bool {
		return s.SubscriptionID == p.SubscriptionID && s.Controller == p.Controller
	})
	if at < 0 {
		var there []string
		for _, s := range list {
			there = append(there, fmt.Sprintf("%s of %s", s.SubscriptionID, s.Controller))
		}
		return nil, newFault(bcp.SubscriptionNotFound).saying("%s", bcp.ReaderDetail(bcp.SubscriptionNotFound, 0, "", p.SubscriptionID, p.Controller)).
			next("publish against one of: %s", strings.Join(there, ", "))
	}
	v, _ := validator(list[at].Spec, bcp.Settings{Subscriptions: 1}) // or only the gateway can judge
	if f := checkAnswer(v, p.Response); f != nil {
		return nil, f
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	result, err := r.agent.Push(ctx, p.Controller, p.SubscriptionID, p.Response, agents.PushOptions{PushID: p.PushID})
	if err != nil {
		f := refused(err, bcp.SubscriptionNotFound)
		if f.Code == bcp.Unavailable {
			f.next("try again with push_id %q and everything else the same: it is never charged twice", p.PushID)
		}
		return nil, f
	}
	return judged(result)
}
