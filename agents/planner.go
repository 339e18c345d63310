package agents

import (
	"context"
	"errors"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// PlanRequest is what a kernel asks its planner (docs/kernel.md). Nothing in it is content
// that a tool returned or a Reader said, but the codes of what went wrong with earlier
// plans.
type PlanRequest struct {
	ID   string `json:"plan_id"`
	Task string `json:"task"`
	// Catalogue has the tools that the run may call, Schemas what Readers can be asked,
	// Limits those of the run, and Errors what became of the plans before.
	Catalogue jsontext.Value `json:"catalogue"`
	Schemas   jsontext.Value `json:"schemas"`
	Limits    jsontext.Value `json:"limits"`
	Errors    jsontext.Value `json:"errors"`
	// Result is what the run's value has to look like if its requester is to hear it; it
	// is empty if no Controller hears results.
	Result jsontext.Value `json:"result,omitempty"`
	// SubRuns says that a plan may have steps of the kind subkernel.
	SubRuns bool `json:"sub_runs,omitzero"`
}

// SubPlanRequest is what a kernel asks its sub-planner: what to do with which content,
// which is hostile. What its plan makes of the content stays as tainted as that.
type SubPlanRequest struct {
	ID          string `json:"plan_id"`
	Instruction string `json:"instruction"`
	Content     string `json:"content"`
	// The others are as in [PlanRequest], for the grant of the step.
	Catalogue jsontext.Value `json:"catalogue"`
	Schemas   jsontext.Value `json:"schemas"`
	Limits    jsontext.Value `json:"limits"`
	SubRuns   bool           `json:"sub_runs,omitzero"`
}

// ErrNoPlan is what a handler returns, or wraps, when it has no plan for a task: the
// kernel hears that it refused.
var ErrNoPlan = errors.New("agents: there is no plan for the task")

// Planner answers the plan requests of kernels.
type Planner struct{ planning }

// NewPlanner returns the planner of a connection, whose creds are of the role planner and
// whose encoding is JSON. It starts nothing.
func NewPlanner(c *Connection) *Planner {
	return &Planner{planning{conn: c, role: bcp.RolePlanner, log: c.log.Named("planner"), at: map[string]*sending{}}}
}

// OnPlan sets what makes plans. Set it before Start. The handler returns a value that
// encodes as a plan, or what its model wrote as a text, or [ErrNoPlan]. With another error,
// or a panic, nothing is sent, and the run ends when its planner_timeout is over. Up to
// Options.Handlers calls run at a time.
func (p *Planner) OnPlan(handler func(context.Context, PlanRequest) (plan any, err error)) {
	p.on(func(data []byte) (string, makePlan, error) {
		var r PlanRequest
		err := json.Unmarshal(data, &r)
		return r.ID, func(ctx context.Context) (any, error) { return handler(ctx, r) }, err
	})
}

// SubPlanner plans the sub-runs of kernels.
type SubPlanner struct{ planning }

// NewSubPlanner is [NewPlanner] for creds of the role subplanner.
func NewSubPlanner(c *Connection) *SubPlanner {
	return &SubPlanner{planning{conn: c, role: bcp.RoleSubplanner, log: c.log.Named("subplanner"), at: map[string]*sending{}}}
}

// OnPlan is [Planner.OnPlan] for sub-runs.
func (p *SubPlanner) OnPlan(handler func(context.Context, SubPlanRequest) (plan any, err error)) {
	p.on(func(data []byte) (string, makePlan, error) {
		var r SubPlanRequest
		err := json.Unmarshal(data, &r)
		return r.ID, func(ctx context.Context) (any, error) { return handler(ctx, r) }, err
	})
}

// makePlan makes the plan that one request asks for.
type makePlan func(context.Context) (any, error)

// planning is what planners and sub-planners have in common.
type planning struct {
	conn   *Connection
	role   bcp.Role
	log    hclog.Logger
	runner runner

	mu   sync.Mutex // guards what follows
	read func(data []byte) (id string, plan makePlan, err error)
	at   map[string]*sending // requests that a handler has, with their newest sending
}

func (p *planning) on(read func(data []byte) (string, makePlan, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = read
}

// Start begins to take requests and returns when the server knows. They are taken until
// Stop, or until ctx ends, which also ends the context of the handlers.
func (p *planning) Start(ctx context.Context) error {
	return p.runner.start(func() (*run, error) {
		var started *run
		ready := make(chan struct{})
		started, err := p.conn.listen(ctx, []string{p.requests()}, func(m *nats.Msg) {
			<-ready
			p.receive(started, m)
		})
		close(ready)
		return started, err
	})
}

// requests matches the subjects of all requests to it.
func (p *planning) requests() string {
	if p.role == bcp.RoleSubplanner {
		return subjects.SubplansOf(p.conn.options.Name)
	}
	return subjects.PlansOf(p.conn.options.Name)
}

// Stop takes no more requests, waits for the handlers that are at work, and cancels their
// context when ctx ends first. It may be called before Start and twice.
func (p *planning) Stop(ctx context.Context) error { return p.runner.stop(ctx) }

// receive judges one request. One that comes again, since the gateway started again, is
// answered once its handler has returned.
func (p *planning) receive(r *run, m *nats.Msg) {
	to, err := subjects.Parse(m.Reply)
	if err != nil || to.Kind != subjects.KindReply || to.Role != p.role || to.Agent != p.conn.options.Name {
		p.log.Warn("dropped a message with a foreign reply subject")
		p.conn.options.OnError(ErrForeignReply)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read == nil {
		p.conn.aloud.tell("a plan request came and there is nothing to answer it: set OnPlan before Start", "")
		return
	}
	id, plan, err := p.read(m.Data)
	if err != nil || id != to.ID {
		p.conn.notUnderstood()
		return
	}
	newest := p.conn.arrived(m)
	if at := p.at[id]; at != nil {
		*at = newest
		return
	}
	if r.spawn(func(ctx context.Context) { p.answer(ctx, r, id, plan) }) {
		p.at[id] = &newest
	}
}

func (p *planning) answer(ctx context.Context, r *run, id string, plan makePlan) {
	answer := planAnswer{ID: id}
	var err error
	called := r.handle(ctx, func() {
		err = guarded("plan", id, func() (err error) {
			answer.Plan, err = plan(ctx)
			return err
		})
	})
	if errors.Is(err, ErrNoPlan) {
		answer, err = planAnswer{ID: id, Refused: true}, nil
	}
	var message []byte
	if err == nil {
		message, err = json.Marshal(answer)
	}
	p.mu.Lock()
	to := *p.at[id]
	delete(p.at, id)
	p.mu.Unlock()
	switch {
	case err != nil && !interrupted(ctx, err):
		p.conn.handlerFailed(err)
	case called && err == nil:
		p.conn.reply(to, message)
	}
}

type planAnswer struct {
	ID      string `json:"plan_id"`
	Plan    any    `json:"plan,omitempty"`
	Refused bool   `json:"refused,omitzero"`
}
