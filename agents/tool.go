package agents

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/micro"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Call is a call of a tool by a kernel. The kernel has judged it, and its arguments are of
// the tool's input schema.
type Call struct {
	ID      string         `json:"call_id"`
	Attempt int            `json:"attempt"`
	Tool    string         `json:"tool"`
	Args    jsontext.Value `json:"args"`
	// Key is the same for the same call, also when it is sent again after a lost answer:
	// a call with a known key must not be performed again.
	Key string `json:"key"`
	// Kernel is who calls, as the subject says.
	Kernel bcp.AgentName `json:"-"`
}

// NotPerformedError is returned by a handler that did nothing: the kernel may make a
// new plan, also after a write.
type NotPerformedError struct{ Err error }

func (e *NotPerformedError) Error() string { return e.Err.Error() }

// Unwrap returns why nothing was done.
func (e *NotPerformedError) Unwrap() error { return e.Err }

var (
	// ErrToolChanged is returned by a handler, in a [*NotPerformedError], if the tool
	// differs from what its operator reviewed: the run ends with tool_changed, and people
	// are alerted.
	ErrToolChanged = errors.New("tool_changed")
	// ErrNoOutcome is returned by a handler that cannot know whether it did anything: the
	// kernel gets no answer. After the tool's timeout it repeats the call with the same
	// key, or asks a person, depending on the tool's idempotency.
	ErrNoOutcome = errors.New("agents: the outcome of the call is not known")
)

// Tool is a NATS service of tools for kernels, each with its own endpoint. Several
// processes may serve the same tools: each call goes to one of them. A repeated call may
// go to another, which does not know the first one's outcomes: then the system that has
// the effect must deduplicate by key.
type Tool struct {
	conn     *Connection
	outcomes *Outcomes
	slots    chan struct{} // one for each handler that may run

	mu       sync.Mutex // guards what follows
	handlers map[string]func(context.Context, Call) (any, error)
	all      func(context.Context, Call) (any, error) // of all tools
	service  micro.Service
	cancel   context.CancelFunc
	work     sync.WaitGroup
	running  map[string]*performing // by key
}

// performing is a call that is being handled.
type performing struct {
	done   chan struct{}
	answer outcome // valid once done is closed
}

// outcome is the answer of a tool.
type outcome struct {
	ID           string         `json:"call_id"`
	Result       jsontext.Value `json:"result,omitzero"`
	Error        string         `json:"error,omitempty"`
	NotPerformed bool           `json:"not_performed,omitzero"`
	Code         string         `json:"code,omitempty"`
}

// NewTool returns the service of a connection, whose creds must have the role tool.
// outcomes remembers results by the key of the call; nil remembers them only in memory.
// It does not start anything.
func NewTool(c *Connection, outcomes *Outcomes) *Tool {
	if outcomes == nil {
		outcomes = &Outcomes{}
	}
	return &Tool{
		conn: c, outcomes: outcomes, slots: make(chan struct{}, c.options.Handlers),
		handlers: map[string]func(context.Context, Call) (any, error){}, running: map[string]*performing{},
	}
}

