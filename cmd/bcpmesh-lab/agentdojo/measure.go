package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// The ways in which a task is played: by a plain Controller under a category, by the kernel with an honest planner and a
// Reader that is hijacked in attacks, and by the kernel with a planner that is the attacker's.
const (
	plain1 = iota
	plain2
	plain3
	kernelReader
	kernelPlanner
	ways
)

var wayNames = [ways]string{"category 1", "category 2", "category 3", "kernel", "kernel, hostile planner"}

// cell is what became of a user's task in one way, when nobody attacked.
type cell struct {
	Why               string // empty: it was done
	Person            int    // calls and summaries that a person let through
	Whole             bool   // the user reads a whole output
	Nominal, Capacity bcp.Bits
}

// attack sums up what became of attacks in one way.
type attack struct {
	// Unasked are the goals that a plain Controller had reached if it had asked nobody.
	Pairs, Reached, Unasked, Words, Useful int
	Found                                  []string // pairs whose goal was reached
}

// row is what is told of a user's task.
type row struct {
	Suite, ID string
	Cells     [ways]cell
	Attacks   [ways]attack
	Alerts    []string // in honest traffic
	// Seen is the highest count of each rule about agents that leave their role in the honest
	// traffic of the task's mesh; only the first row of a mesh has it.
	Seen map[bcp.SuspectRule]int
}

// stages is how many meshes run at once.
const stages = 4

// measure plays all tasks of all suites in all ways.
func measure(ctx context.Context, suites []*suite, m *model) ([]row, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type job struct {
		suite *suite
		users []task
		rows  []row
	}
	var rows []row
	for _, s := range suites {
		rows = append(rows, make([]row, len(s.Users))...)
	}
	jobs, rest := make(chan job), rows
	var workers sync.WaitGroup
	for range stages {
		workers.Go(func() {
			for j := range jobs {
				if err := j.suite.measure(ctx, m, j.users, j.rows); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, s := range suites {
		for users := range slices.Chunk(s.Users, 8) {
			jobs <- job{s, users, rest[:len(users)]}
			rest = rest[len(users):]
		}
	}
	close(jobs)
	workers.Wait()
	return rows, context.Cause(ctx)
}

// measure plays some of a suite's tasks on a mesh of their own.
func (s *suite) measure(ctx context.Context, m *model, users []task, rows []row) (err error) {
	if ctx.Err() != nil {
		return nil // another has failed
	}
	st, err := open(ctx, s, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for n, play := range []func(context.Context, *task, *row) error{st.honest, st.attack} {
		for i := range users {
			if err := play(ctx, &users[i], &rows[i]); err != nil {
				return fmt.Errorf("%s %s: %w", s.Name, users[i].ID, err)
			}
		}
		if n == 0 {
			if err := st.mesh.Inspect(ctx, func(s *state.State) { rows[0].Seen = s.MostSeen() }); err != nil {
				return err
			}
		}
	}
	return nil
}

// honest plays a task in all ways, and nobody attacks.
func (st *stage) honest(ctx context.Context, user *task, r *row) error {
	r.Suite, r.ID = st.suite.Name, user.ID
	plan := st.suite.buildPlan(user)
	for way := range kernelPlanner {
		out, err := st.play(ctx, way, play{user: user, plan: plan})
		if err != nil {
			return err
		}
		c := cell{Why: out.Failed, Person: out.Approved, Nominal: out.Nominal, Capacity: out.Capacity}
		if way == kernelReader {
			c.Why, c.Whole = st.failureReason(plan, &out), plan.Whole
		}
		r.Alerts = append(r.Alerts, out.Alerts...)
		r.Cells[way] = c
	}
	return nil
}

// attack plays a task in all ways, with each goal.
func (st *stage) attack(ctx context.Context, user *task, r *row) error {
	s := st.suite
	plan := s.buildPlan(user)
	tried := ways
	if st.model != nil {
		tried = kernelPlanner // the model plans
	}
	for i := range s.Goals {
		goal := &s.Goals[i]
		for way := range tried {
			plays := []play{{user: user, goal: goal, plan: plan, lying: true}}
			if way == kernelPlanner {
				plays = nil
				for _, plan := range s.goalPlans(user, goal) {
					plays = append(plays, play{user: user, goal: goal, plan: plan})
				}
			}
			reached, unasked, useful := false, false, false
			of := func(c made) bool { return s.reached(user, goal, &c) }
			for _, p := range plays {
				out, err := st.play(ctx, way, p)
				if err != nil {
					return fmt.Errorf("with %s: %w", goal.ID, err)
				}
				r.Attacks[way].Words += out.Words
				reached = reached || slices.ContainsFunc(out.Calls, of)
				unasked = unasked || slices.ContainsFunc(out.Unasked, of)
				useful = useful || out.Failed == "" && (way < kernelReader || out.Status == committed && s.madeEffects(user, out.Calls))
			}
			a := &r.Attacks[way]
			a.Pairs++
			if useful {
				a.Useful++
			}
			if reached || unasked {
				a.Unasked++
			}
			if reached {
				a.Reached++
				a.Found = append(a.Found, fmt.Sprintf("%s, %s with %s", wayNames[way], user.ID, goal.ID))
			}
		}
	}
	return nil
}

func (st *stage) play(ctx context.Context, way int, p play) (play, error) {
	if way < kernelReader {
		return st.plainly(ctx, p, way+1)
	}
	return st.run(ctx, p)
}

// failureReason says why a run is not counted as done; empty if it is.
func (st *stage) failureReason(plan *scripted, out *play) string {
	switch {
	case st.model == nil && plan.Why != "":
		return plan.Why
	case out.Status != committed:
		return strings.TrimSpace(out.Status + " " + out.Code)
	case !st.suite.madeEffects(out.user, out.Calls):
		return "it made other calls"
	default:
		return ""
	}
}
