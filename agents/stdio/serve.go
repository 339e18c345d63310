package stdio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Limits of a program's output and input.
const (
	// maxAnswer is the maximum size of a program's answer, in bytes.
	maxAnswer = 64 << 10
	// maxRuns is how often a program is run for one query before the query stays
	// unanswered.
	maxRuns = 3
	// DefaultTimeout is how long one run may take unless the caller says otherwise.
	DefaultTimeout = 30 * time.Second
	// runPause is the pause before a program is run again.
	runPause = time.Second

	// maxLine is the maximum length of one line of a served program, in bytes.
	maxLine = 1 << 20
	// maxCalls is how many calls of a program are at work at a time, and MaxHandlers how
	// many of ours it has to answer.
	maxCalls    = 256
	MaxHandlers = 64
	// maxAtWork bounds the calls at work by the bytes of their parameters and of what
	// results are known to have: the next one is read when there is room for it.
	maxAtWork = 64 << 20
	// maxUnread bounds the bytes of lines for whoever does not read them, which nobody waits
	// for either.
	maxUnread = 4 << 20
	// writeTimeout is how long the other side may take to read a line.
	writeTimeout = time.Minute
	// handlerTimeout is the timeout of a served program's answer.
	handlerTimeout = 10 * time.Minute
	// callTimeout is the timeout of a call without one, and maxCallTimeout the maximum
	// that a program may set.
	callTimeout    = time.Minute
	maxCallTimeout = time.Hour
	// finishTimeout is how long a program still gets answers after it has closed its
	// output.
	finishTimeout = 10 * time.Second
)

// Agent is the agent that [Serve] serves.
type Agent struct {
	Connection *agents.Connection
	Name       bcp.AgentName
	Role       bcp.Role // a Reader or a Controller
	Version    string   // of this program
	Logger     hclog.Logger
	// Methods are methods for the program in addition to those of its role. Their results
	// are encoded as JSON; an error is sent as its text, and a [*CallError] also with its
	// code.
	Methods map[string]Method
	// Rooms are how many bytes the results of methods may have, if that is many.
	Rooms map[string]int64
	// MaxLine bounds a line of the program, in bytes; 0 is 1 MiB.
	MaxLine int
}

// Method is a method for the other side.
type Method func(ctx context.Context, params jsontext.Value) (any, error)

// CallError is why a call was refused. Its texts are for the other side.
type CallError struct{ Code, Message string }

func (e *CallError) Error() string { return e.Message }

// ready is the first message to a program.
type ready struct {
	Agent   bcp.AgentName `json:"agent"`
	Role    string        `json:"role"`
	Version string        `json:"version"`
}

// server is an agent for a served program.
type server struct {
	Agent
	peer       *peer
	reader     *agents.Reader
	controller *agents.Controller
	methods    map[string]Method
	calls      sync.WaitGroup
	slots      chan struct{} // one token for each call of the program
	atWork     *semaphore.Weighted
}

// Serve serves a program with one agent until the program closes its output, or ctx
// ends. docs/agents.md has the methods. Earlier requests of the program are still
// answered, for at most ten seconds. The caller closes the streams and the connection.
//
// The error is of a stream, of a line longer than 1 MiB, or why the agent could not
// start; it contains no text of the program.
func Serve(ctx context.Context, a Agent, in io.Reader, out io.Writer) error {
	s := &server{Agent: a, peer: newPeer(out), slots: make(chan struct{}, maxCalls), atWork: semaphore.NewWeighted(maxAtWork)}
	s.peer.notify("ready", ready{a.Name, a.Role.String(), a.Version})
	handling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, err := s.start(handling)
	if err != nil {
		return err
	}
	s.methods = s.roleMethods(a.Role)
	maps.Copy(s.methods, a.Methods)
	calling, end := context.WithCancel(ctx)
	defer end()
	err = s.peer.read(in, cmp.Or(a.MaxLine, maxLine), func(m message) { s.call(calling, m) })
	if ctx.Err() != nil {
		err = nil
	}
	timer := time.AfterFunc(finishTimeout, end)
	s.calls.Wait()
	timer.Stop()
	cancel(errors.New("the program has closed its output"))
	_ = stop(context.WithoutCancel(ctx)) // unhandled messages stay with the gateway
	return err
}

