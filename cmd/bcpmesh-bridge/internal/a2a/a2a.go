// Package a2a makes a Reader of an agent that uses the Agent2Agent protocol, version 1,
// over JSON-RPC. The agent is not trusted: the gateway validates and charges its answers
// like those of any Reader.
//
// Each query is one message in a new context, so content read for one
// Controller is not present when the agent answers another. Requests go to one
// origin and follow no redirects. The agent's card is pinned by hash. This
// package returns and logs no text of the card or of the agent's errors.
package a2a

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// Agent answers queries by asking an agent. Its [Agent.Answer] is a handler for
// [agents.Reader.OnQuery], and may be called concurrently.
type Agent struct {
	origin  *url.URL
	pin     [sha256.Size]byte
	token   string
	answers map[string]*constraint.Extraction // nil: the agent answers with an object
	timeout time.Duration
	log     hclog.Logger
	client  *http.Client
	pause   time.Duration // between two tries of a query

	mu      sync.Mutex // guards what follows
	looked  time.Time  // when the card was last seen to be the pinned one
	current endpoint
}

// Config says which agent to ask.
type Config struct {
	// URL is the agent's origin, https or of this machine: http://127.0.0.1:8000. Its card
	// is at /.well-known/agent-card.json below it.
	URL string
	// Card is the SHA-256 of the card, as [Look] returns it.
	Card [sha256.Size]byte
	// Token is sent as a bearer token, if there is one.
	Token string
	// Answers has, by the name of a field or question, an expression that makes the
	// answer from the agent's reply: see [constraint.CompileExtraction], whose result has
	// text, all texts of the agent, and data, its first data part or an empty object.
	// With any, an agent need not know specs; a question with a name that has no
	// expression is not answered.
	Answers map[string]string
	// Timeout is how long an answer may take. Zero is [stdio.DefaultTimeout].
	Timeout time.Duration
	// Logger gets the reasons for missing answers. It never gets any text of the agent.
	Logger hclog.Logger
}

// New returns an Agent. It sends nothing yet. The error is [ErrURL], or says what is
// wrong with an expression.
func New(c Config) (*Agent, error) {
	origin, err := parseAgentURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = stdio.DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	a := &Agent{origin: origin, pin: c.Card, token: c.Token, timeout: c.Timeout, log: c.Logger, client: newClient(), pause: defaultPause}
	for name, expression := range c.Answers {
		extraction, err := constraint.CompileExtraction(expression)
		if err != nil {
			return nil, fmt.Errorf("a2a: the answer %s: %w", name, err)
		}
		if a.answers == nil {
			a.answers = map[string]*constraint.Extraction{}
		}
		a.answers[name] = extraction
	}
	return a, nil
}

// Check checks that the agent exists and has the pinned card. Errors are [ErrCard] and
// [*stdio.RunError].
func (a *Agent) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	_, err := a.endpoint(ctx)
	return err
}

// Answer asks the agent. If it fails, or its answer cannot be read, it is asked again
// with the reason in a new context, up to three times in all. The error is [ErrCard], a
// [*stdio.RunError], or the reason that ctx has ended: then the query stays open until it
// comes again or expires.
func (a *Agent) Answer(ctx context.Context, q agents.Query) (any, error) {
	return stdio.Again(ctx, q, a.log, a.pause, a.ask)
}

// ask asks the agent once.
func (a *Agent) ask(ctx context.Context, q agents.Query) (any, error) {
	asking, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	answer, err := a.askWithin(asking, q)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case asking.Err() != nil:
		return nil, &stdio.RunError{Reason: "it took longer than " + a.timeout.String()}
	}
	return answer, err
}

func (a *Agent) askWithin(ctx context.Context, q agents.Query) (any, error) {
	e, err := a.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	request, err := requestFor(q)
	if err != nil {
		return nil, err
	}
	request.Tenant = e.tenant
	result, err := e.transport.SendMessage(ctx, a.params(), request)
	if err != nil {
		return nil, failure(err)
	}
	var parts []*protocol.Part
	switch r := result.(type) {
	case *protocol.Message:
		parts = r.Parts
	case *protocol.Task:
		if parts, err = a.await(ctx, e, r); err != nil {
			return nil, err
		}
	}
	if a.answers != nil {
		return a.buildAnswer(parts, q)
	}
	return answerIn(parts, q)
}

// buildAnswer makes an answer from the agent's reply, in any form.
func (a *Agent) buildAnswer(parts []*protocol.Part, q agents.Query) (any, error) {
	texts, data := []string{}, map[string]any{}
	for _, p := range parts {
		if p == nil {
			continue
		}
		if object, ok := p.Data().(map[string]any); ok && len(data) == 0 {
			data = object
		}
		if text := p.Text(); text != "" {
			texts = append(texts, text)
		}
	}
	var arguments any = map[string]any{}
	if q.Spec.Arguments != nil && json.Unmarshal(q.Spec.Arguments, &arguments) != nil {
		return nil, &stdio.RunError{Reason: "the arguments of the query cannot be read"}
	}
	answer := map[string]any{}
	for _, name := range stdio.AnswerNames(q.Spec) {
		extraction := a.answers[name]
		if extraction == nil {
			return agents.NotEnoughInformation{}, nil
		}
		value, err := extraction.Value(map[string]any{"text": strings.Join(texts, "\n"), "data": data}, arguments)
		if err != nil {
			return nil, &stdio.RunError{Reason: "what it said gives no answer " + name, Again: true}
		}
		answer[name] = value
	}
	b, err := json.Marshal(answer, json.Deterministic(true))
	if err != nil {
		return nil, &stdio.RunError{Reason: "its answer is not a JSON object"}
	}
	return stdio.ParseAnswer(b, q.Spec)
}

