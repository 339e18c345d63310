package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

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

// Tool is a service of tools for kernels. Several processes may serve the same tools:
// each call goes to one of them. A repeated call may go to another, which does not know
// the first one's outcomes: then the system that has the effect must deduplicate by key.
type Tool struct {
	listener
	outcomes *Outcomes
	do       func(context.Context, Call) (any, error)

	mu      sync.Mutex             // guards what follows
	running map[string]*performing // by what is called
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
//
// do does the calls of all tools, such as [Handlers.Do]. It returns a value that encodes
// as the tool's output schema requires, or an error, whose text people may read but no
// planner gets. After an error the call counts as possibly performed, unless it is a
// [*NotPerformedError] or [ErrNoOutcome]. At most Options.Handlers calls run at a time, and
// one for each key. If the process ends inside do, the call comes again with its key.
func NewTool(c *Connection, outcomes *Outcomes, do func(context.Context, Call) (result any, err error)) *Tool {
	if outcomes == nil {
		outcomes = &Outcomes{}
	}
	return &Tool{listener: listener{conn: c, role: bcp.RoleTool, log: c.log.Named("tool")}, outcomes: outcomes, do: do, running: map[string]*performing{}}
}

// toolQueue is the queue of the processes that serve the same tools.
const toolQueue = "q"

// Start serves the tools, and returns when the server has confirmed it. They are served
// until Stop, or until ctx ends, which also cancels the context of the handlers.
func (t *Tool) Start(ctx context.Context) error {
	return t.listen(ctx, toolQueue, []string{subjects.CallsOf(t.conn.options.Name)}, func(*run) {}, t.receive)
}

// receive takes one call. It does not wait for its handler.
func (t *Tool) receive(r *run, m *nats.Msg, to subjects.Subject) {
	from, err := subjects.Parse(m.Subject)
	var call Call
	if err != nil || json.Unmarshal(m.Data, &call) != nil || to.ID != call.ID || call.Tool != from.Tool || call.Key == "" {
		t.malformed()
		return
	}
	call.Kernel = from.Kernel
	newest, what := t.conn.arrived(m), call.digest()
	t.mu.Lock()
	defer t.mu.Unlock()
	at, running := t.running[what]
	if !running {
		at = &performing{done: make(chan struct{})}
	}
	spawned := r.spawn(func(ctx context.Context) {
		if !running {
			t.perform(ctx, r, at, call)
		}
		<-at.done
		answer := at.answer
		if answer.ID = call.ID; answer.Result == nil && answer.Error == "" {
			return // the tool stops, or its handler has an error: the call comes again
		}
		b, err := json.Marshal(answer)
		if err != nil {
			t.conn.handlerFailed(err)
			return
		}
		t.conn.reply(newest, b)
	})
	if spawned {
		t.running[what] = at
	}
}

// digest names a call, whatever its attempt: a kernel's, of a tool, with arguments, under a
// key. A key alone does not: another call under it has no right to the outcome.
func (c *Call) digest() string {
	h := sha256.New()
	for _, part := range []string{string(c.Kernel), c.Tool, c.Key, string(c.Args)} {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// perform does a call, unless it was done.
func (t *Tool) perform(ctx context.Context, r *run, at *performing, call Call) {
	what := call.digest()
	defer func() {
		t.mu.Lock()
		delete(t.running, what)
		t.mu.Unlock()
		close(at.done)
	}()
	if before, known := t.outcomes.find(what); known {
		at.answer = before
		return
	}
	var answer outcome
	var err error
	if !r.handle(ctx, func() { answer, err = perform(ctx, t.do, call) }) {
		return
	}
	if err == nil && !answer.NotPerformed { // otherwise it may be tried again
		if err = t.outcomes.remember(what, answer); err != nil {
			err = fmt.Errorf("agents: remembering the outcome of a call: %w", err)
		}
	}
	if err != nil {
		t.conn.handlerFailed(err)
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
	if failed, ok := errors.AsType[*handlerError](err); ok && failed.panicked {
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
	if failed, ok := errors.AsType[*handlerError](err); ok {
		err = failed.err
	}
	if text := err.Error(); text != "" {
		return text
	}
	return "failed"
}