// start starts the agent's client.
func (s *server) start(ctx context.Context) (stop func(context.Context) error, err error) {
	if s.Role == bcp.RoleReader {
		s.reader = agents.NewReader(s.Connection)
		s.reader.OnQuery(func(ctx context.Context, q agents.Query) (any, error) {
			return Again(ctx, q, s.Logger, runPause, s.query)
		})
		s.reader.OnPrompt(s.prompt)
		s.reader.OnResult(func(r bcp.ValidationResult) { s.peer.notify("result", r) })
		s.reader.OnSubscriptions(func(list []bcp.ActiveSubscription) {
			s.peer.notify("subscriptions", map[string]any{"subscriptions": list})
		})
		return s.reader.Stop, s.reader.Start(ctx)
	}
	s.controller = agents.NewController(s.Connection)
	s.controller.OnDelivery(s.delivery)
	s.controller.OnPrompt(s.prompt)
	return s.controller.Stop, s.controller.Start(ctx)
}

// query has the program answer a query.
func (s *server) query(ctx context.Context, q agents.Query) (any, error) {
	result, err := s.peer.ask(ctx, "query", q)
	var failed *rpcError
	switch {
	case errors.As(err, &failed):
		return nil, &RunError{Reason: "its handler failed"}
	case err != nil:
		return nil, err
	case len(result) > maxAnswer:
		return nil, &RunError{Reason: fmt.Sprintf("its answer is longer than %d KiB", maxAnswer>>10), Again: true}
	}
	return ParseAnswer(result, q.Spec)
}

// delivery passes a delivery to the program. Without a method for it, it stays with
// the gateway.
func (s *server) delivery(ctx context.Context, d bcp.Delivery) error {
	_, err := s.peer.ask(ctx, "delivery", d)
	var failed *rpcError
	if errors.As(err, &failed) && failed.Code == codeMethod {
		return agents.ErrKeep
	}
	return err
}

// prompt has the program handle a prompt.
func (s *server) prompt(ctx context.Context, p bcp.Prompt) {
	if _, err := s.peer.ask(ctx, "prompt", p); err != nil && ctx.Err() == nil {
		s.Logger.Warn("the program did not handle a prompt", "prompt", p.PromptID)
	}
}

// call answers a request of the program.
func (s *server) call(ctx context.Context, m message) {
	method, there := s.methods[m.Method]
	switch {
	case len(m.ID) == 0: // a notification has no result
		return
	case !there:
		_ = s.peer.send(message{ID: m.ID, Error: &rpcError{Code: codeMethod, Message: "a " + s.Role.String() + " has no such method"}}, nil)
		return
	}
	select {
	case s.slots <- struct{}{}:
	default:
		_ = s.peer.send(message{ID: m.ID, Error: &rpcError{Code: codeNoAnswer, Message: fmt.Sprintf("more than %d calls at a time", maxCalls)}}, nil)
		return
	}
	room := int64(len(m.Params)) + s.Rooms[m.Method]
	if s.atWork.Acquire(ctx, room) != nil { // nobody waits for the result any more
		<-s.slots
		return
	}
	s.calls.Go(func() {
		defer func() { s.atWork.Release(room); <-s.slots }()
		s.peer.answer(m, func() (any, error) { return method(ctx, m.Params) })
	})
}

// roleMethods are the methods of a role.
func (s *server) roleMethods(role bcp.Role) map[string]Method {
	if role == bcp.RoleReader {
		return map[string]Method{"push": method(s.push)}
	}
	return map[string]Method{
		"ask":          asking(s.controller.Ask),
		"ask_and_wait": asking(s.controller.AskAndWait),
		"channels": method(func(ctx context.Context, _ struct{}) (any, error) {
			list, err := s.controller.Channels(ctx)
			return map[string]any{"channels": list}, err
		}),
		"open":    method(func(ctx context.Context, _ struct{}) (any, error) { return struct{}{}, s.controller.OpenSession(ctx) }),
		"close":   method(func(ctx context.Context, _ struct{}) (any, error) { return struct{}{}, s.controller.CloseSession(ctx) }),
		"propose": method(s.propose),
		"taint": method(func(ctx context.Context, in bcp.TaintReport) (any, error) {
			return struct{}{}, s.controller.ReportTaint(ctx, in.Source)
		}),
		"run": method(s.run),
	}
}

