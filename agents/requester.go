package agents

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Requester starts runs of kernels and waits for their ends. It needs no Start. Its
// methods may be used concurrently.
type Requester struct{ conn *Connection }

// NewRequester returns the Requester of a connection, which needs a Controller's
// creds.
func NewRequester(c *Connection) *Requester { return &Requester{conn: c} }

// RunTask is a task for a kernel.
type RunTask struct {
	// ID identifies the task: the kernel runs it once. Empty makes a new one.
	ID   bcp.ClientID `json:"request_id"`
	Task string       `json:"task"`
	// Forbid are the requester's own rules, in addition to those of the kernel.
	Forbid []ForbidRule `json:"forbid,omitempty"`
	// PlanOnly asks for a plan that is judged but not run: the run ends as planned, or as
	// blocked if a call is certain to be denied.
	PlanOnly bool `json:"plan_only,omitzero"`
	// NewSession says that the requester begins anew: nothing that it was told is in what
	// it knows, as in a model's cleared context. Otherwise all that it was told since it
	// last said so may have chosen the task, which is tainted by it.
	NewSession bool `json:"new_session,omitzero"`
}

// ForbidRule forbids calls of a tool, or of all with "*", for which an expression holds.
type ForbidRule struct {
	Tool string `json:"tool"`
	When string `json:"when"`
}

// RunRefusedError says that a kernel refused to begin a run. Code is from
// docs/kernel-reference.md; where it is bad_rule, the others are the place, from 1, in Forbid.
type RunRefusedError struct {
	Code               string
	Rule, Line, Column int
}

func (e *RunRefusedError) Error() string { return "agents: the kernel refused the run: " + e.Code }

// Run is a run that a kernel has begun.
type Run struct {
	ID string

	requester *Requester
	subject   string
	id        bcp.ClientID
	body      []byte
}

// Run starts a run with one of the requester's grants, and returns when it is recorded.
// Errors: [*RunRefusedError]; [*RefusedError]; [*UnansweredError] when ctx ended first:
// the run may have begun; ask again with the same task and ID.
func (r *Requester) Run(ctx context.Context, kernel bcp.AgentName, grant string, task RunTask) (*Run, error) {
	task.ID = cmp.Or(task.ID, bcp.ClientID(rand.Text()))
	body, err := json.Marshal(task)
	if err != nil {
		return nil, fmt.Errorf("agents: a task: %w", err)
	}
	run := &Run{requester: r, subject: subjects.Run(r.conn.options.Name, kernel, grant), id: task.ID, body: body}
	receipt, err := run.ask(ctx)
	if err != nil {
		return nil, err
	}
	run.ID = receipt.RunID
	return run, nil
}

func (u *Run) ask(ctx context.Context) (bcp.RunReceipt, error) { return u.send(ctx, u.id, u.body) }

func (u *Run) send(ctx context.Context, id bcp.ClientID, body []byte) (bcp.RunReceipt, error) {
	c := u.requester.conn
	return exchangeBytes(ctx, c, c.options.Encoding, u.subject, id, body, func(r bcp.RunReceipt) error {
		switch {
		case r.Type != bcp.TypeRun:
			return ErrMessage
		case r.Status == "" && r.Code != "":
			return &RunRefusedError{r.Code, r.Rule, r.Line, r.Column}
		}
		return nil
	})
}

// reply answers a question of a run.
type reply struct {
	Question   bcp.ItemID     `json:"question_id"`
	Answer     jsontext.Value `json:"answer,omitempty"`
	Refused    bool           `json:"refused,omitzero"`
	NewSession bool           `json:"new_session,omitzero"`
}

// Answer answers what an open run asks, by the QuestionID of a receipt: with the answers by
// the ids of its questions, or with nil, which refuses and ends the run. newSession says
// what it does of a [RunTask]: a requester that was told something else since the task may
// otherwise not answer. Errors: those of [Requester.Run]; the code is unknown_item if a
// person answered before, or the run ended.
func (u *Run) Answer(ctx context.Context, question bcp.ItemID, answers any, newSession bool) error {
	r := reply{Question: question, Refused: answers == nil, NewSession: newSession}
	var err error
	if answers != nil {
		if r.Answer, err = json.Marshal(answers); err != nil {
			return fmt.Errorf("agents: an answer: %w", err)
		}
	}
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("agents: an answer: %w", err)
	}
	_, err = u.send(ctx, bcp.ClientID(rand.Text()), body)
	return err
}

// The pauses between two looks at a run.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = 2 * time.Second
)

// Wait returns how the run ended: its Status is not [bcp.RunOpen]. It may be called again,
// for a day after the end.
func (u *Run) Wait(ctx context.Context) (bcp.RunReceipt, error) {
	return u.Follow(ctx, func(bcp.RunReceipt) {})
}

// Follow is Wait, and tells each look at the open run, which says whether it waits for a
// person, or what it asks: see [Run.Answer].
func (u *Run) Follow(ctx context.Context, look func(bcp.RunReceipt)) (bcp.RunReceipt, error) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		receipt, err := u.ask(ctx)
		if err != nil || receipt.Status != "" && receipt.Status != bcp.RunOpen {
			return receipt, err
		}
		look(receipt)
		if !sleep(ctx, nil, pause) {
			return receipt, &UnansweredError{ID: u.id, Err: ended(ctx)}
		}
	}
}