// Handle sets the handler for the calls of a tool. Set it before Start. The handler
// returns a value that encodes as the tool's output schema requires, or an error, whose
// text people may read but no planner gets. After an error the call counts as possibly
// performed, unless it is a [*NotPerformedError] or [ErrNoOutcome]. At most
// Options.Handlers calls run at a time, and one for each key. If the process ends inside
// a handler, the call comes again with its key.
func (t *Tool) Handle(tool string, handler func(context.Context, Call) (result any, err error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handlers[tool] = handler
}

// HandleAll sets one handler for the calls of all tools of the service.
// Otherwise it is like [Tool.Handle].
func (t *Tool) HandleAll(handler func(context.Context, Call) (result any, err error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = handler
}

// endpoints returns the subjects to listen to, by the name of the endpoint.
func (t *Tool) endpoints() map[string]endpoint {
	name := t.conn.options.Name
	if t.all != nil {
		return map[string]endpoint{"all": {subject: subjects.CallsOf(name), handler: t.all}}
	}
	endpoints := map[string]endpoint{}
	for tool, handler := range t.handlers {
		endpoints[tool] = endpoint{tool: tool, subject: subjects.CallsTo(name, tool), handler: handler}
	}
	return endpoints
}

// endpoint is the subscription for calls of one tool, or without a name of any.
type endpoint struct {
	tool, subject string
	handler       func(context.Context, Call) (any, error)
}

// Start serves the tools that have a handler, and returns when the server has confirmed
// it. They are served until Stop, or until ctx ends, which also cancels the context of
// the handlers.
func (t *Tool) Start(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.service != nil {
		return ErrStarted
	}
	name := t.conn.options.Name
	work, cancel := context.WithCancel(ctx)
	service, err := micro.AddService(t.conn.nc, micro.Config{
		Name: string(name), Version: "1.0.0",
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			t.conn.log.Warn("a tool service", "subject", e.Subject, "error", e.Description)
		},
	})
	if err != nil {
		cancel()
		return fmt.Errorf("agents: serving tools: %w", err)
	}
	endpoints := t.endpoints()
	for called, e := range endpoints {
		err = errors.Join(err, service.AddEndpoint(called, micro.HandlerFunc(func(r micro.Request) { t.called(work, e, r) }), micro.WithEndpointSubject(e.subject)))
	}
	if err = errors.Join(err, t.conn.flush(ctx)); err == nil {
		for _, e := range endpoints {
			if denied := t.conn.denied("Subscription", e.subject); denied != nil {
				err = fmt.Errorf("are these the creds of the service %s? %w", name, denied)
			}
		}
	}
	if err != nil {
		cancel()
		return errors.Join(fmt.Errorf("agents: serving tools: %w", err), service.Stop())
	}
	t.service, t.cancel = service, cancel
	return nil
}

// Stop takes no more calls and waits for running handlers; it cancels their context
// when ctx ends first. It may be called before Start and twice.
func (t *Tool) Stop(ctx context.Context) error {
	t.mu.Lock()
	service, cancel := t.service, t.cancel
	t.service = nil
	t.mu.Unlock()
	if service == nil {
		return nil
	}
	err := service.Stop()
	stop := context.AfterFunc(ctx, cancel)
	t.work.Wait()
	stop()
	cancel()
	return err
}

// called takes one call. It does not wait for its handler.
func (t *Tool) called(ctx context.Context, e endpoint, r micro.Request) {
	from, err1 := subjects.Parse(r.Subject())
	to, err2 := subjects.Parse(r.Reply())
	var call Call
	if json.Unmarshal(r.Data(), &call) != nil || err1 != nil || err2 != nil || to.Kind != subjects.KindReply || to.Role != bcp.RoleTool ||
		to.Agent != t.conn.options.Name || to.ID != call.ID || call.Tool != from.Tool || e.tool != "" && call.Tool != e.tool || call.Key == "" {
		t.conn.notUnderstood()
		return
	}
	call.Kernel = from.Kernel
	t.mu.Lock()
	defer t.mu.Unlock()
	at, running := t.running[call.Key]
	if !running {
		at = &performing{done: make(chan struct{})}
		t.running[call.Key] = at
	}
	t.work.Go(func() {
		if !running {
			t.perform(ctx, at, e.handler, call)
		}
		<-at.done
		answer := at.answer
		if answer.ID = call.ID; answer.Result == nil && answer.Error == "" {
			return // the tool stops, or its handler has an error: the call comes again
		}
		b, err := json.Marshal(answer)
		if err == nil {
			err = r.Respond(b)
		}
		if err != nil {
			t.conn.handlerFailed(err)
		}
	})
}

// perform does a call, unless it was done.
func (t *Tool) perform(ctx context.Context, at *performing, handler func(context.Context, Call) (any, error), call Call) {
	defer func() {
		t.mu.Lock()
		delete(t.running, call.Key)
		t.mu.Unlock()
		close(at.done)
	}()
	if before, known := t.outcomes.find(call.Key); known {
		at.answer = before
		return
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return
	}
	answer, err := perform(ctx, handler, call)
	if err != nil {
		t.conn.handlerFailed(err)
		return
	}
	if answer.NotPerformed { // it may be tried again
		at.answer = answer
		return
	}
	if err := t.outcomes.remember(call.Key, answer); err != nil {
		t.conn.handlerFailed(fmt.Errorf("agents: remembering the outcome of a call: %w", err))
		return
	}
	at.answer = answer
}

// perform calls a handler. The error says that the handler is at fault, was interrupted,
// or does not know the outcome.
func perform(ctx context.Context, handler func(context.Context, Call) (any, error), call Call) (outcome, error) {
	var result any
	err := guarded("call", call.ID, func() (err error) {
		result, err = handler(ctx, call)
		return err
	})
	if failed, ok := errors.AsType[*HandlerError](err); ok && failed.Panicked {
		return outcome{}, err
	}
	if err == nil {
		b, encoding := json.Marshal(result, json.Deterministic(true))
		if encoding == nil {
			return outcome{Result: b}, nil
		}
		err = fmt.Errorf("agents: encoding a result: %w", encoding)
	}
	if interrupted(ctx, err) || errors.Is(err, ErrNoOutcome) {
		return outcome{}, err
	}
	if not, ok := errors.AsType[*NotPerformedError](err); ok {
		o := outcome{Error: visibleError(not), NotPerformed: true}
		if errors.Is(not, ErrToolChanged) {
			o.Code = ErrToolChanged.Error()
		}
		return o, nil
	}
	return outcome{Error: visibleError(err)}, nil
}

// visibleError returns the text of an error as it is sent, never empty.
func visibleError(err error) string {
	if failed, ok := errors.AsType[*HandlerError](err); ok {
		err = failed.Err
	}
	if text := err.Error(); text != "" {
		return text
	}
	return "failed"
}