// method is a method with parameters of its own besides those of every method, whose timeout holds for it.
func method[P any](do func(ctx context.Context, in P) (any, error)) Method {
	return func(ctx context.Context, params jsontext.Value) (any, error) {
		var in struct {
			Timeout int `json:"timeout_seconds"`
			Own     P   `json:",embed"`
		}
		if err := readParams(params, &in); err != nil {
			return nil, err
		}
		timeout := callTimeout
		if in.Timeout > 0 {
			timeout = time.Duration(min(in.Timeout, int(maxCallTimeout/time.Second))) * time.Second
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return do(ctx, in.Own)
	}
}

// asking is a method that asks a Reader.
func asking[R any](ask func(context.Context, bcp.AgentName, bcp.Spec, agents.AskOptions) (R, error)) Method {
	type params struct {
		Target        string         `json:"target"`
		Spec          jsontext.Value `json:"spec"`
		Justification string         `json:"justification,omitzero"`
		RequestID     string         `json:"request_id,omitzero"`
		ReturnHeld    bool           `json:"return_held,omitzero"`
	}
	return method(func(ctx context.Context, in params) (any, error) {
		target, err := bcp.ParseAgentName(in.Target)
		if err != nil {
			return nil, invalidParam("target", err)
		}
		spec, err := bcp.ParseSpec(in.Spec)
		if err != nil {
			return nil, invalidParam("spec", err)
		}
		return ask(ctx, target, spec, agents.AskOptions{Justification: in.Justification, RequestID: bcp.ClientID(in.RequestID), ReturnHeld: in.ReturnHeld})
	})
}

type proposeParams struct {
	Reader       string         `json:"reader"`
	Subscription jsontext.Value `json:"subscription"`
}

func (s *server) propose(ctx context.Context, in proposeParams) (any, error) {
	reader, err := bcp.ParseAgentName(in.Reader)
	if err != nil {
		return nil, invalidParam("reader", err)
	}
	subscription, err := bcp.ParseProposedSubscription(in.Subscription)
	if err != nil {
		return nil, invalidParam("subscription", err)
	}
	item, err := s.controller.Propose(ctx, bcp.Proposal{Reader: reader, Subscription: subscription})
	return map[string]bcp.ItemID{"item_id": item}, err
}

type runParams struct {
	agents.RunTask `json:",inline"`
	Kernel         bcp.AgentName `json:"kernel"`
	Grant          string        `json:"grant"`
}

// run does a task with a kernel, and returns how it ended.
func (s *server) run(ctx context.Context, in runParams) (any, error) {
	if _, err := bcp.ParseAgentName(string(in.Kernel)); err != nil {
		return nil, invalidParam("kernel", err)
	}
	run, err := agents.NewRequester(s.Connection).Run(ctx, in.Kernel, in.Grant, in.RunTask)
	if err != nil {
		return nil, err
	}
	return run.Wait(ctx)
}

type pushParams struct {
	Controller     bcp.AgentName      `json:"controller"`
	SubscriptionID bcp.SubscriptionID `json:"subscription_id"`
	Response       jsontext.Value     `json:"response"`
	PushID         bcp.ClientID       `json:"push_id,omitzero"`
}

func (s *server) push(ctx context.Context, in pushParams) (any, error) {
	if in.Response.Kind() != '{' {
		return nil, invalidParam("response", errors.New("expected an object"))
	}
	return s.reader.Push(ctx, in.Controller, in.SubscriptionID, in.Response, agents.PushOptions{PushID: in.PushID})
}

// readParams decodes the parameters of a call; missing ones are an empty object.
func readParams(params jsontext.Value, into any) error {
	if len(params) == 0 {
		params = jsontext.Value("{}")
	}
	if err := json.Unmarshal(params, into, json.RejectUnknownMembers(true)); err != nil {
		return &rpcError{Code: codeParams, Message: "the parameters are not those of the method: docs/agents.md has them"}
	}
	return nil
}

func invalidParam(name string, err error) error {
	return &rpcError{Code: codeParams, Message: name + ": " + err.Error()}
}

// toRPCError is an error as a program gets it.
func toRPCError(err error) *rpcError {
	var own *rpcError
	var refused *agents.RefusedError
	var run *agents.RunRefusedError
	var call *CallError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &call):
		return &rpcError{Code: codeRefused, Message: call.Message, Data: &rpcCause{Code: call.Code}}
	case errors.As(err, &refused):
		return &rpcError{Code: codeRefused, Message: refused.Detail, Data: &rpcCause{Code: string(refused.Code), RetryAfter: int64(refused.RetryAfter / time.Second)}}
	case errors.As(err, &run):
		return &rpcError{Code: codeRefused, Message: run.Error(), Data: &rpcCause{Code: run.Code}}
	case errors.Is(err, nats.ErrPermissionViolation):
		return &rpcError{Code: codeRefused, Message: "the server refuses it: this agent has no such channel or subscription", Data: &rpcCause{Code: string(bcp.NoChannel)}}
	}
	return &rpcError{Code: codeNoAnswer, Message: err.Error()}
}