// await waits for the end of a task and returns its result.
func (a *Agent) await(ctx context.Context, e endpoint, task *protocol.Task) ([]*protocol.Part, error) {
	id := task.ID
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		switch task.Status.State {
		case protocol.TaskStateCompleted:
			return resultParts(task), nil
		case protocol.TaskStateSubmitted, protocol.TaskStateWorking:
		case protocol.TaskStateInputRequired, protocol.TaskStateAuthRequired:
			// Nobody answers the questions of a Reader: they would be a way back.
			_, _ = e.transport.CancelTask(ctx, a.params(), &protocol.CancelTaskRequest{Tenant: e.tenant, ID: id})
			return nil, &stdio.RunError{Reason: "it asks back"}
		default:
			return nil, &stdio.RunError{Reason: "its task failed", Again: true}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
		var err error
		if task, err = e.transport.GetTask(ctx, a.params(), &protocol.GetTaskRequest{Tenant: e.tenant, ID: id}); err != nil {
			return nil, failure(err)
		}
		if task.ID != id {
			return nil, &stdio.RunError{Reason: "it answers with another task"}
		}
	}
}

func (a *Agent) params() a2aclient.ServiceParams {
	p := a2aclient.ServiceParams{protocol.SvcParamVersion: {string(protocol.Version)}}
	if a.token != "" {
		p["Authorization"] = []string{"Bearer " + a.token}
	}
	return p
}

func requestFor(q agents.Query) (*protocol.SendMessageRequest, error) {
	// Written here, since the library's encoder does not know how a spec is spelled.
	b, err := mcp.QueryJSON(q)
	if err != nil {
		return nil, err
	}
	m := protocol.NewMessage(protocol.MessageRoleUser, protocol.NewTextPart(mcp.Instruction), protocol.NewDataPart(jsontext.Value(b)))
	return &protocol.SendMessageRequest{Message: m, Config: &protocol.SendMessageConfig{AcceptedOutputModes: []string{"application/json", "text/plain"}}}, nil
}

// resultParts returns the result of a task: its artifacts, or its final message.
func resultParts(task *protocol.Task) []*protocol.Part {
	var parts []*protocol.Part
	for _, artifact := range task.Artifacts {
		if artifact != nil {
			parts = append(parts, artifact.Parts...)
		}
	}
	if len(parts) == 0 && task.Status.Message != nil {
		parts = task.Status.Message.Parts
	}
	return parts
}

// answerIn finds the answer: the first data part that is an object, otherwise the object
// in the first text that has one.
func answerIn(parts []*protocol.Part, q agents.Query) (any, error) {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p *protocol.Part) bool { return p == nil })
	for _, p := range parts {
		if object, ok := p.Data().(map[string]any); ok {
			if rounded(object) {
				return nil, &stdio.RunError{Reason: "its answer has a number beyond 2^53, which this protocol rounds", Again: true}
			}
			b, err := json.Marshal(object)
			if err != nil {
				return nil, &stdio.RunError{Reason: "its answer is not a JSON object"}
			}
			return stdio.ParseAnswer(b, q.Spec)
		}
	}
	for _, p := range parts {
		if text := p.Text(); strings.Contains(text, "{") {
			return stdio.ParseText(text, q.Spec)
		}
	}
	return nil, &stdio.RunError{Reason: "its answer has no JSON object", Again: true}
}

// rounded reports whether a value has a number that may be another than was written: the library decodes them to float64.
func rounded(v any) bool {
	switch v := v.(type) {
	case float64:
		return math.Abs(v) >= 1<<53
	case []any:
		return slices.ContainsFunc(v, rounded)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), rounded)
	}
	return false
}

// failure says in our words why there is no answer: the library's errors quote the agent.
func failure(err error) error {
	reason, again := "it cannot be reached, or its answer cannot be read", true
	switch {
	case errors.Is(err, errRedirect):
		reason, again = "it redirects: requests go to its own origin alone", false
	case errors.As(err, new(*http.MaxBytesError)):
		reason, again = "its answer is too long", false
	case errors.Is(err, protocol.ErrUnauthenticated), errors.Is(err, protocol.ErrUnauthorized):
		reason, again = "it wants other credentials", false
	case errors.Is(err, protocol.ErrVersionNotSupported):
		reason, again = "it does not speak version 1.0 of the protocol", false
	}
	return &stdio.RunError{Reason: reason, Again: again}
}
