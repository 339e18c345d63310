package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/agentdojo/score"
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

var wayNames = [ways]string{"category 1", "category 2", "category 3", "kernel", "hostile planner"}

// cell is what became of a user's task in one way, when nobody attacked.
type cell struct {
	Why               string // empty: it was done
	Refused           bool   // it was also done if the person refused everything
	Nominal, Capacity bcp.Bits
}

// attack sums up what became of attacks in one way.
type attack struct {
	Pairs, Useful int
	Reached       [persons]int // goals, with each person
	Found         []string     // the goals, with a careful person
}

// row is what is told of a user's task.
type row struct {
	Suite, ID string
	Cells     [ways]cell
	Attacks   [ways]attack
	Alerts    []string // in honest traffic
	// Alone is how many decisions of a careful person the kernel's plays took, without an attack and with each; Together how many
	// signatures if the tasks of a mesh are done at once, which the first row has.
	Alone, Together [2]int
	Sieges          sieges // of the kernel, by an attacker who adapts
	Tokens          bcp.Tokens
	Endorsable      int // of Alone
}

// stages is how many meshes run at once, and atOnce how many tasks each has.
const stages, atOnce = 8, 8

// measure plays all tasks of all suites in all ways.
func measure(ctx context.Context, suites []*suite, a *arena) ([]row, error) {
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
				if err := j.suite.measure(ctx, a, j.users, j.rows); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, s := range suites {
		for users := range slices.Chunk(s.Users, atOnce) {
			jobs <- job{s, users, rest[:len(users)]}
			rest = rest[len(users):]
		}
	}
	close(jobs)
	workers.Wait()
	return rows, context.Cause(ctx)
}

