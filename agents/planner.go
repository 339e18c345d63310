package agents

import (
	"context"
	"errors"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// PlanRequest is what a kernel asks its planner (docs/kernel-reference.md). It contains no content
// from tools or Readers, except the error codes of earlier plans.
type PlanRequest struct {
	ID       string `json:"plan_id"`
	Task     string `json:"task"`
	Possible `json:",inline"`
	// Errors are those of the plans before, and FailedPlan is the planner's own plan that the
	// newest is about, or a text if it was not JSON; it is empty if there was none.
	Errors     jsontext.Value `json:"errors"`
	FailedPlan jsontext.Value `json:"failed_plan,omitempty"`
	// SubRuns says that a plan may have steps of kind subkernel.
	SubRuns bool `json:"sub_runs,omitzero"`
}

// Possible is what plans can use.
type Possible struct {
	// Catalogue has the tools that the run may call, Schemas what Readers can be asked, and
	// Limits those of the run.
	Catalogue jsontext.Value `json:"catalogue"`
	Schemas   jsontext.Value `json:"schemas"`
	Limits    jsontext.Value `json:"limits"`
	// Result is the required form of the run's value if its requester gets it, empty if no
	// Controller gets results.
	Result jsontext.Value `json:"result,omitempty"`
	// Requester is who asked, with the address and the date, and Rules why calls are let
	// through, asked about or refused, in the operator's words.
	Requester jsontext.Value `json:"requester,omitempty"`
	Rules     jsontext.Value `json:"rules,omitempty"`
	// ControlBits is how many bits content may steer plans by, with steps of the kinds when
	// and each; 0 is that there may be none.
	ControlBits int `json:"control_budget_bits,omitzero"`
	// MaxQuestions is how often plans may ask the requester, with steps of the kind
	// ask_requester; 0 is never.
	MaxQuestions int `json:"max_questions,omitzero"`
}

// SubPlanRequest is what a kernel asks its sub-planner: the instruction and the
// content, which is hostile. Whatever its plan derives from the content is tainted
// like the content.
type SubPlanRequest struct {
	ID          string           `json:"plan_id"`
	Instruction string           `json:"instruction"`
	Content     string           `json:"content"`
	Possible    `json:",inline"` // for the grant of the step
	SubRuns     bool             `json:"sub_runs,omitzero"`
}

// ErrNoPlan is returned, or wrapped, by a handler that has no plan for a task: the
// kernel is told that it refused.
var ErrNoPlan = errors.New("agents: there is no plan for the task")

// ErrAway is returned, or wrapped, by a handler of a [Planner] whose model cannot be
// reached for now: the kernel asks again after a pause, as long as the run has time, and
// counts no plan. For a [SubPlanner] it is ErrNoPlan.
var ErrAway = errors.New("agents: the planner's model cannot be reached for now")

// Planner answers the plan requests of kernels.
type Planner struct{ planning[PlanRequest] }

// NewPlanner returns the planner of a connection. Its creds must have the role planner,
// and its encoding must be JSON. It does not start anything.
func NewPlanner(c *Connection) *Planner {
	return &Planner{planning[PlanRequest]{
		listener: listener{conn: c, role: bcp.RolePlanner, log: c.log.Named("planner")}, requests: subjects.PlansOf(c.options.Name), at: map[string]*sending{},
	}}
}

// SubPlanner plans the sub-runs of kernels.
type SubPlanner struct{ planning[SubPlanRequest] }

// NewSubPlanner is [NewPlanner] for creds of the role subplanner.
func NewSubPlanner(c *Connection) *SubPlanner {
	return &SubPlanner{planning[SubPlanRequest]{
		listener: listener{conn: c, role: bcp.RoleSubplanner, log: c.log.Named("subplanner")}, requests: subjects.SubplansOf(c.options.Name), at: map[string]*sending{},
	}}
}

func (r PlanRequest) id() string    { return r.ID }
func (r SubPlanRequest) id() string { return r.ID }

// planning is the common part of planners and sub-planners.
type planning[R interface{ id() string }] struct {
	listener
	requests string // the pattern of all requests to this planner

	mu      sync.Mutex // guards what follows
	handler func(context.Context, R) (any, error)
	at      map[string]*sending // requests that have a handler, with their newest sending
}

// OnPlan sets the handler that makes plans. Set it before Start. The handler returns a
// value that encodes as a plan, the text of its model, or [ErrNoPlan]. After another
// error or a panic nothing is sent, and the run ends when its planner_timeout is over. At
// most Options.Handlers calls run at a time.
func (p *planning[R]) OnPlan(handler func(context.Context, R) (plan any, err error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler = handler
}

// Start begins to take requests and returns when the server has confirmed it. Requests
// are taken until Stop, or until ctx ends, which also cancels the context of the
// handlers.
func (p *planning[R]) Start(ctx context.Context) error {
	return p.listen(ctx, "", []string{p.requests}, func(*run) {}, p.receive)
}

// receive checks one request. A request that comes again, after a restart of the
// gateway, is answered once its handler has returned.
func (p *planning[R]) receive(r *run, m *nats.Msg, to subjects.Subject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handler == nil {
		p.conn.tell("a plan request came and there is nothing to answer it: set OnPlan before Start", "")
		return
	}
	var request R
	if json.Unmarshal(m.Data, &request) != nil || request.id() != to.ID {
		p.malformed()
		return
	}
	id, handler := request.id(), p.handler
	newest := p.conn.arrived(m)
	if at := p.at[id]; at != nil {
		*at = newest
		return
	}
	if r.spawn(func(ctx context.Context) {
		p.answer(ctx, r, id, func(ctx context.Context) (any, error) { return handler(ctx, request) })
	}) {
		p.at[id] = &newest
	}
}

func (p *planning[R]) answer(ctx context.Context, r *run, id string, plan func(context.Context) (any, error)) {
	answer := planAnswer{ID: id}
	var err error
	called := r.handle(ctx, func() {
		err = guarded("plan", id, func() (err error) {
			answer.Plan, err = plan(ctx)
			return err
		})
	})
	switch {
	case errors.Is(err, ErrAway):
		answer, err = planAnswer{ID: id, Away: true}, nil
	case errors.Is(err, ErrNoPlan):
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
	Away    bool   `json:"unavailable,omitzero"`
}
