package a2aserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

const (
	// maxMessage bounds a request, in bytes.
	maxMessage = 1 << 20
	// maxTasks is how many tasks are remembered. The oldest whose end a client has
	// received are dropped first; beyond it asks are refused.
	maxTasks = 1024
	// maxWait is how long a message waits for its answer if it asks for that; then the
	// client gets a working task.
	maxWait = 50 * time.Second
	// callTimeout bounds one message to the gateway.
	callTimeout = 30 * time.Second
)

// Server is a Controller for clients of A2A. Its methods may be used concurrently.
type Server struct {
	agent *agents.Controller
	tasks *tasks
}

// New returns the server of a Controller's connection. It starts nothing.
func New(c *agents.Connection) *Server {
	s := &Server{agent: agents.NewController(c), tasks: newTasks()}
	s.agent.OnDelivery(func(_ context.Context, d bcp.Delivery) error {
		if d.Outcome == bcp.Held {
			return nil
		}
		s.tasks.end(d)
		return agents.ErrKeep
	})
	return s
}

// Start begins to take deliveries.
func (s *Server) Start(ctx context.Context) error { return s.agent.Start(ctx) }

// Stop ends what Start began. Deliveries that no client received stay with the gateway.
func (s *Server) Stop(ctx context.Context) error { return s.agent.Stop(ctx) }

