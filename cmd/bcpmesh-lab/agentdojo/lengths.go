package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract/watch"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// lengths are how many steps the plans of a suite have when nobody attacks, all made by one planner for one kernel, so that
// rule unusual of package watch has its 31 plans.
type lengths struct {
	Suite string
	Steps []int // of the first plan of each run, sorted
	Seen  map[bcp.SuspectRule]int
	// Shuffled is how many times the usual steps a plan had, at most, for the runs in other orders, and Bound for the longest
	// plan after nothing but the shortest one.
	Shuffled, Bound int
}

// shuffles is how many other orders are tried.
const shuffles = 10_000

// lengths has all tasks of a suite done so many times over on one mesh.
func (s *suite) lengths(ctx context.Context, rounds int) (u lengths, err error) {
	st, err := open(ctx, s, nil)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	u.Suite = s.Name
	for range rounds {
		for i := range s.Users {
			if _, err := st.run(ctx, play{user: &s.Users[i], plan: s.buildPlan(&s.Users[i], false)}); err != nil {
				return u, fmt.Errorf("%s %s: %w", s.Name, s.Users[i].ID, err)
			}
		}
	}
	if err := st.mesh.Inspect(ctx, func(s *state.State) { u.Seen = s.MostSeen() }); err != nil {
		return u, err
	}
	if u.Steps = st.steps(); len(u.Steps) <= watch.UsualPlans {
		return u, fmt.Errorf("%s: %d plans are too few: play more rounds", s.Name, len(u.Steps))
	}
	order, random := slices.Clone(u.Steps), rand.New(rand.NewPCG(1, 2))
	for range shuffles {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		u.Shuffled = max(u.Shuffled, countUnusual(order))
	}
	slices.Sort(u.Steps)
	u.Bound = countUnusual(append(slices.Repeat(u.Steps[:1], watch.UsualPlans), u.Steps[len(u.Steps)-1]))
	return u, nil
}

// countUnusual is what a watch makes of plans of so many steps.
func countUnusual(steps []int) int {
	w := watch.New()
	for _, n := range steps {
		w.See(1, bcp.Seen{Agent: plannerName, Rule: bcp.SuspectUnusual, Count: n})
	}
	return w.Most(bcp.SuspectUnusual)
}

// writeLengths writes a line for each suite, and reports whether no rule came to its threshold.
func writeLengths(ctx context.Context, w io.Writer, suites []*suite, rounds int) (bool, error) {
	fmt.Fprintf(w, "| suite | plans | steps: least, median, most | times the usual, at most | in %d other orders | the longest after the shortest |\n|---|--:|--:|--:|--:|--:|\n", shuffles)
	ok := true
	most := map[bcp.SuspectRule]int{}
	for _, s := range suites {
		u, err := s.lengths(ctx, rounds)
		if err != nil {
			return false, err
		}
		n := len(u.Steps)
		fmt.Fprintf(w, "| %s | %d | %d, %d, %d | %d | %d | %d |\n", u.Suite, n, u.Steps[0], u.Steps[n/2], u.Steps[n-1], u.Seen[bcp.SuspectUnusual], u.Shuffled, u.Bound)
		for rule, count := range u.Seen {
			most[rule] = max(most[rule], count)
		}
	}
	for _, rule := range watch.Rules() {
		threshold, _ := watch.ThresholdOf(rule)
		if rule == bcp.SuspectUnusual {
			threshold.Count = watch.UnusualTimes
		}
		ok = ok && most[rule] < threshold.Count
		fmt.Fprintf(w, "honest traffic: %s at most %d of %d\n", rule, most[rule], threshold.Count)
	}
	return ok, nil
}