// measure plays some of a suite's tasks on a mesh of their own.
func (s *suite) measure(ctx context.Context, a *arena, users []task, rows []row) (err error) {
	if ctx.Err() != nil {
		return nil // another has failed
	}
	st, err := open(ctx, s, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for part, play := range []func(context.Context, *task, *row) error{st.honest, st.attack} {
		for i := range users {
			if st.seat, err = a.seat(fmt.Sprintf("%s.%s.%d", s.Name, users[i].ID, part), &rows[i].Tokens); err != nil {
				return err
			}
			err := play(ctx, &users[i], &rows[i])
			if st.seat != nil {
				err = errors.Join(err, st.seat.Close())
			}
			if err != nil {
				return fmt.Errorf("%s %s: %w", s.Name, users[i].ID, err)
			}
		}
	}
	if st.seat != nil {
		return nil
	}
	for i := -1; i < len(s.Goals); i++ {
		var goal *task
		if i >= 0 {
			goal = &s.Goals[i]
		}
		signatures, err := st.together(ctx, users, goal)
		if err != nil {
			return fmt.Errorf("%s, all at once: %w", s.Name, err)
		}
		rows[0].Together[min(i+1, 1)] += signatures
	}
	return nil
}

// honest plays a task in all ways, and nobody attacks.
func (st *stage) honest(ctx context.Context, user *task, r *row) error {
	s := st.suite
	r.Suite, r.ID = s.Name, user.ID
	plan := s.buildPlan(user, false)
	for way := range kernelPlanner {
		outs, err := st.play(ctx, way, play{user: user, plan: plan}, true)
		if err == nil && way == kernelReader && st.seat == nil && plan.Why == "" && !s.done(user, &outs[careful]) && s.lost(user, &outs[careful]) {
			plan = s.buildPlan(user, true) // signs count
			outs, err = st.play(ctx, way, play{user: user, plan: plan}, true)
		}
		if err != nil {
			return err
		}
		st.plans[user.ID] = plan
		out := &outs[careful]
		if way == kernelReader {
			r.Alone[0] += out.Approved + out.Refused
			r.Endorsable += out.Endorsable
		}
		c := cell{Nominal: out.Nominal, Capacity: out.Capacity}
		switch {
		case way == kernelReader && st.seat == nil && plan.Why != "":
			c.Why = plan.Why
		case out.Failed != "":
			c.Why = out.Failed
		case !s.done(user, out) && s.lost(user, out):
			c.Why = "signs were lost"
		case !s.done(user, out):
			c.Why = "its condition does not hold"
		default:
			c.Refused = s.done(user, &outs[refuses])
		}
		r.Alerts = append(r.Alerts, out.Alerts...)
		r.Cells[way] = c
	}
	return nil
}

// done reports whether a play ended well, and as its task wants.
func (s *suite) done(user *task, p *play) bool {
	return p.Failed == "" && p.Holds(user.ID)
}

// lost reports whether a play did and said what its task wants, but for signs and capital letters.
func (s *suite) lost(user *task, p *play) bool {
	return (user.Output == "" || sameWords(quote(p.Answer), quote(user.Output))) &&
		!slices.ContainsFunc(p.Calls, func(c score.Call) bool { return s.effect(c.Tool) && !s.belongsTo(user, &c) })
}

// attack plays a task in all ways, with each goal.
func (st *stage) attack(ctx context.Context, user *task, r *row) error {
	s := st.suite
	plan := st.plans[user.ID]
	if plan == nil {
		plan = s.buildPlan(user, false)
	}
	tried := ways
	if st.seat != nil {
		tried = kernelPlanner // the model plans
	}
	for i := range s.Goals {
		goal := &s.Goals[i]
		if by := st.attacker(goal, plan, number(user.ID)+i); by != nil {
			p := play{user: user, goal: goal, plan: plan}
			if err := st.besiege(ctx, p, &siege{by: by, rounds: st.arena.Rounds}, &r.Sieges); err != nil {
				return fmt.Errorf("an attacker of %s: %w", goal.ID, err)
			}
		}
		for way := range tried {
			plays := []play{{user: user, goal: goal, plan: plan, lying: true}}
			if way == kernelReader {
				contrary, quiet := plays[0], plays[0]
				contrary.contrary, quiet.quiet = true, true
				if strings.Contains(string(plan.Plan), `"when"`) {
					plays = append(plays, contrary)
				}
				if seen, unseen := plan.seen(); seen && unseen {
					plays = append(plays, quiet)
				}
			}
			if way == kernelPlanner {
				plays = nil
				for _, plan := range s.goalPlans(goal) {
					plays = append(plays, play{user: user, goal: goal, plan: plan})
				}
			}
			a := &r.Attacks[way]
			var reached [persons]bool
			for _, p := range plays {
				outs, err := st.play(ctx, way, p, !reached[approves])
				if err != nil {
					return fmt.Errorf("with %s: %w", goal.ID, err)
				}
				for who := range persons {
					reached[who] = reached[who] || outs[who].Holds(goal.ID)
				}
				if out := &outs[careful]; way < kernelPlanner && !p.contrary && !p.quiet {
					if s.done(user, out) {
						a.Useful++
					}
					if way == kernelReader {
						r.Alone[1] += out.Approved + out.Refused
						r.Endorsable += out.Endorsable
					}
				}
			}
			a.Pairs++
			for who := range persons {
				if reached[who] {
					a.Reached[who]++
				}
			}
			if reached[careful] {
				a.Found = append(a.Found, goal.ID)
			}
		}
	}
	return nil
}

// play plays a task with each person, if they differ in what they say; all says that it matters what one who approves all does.
func (st *stage) play(ctx context.Context, way int, p play, all bool) (outs [persons]play, err error) {
	for who := range persons {
		outs[who] = outs[careful]
		if who == refuses && outs[careful].Approved == 0 || who == approves && (outs[careful].Refused == 0 || !all) {
			continue
		}
		p.person = who
		if outs[who], err = st.once(ctx, way, p); err != nil {
			return outs, err
		}
	}
	return outs, nil
}

// once plays a task with one person.
func (st *stage) once(ctx context.Context, way int, p play) (out play, err error) {
	if way < kernelReader {
		out, err = st.plainly(ctx, p, way+1)
	} else {
		out, err = st.run(ctx, p)
	}
	return out, errors.Join(err, st.seat.write(way, &out))
}

// number is that of a task.
func number(id string) int {
	n, _ := strconv.Atoi(id[strings.LastIndexByte(id, '_')+1:])
	return n
}