// Handler serves a card to everybody on this machine, and requests to those who bear the
// token. A request names the server as the card does, or as localhost: under another name
// it is a web page's, which has its own name lead here.
func (s *Server) Handler(card *a2a.AgentCard, token string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	mux.Handle(Path, mcp.Guard(token, http.MaxBytesHandler(a2asrv.NewJSONRPCHandler(requests{s}, a2asrv.WithTransportPanicHandler(panicked)), maxMessage)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !names(card, r.Host) {
			http.Error(w, "this is not the server that you asked for", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// names reports whether a host is a server's: one of its card, or this machine.
func names(card *a2a.AgentCard, host string) bool {
	u, err := url.Parse("//" + host)
	if err != nil || u.Host != host {
		return false
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "localhost" || err == nil && ip.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(card.SupportedInterfaces, func(i *a2a.AgentInterface) bool {
		at, err := url.Parse(i.URL)
		return err == nil && at.Host != "" && strings.EqualFold(at.Host, host)
	})
}

// panicked hides a panic from a client.
func panicked(any) error { return a2a.ErrInternalError }

// requests answers clients. It does not support what needs a connection to a client
// (push notifications), or an extended card for authenticated clients.
type requests struct{ server *Server }

var errVersion = a2a.NewError(a2a.ErrVersionNotSupported, "this is A2A "+string(a2a.Version)+": send the header A2A-Version")

// known fails unless a request is of the protocol's version.
func known(ctx context.Context) error {
	if call, ok := a2asrv.CallContextFrom(ctx); ok {
		if v, _ := call.ServiceParams().Get(a2a.SvcParamVersion); len(v) == 1 && v[0] == string(a2a.Version) {
			return nil
		}
	}
	return errVersion
}

func invalid(format string, args ...any) error {
	return a2a.NewError(a2a.ErrInvalidParams, fmt.Sprintf(format, args...))
}

// SendMessage asks, and waits for the answer unless it should return at once.
func (r requests) SendMessage(ctx context.Context, m *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	id, err := r.ask(ctx, m)
	if err != nil {
		return nil, err
	}
	if m.Config == nil || !m.Config.ReturnImmediately {
		waiting, cancel := context.WithTimeout(ctx, maxWait)
		defer cancel()
		r.server.tasks.wait(waiting, id)
	}
	return r.give(id)
}

// SendStreamingMessage asks, and streams the task until it ends.
func (r requests) SendStreamingMessage(ctx context.Context, m *a2a.SendMessageRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		id, err := r.ask(ctx, m)
		if err != nil {
			yield(nil, err)
			return
		}
		r.follow(ctx, id, yield)
	}
}

// SubscribeToTask streams a working task until it ends.
func (r requests) SubscribeToTask(ctx context.Context, q *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if err := known(ctx); err != nil {
			yield(nil, err)
			return
		}
		t, _, err := r.server.tasks.get(q.ID)
		switch {
		case err != nil:
			yield(nil, err)
		case t.Status.State.Terminal():
			yield(nil, a2a.NewError(a2a.ErrUnsupportedOperation, "the task has ended: get it"))
		default:
			r.follow(ctx, q.ID, yield)
		}
	}
}

// follow yields a task, and its changes.
func (r requests) follow(ctx context.Context, id a2a.TaskID, yield func(a2a.Event, error) bool) {
	t, err := r.give(id)
	if err != nil || t.Status.State.Terminal() {
		yield(t, err)
		return
	}
	if !yield(t, nil) || !r.server.tasks.wait(ctx, id) {
		return
	}
	if t, err = r.give(id); err != nil {
		yield(nil, err)
		return
	}
	for _, artifact := range t.Artifacts {
		if !yield(&a2a.TaskArtifactUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Artifact: artifact, LastChunk: true}, nil) {
			return
		}
	}
	yield(&a2a.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: t.Status}, nil)
}

// GetTask returns a task.
func (r requests) GetTask(ctx context.Context, q *a2a.GetTaskRequest) (*a2a.Task, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	return r.give(q.ID)
}

// give returns a task to a client: its delivery is dealt with.
func (r requests) give(id a2a.TaskID) (*a2a.Task, error) {
	t, delivery, err := r.server.tasks.get(id)
	if err != nil {
		return nil, err
	}
	if delivery != "" && r.server.agent.Acknowledge(delivery) {
		r.server.tasks.given(id)
	}
	return t, nil
}

// ListTasks returns tasks, the last changed first.
func (r requests) ListTasks(ctx context.Context, q *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	page, err := r.server.tasks.list(q)
	if err != nil {
		return nil, err
	}
	for i, t := range page.Tasks {
		if !q.IncludeArtifacts {
			t.Artifacts = nil
		} else if page.Tasks[i], err = r.give(t.ID); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// CancelTask fails: an ask cannot be withdrawn.
func (r requests) CancelTask(ctx context.Context, q *a2a.CancelTaskRequest) (*a2a.Task, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	if _, _, err := r.server.tasks.get(q.ID); err != nil {
		return nil, err
	}
	return nil, a2a.NewError(a2a.ErrTaskNotCancelable, "a query cannot be taken back")
}

// ask makes a query of a message, and returns its task. A refusal is a rejected task.
func (r requests) ask(ctx context.Context, m *a2a.SendMessageRequest) (a2a.TaskID, error) {
	if err := known(ctx); err != nil {
		return "", err
	}
	if m.Message == nil || m.Message.ID == "" {
		return "", invalid("expected a message with its messageId")
	}
	if m.Message.TaskID != "" {
		return "", a2a.NewError(a2a.ErrUnsupportedOperation, "a task is one question: ask another in a task of its own")
	}
	if m.Config != nil && m.Config.PushConfig != nil {
		return "", a2a.ErrPushNotificationNotSupported
	}
	target, spec, justification, err := question(m.Message)
	if err != nil {
		return "", err
	}
	if r.server.tasks.full() {
		return "", a2a.NewError(a2a.ErrServerError, "too many tasks wait for their client: get those that have ended")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request := sha256.Sum256([]byte(m.Message.ID))
	accepted, err := r.server.agent.Ask(ctx, target, spec, agents.AskOptions{Justification: justification, RequestID: bcp.ClientID("a2a-" + hex.EncodeToString(request[:16]))})
	var refused *agents.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Code != bcp.Unavailable:
		return r.server.tasks.reject(m.Message.ContextID, string(refused.Code)+": "+refused.Detail), nil
	case errors.Is(err, nats.ErrPermissionViolation): // the server knows no such channel
		return r.server.tasks.reject(m.Message.ContextID, string(bcp.NoChannel)+": "+bcp.NoChannel.Info().Text), nil
	case err != nil:
		return "", a2a.NewError(a2a.ErrServerError, "the gateway does not answer: send the same message again, it is never charged twice")
	}
	return r.server.tasks.begin(accepted, m.Message.ContextID), nil
}

// question parses a message. Errors tell the client what is wrong with its own words.
func question(m *a2a.Message) (target bcp.AgentName, spec bcp.Spec, justification string, err error) {
	fail := func(format string, args ...any) (bcp.AgentName, bcp.Spec, string, error) {
		return "", bcp.Spec{}, "", invalid(format, args...)
	}
	if len(m.Parts) != 1 || m.Parts[0] == nil || m.Parts[0].Data() == nil {
		return fail("expected one part, of data: target and spec, and a justification for an escalation")
	}
	b, err := json.Marshal(m.Parts[0].Data())
	if err != nil {
		return fail("the data part cannot be read")
	}
	var in struct {
		Target        string         `json:"target"`
		Spec          jsontext.Value `json:"spec"`
		Justification string         `json:"justification"`
	}
	if err = wire.Check(b); err == nil {
		err = json.Unmarshal(b, &in, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return fail("the data part has target, spec and justification, and nothing else")
	}
	if target, err = bcp.ParseAgentName(in.Target); err != nil {
		return fail("target is no agent's name")
	}
	if spec, err = bcp.ParseSpec(in.Spec); err != nil {
		return fail("spec: %s", strings.TrimPrefix(err.Error(), "wire: "))
	}
	return target, spec, in.Justification, nil
}

// GetTaskPushConfig fails: nothing here calls a client.
func (requests) GetTaskPushConfig(context.Context, *a2a.GetTaskPushConfigRequest) (*a2a.PushConfig, error) {
	return nil, a2a.ErrPushNotificationNotSupported
}

// ListTaskPushConfigs fails: nothing here calls a client.
func (requests) ListTaskPushConfigs(context.Context, *a2a.ListTaskPushConfigRequest) (*a2a.ListTaskPushConfigResponse, error) {
	return nil, a2a.ErrPushNotificationNotSupported
}

// CreateTaskPushConfig fails: nothing here calls a client.
func (requests) CreateTaskPushConfig(context.Context, *a2a.PushConfig) (*a2a.PushConfig, error) {
	return nil, a2a.ErrPushNotificationNotSupported
}

// DeleteTaskPushConfig fails: nothing here calls a client.
func (requests) DeleteTaskPushConfig(context.Context, *a2a.DeleteTaskPushConfigRequest) error {
	return a2a.ErrPushNotificationNotSupported
}

// GetExtendedAgentCard fails: there is one card.
func (requests) GetExtendedAgentCard(context.Context, *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return nil, a2a.ErrExtendedCardNotConfigured
}
