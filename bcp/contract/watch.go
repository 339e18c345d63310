package contract

import (
	"maps"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// SuspectThreshold is how often something may be seen before an agent is suspected.
type SuspectThreshold struct {
	Count  int           // the one that raises an alert, 1 or more
	Within time.Duration // above 0
}

const (
	// UsualPlans is how many earlier plans of a planner say what is usual.
	UsualPlans = 31
	// UnusualTimes is how many times the median of them is unusual.
	UnusualTimes = 10
	// LeastUsual is the least that is usual, in steps: a planner that was asked for trifles
	// 31 times may be asked for something. The longest plan of honest tasks that was measured
	// has 19 steps (docs/suspicion.md), and no plan below 40 is unusual.
	LeastUsual = 4
)

// thresholds are those of all rules.
var thresholds = map[bcp.SuspectRule]SuspectThreshold{
	bcp.SuspectSubject:   {3, 10 * time.Minute},
	bcp.SuspectOtherRole: {1, 10 * time.Minute},
	bcp.SuspectTools:     {3, 24 * time.Hour},
	bcp.SuspectUnusual:   {1, 24 * time.Hour},
	bcp.SuspectCall:      {5, 10 * time.Minute},
	bcp.SuspectAnswer:    {10, 10 * time.Minute},
	bcp.SuspectReply:     {1, 10 * time.Minute},
	bcp.SuspectOutcome:   {3, 24 * time.Hour},
}

// SuspectRules returns all rules, sorted.
func SuspectRules() []bcp.SuspectRule { return slices.Sorted(maps.Keys(thresholds)) }

// ThresholdOf returns the threshold of a rule, and false if there is no such rule.
func ThresholdOf(rule bcp.SuspectRule) (t SuspectThreshold, known bool) {
	t, known = thresholds[rule]
	return t, known
}

// Watch finds agents that break their role's contract. It is a projection of
// the audit, which counts events of each agent and compares the counts with
// thresholds.
//
// It looks at no content and asks no model. Time is that of the journal, so a replay
// raises the same alerts. Only messages of an agent's own connection count against
// it, so no agent can make another one suspect. Memory per agent is bounded by the
// thresholds, whatever the agent sends. An agent that stays below every threshold is
// not found.
//
// Make one with [NewWatch]; use it from one goroutine. A checkpoint has its fields:
// names, words and numbers.
type Watch struct {
	now   int64 // the latest moment of a record, Unix nanoseconds
	seen  map[counter]*count
	sizes map[bcp.AgentName][]int // of the newest plans of a planner, oldest first
}

type counter struct {
	agent bcp.AgentName
	rule  bcp.SuspectRule
}

// count is what is remembered of an agent and a rule: fewer moments than its threshold
// has.
type count struct {
	times []int64
	quiet int64 // until when nothing counts, since the last alert
}

// NewWatch returns a watch that has seen nothing.
func NewWatch() *Watch {
	return &Watch{seen: map[counter]*count{}, sizes: map[bcp.AgentName][]int{}}
}

// See counts what a record of this time, Unix nanoseconds, says of an agent, in the order
// of the records. It returns how often it was seen within the time of the rule's
// threshold if that is reached, and else 0. For that time after an alert its rule counts
// nothing, so that who goes on is not an alert for each message. A time before that of an
// earlier record counts as that one.
func (w *Watch) See(at int64, s bcp.Seen) int {
	threshold, known := ThresholdOf(s.Rule)
	key := counter{s.Agent, s.Rule}
	c := w.seen[key]
	if !known || s.Agent == "" || s.Count == 0 || s.Count < 0 && (c == nil || s.Rule == bcp.SuspectUnusual) {
		return 0
	}
	w.now = max(w.now, at)
	n := s.Count
	if s.Rule == bcp.SuspectUnusual {
		if w.timesUsual(s.Agent, s.Count) < UnusualTimes {
			return 0
		}
		n = 1
	}
	if c == nil {
		c = &count{}
		w.seen[key] = c
	}
	if w.now < c.quiet {
		return 0
	}
	c.times = slices.DeleteFunc(c.times, func(at int64) bool { return w.now-at >= int64(threshold.Within) })
	if n < 0 {
		c.times = slices.Delete(c.times, 0, len(c.times)-max(len(c.times)+n, 0))
		return 0
	}
	if n < threshold.Count-len(c.times) {
		for range n {
			c.times = append(c.times, w.now)
		}
		return 0
	}
	n += len(c.times)
	*c = count{quiet: w.now + int64(threshold.Within)}
	return n
}

// Lift forgets what was counted of an agent whose suspension is lifted: each rule begins
// to count, and is not quiet any more.
func (w *Watch) Lift(agent bcp.AgentName) {
	maps.DeleteFunc(w.seen, func(key counter, _ *count) bool { return key.agent == agent })
}

// timesUsual notes the steps of a plan, and returns how many times the median of the
// planner's 31 plans before it they are, or of [LeastUsual] if that is more, rounded down;
// with fewer before it nothing is usual yet.
func (w *Watch) timesUsual(planner bcp.AgentName, steps int) (times int) {
	sizes := w.sizes[planner]
	if len(sizes) == UsualPlans {
		times = steps / max(slices.Sorted(slices.Values(sizes))[UsualPlans/2], LeastUsual)
		sizes = slices.Delete(sizes, 0, 1)
	}
	w.sizes[planner] = append(sizes, steps)
	return times
}

// SeenIn returns what a record says of who caused it, but for records of runs, which
// package kernel reads.
func SeenIn(d *bcp.Decision) []bcp.Seen {
	switch {
	case d.Repeat:
	case d.Kind == bcp.KindViolation && sends[d.Role] != nil:
		seen := []bcp.Seen{{Agent: d.Agent, Rule: bcp.SuspectSubject, Count: max(1, d.Count)}}
		if d.Event == "publish" && ofAnotherRole(d.Role, d.Family) {
			seen = append(seen, bcp.Seen{Agent: d.Agent, Rule: bcp.SuspectOtherRole, Count: max(1, d.Count)})
		}
		return seen
	case d.Kind != bcp.KindAnswer || d.Agent != d.Reader:
	case d.Accepted(): // it is as its spec has it
		return []bcp.Seen{{Agent: d.Agent, Rule: bcp.SuspectAnswer, Count: -1}}
	case d.Verdict != bcp.Reject:
	case d.Check == bcp.CheckQuery:
		return []bcp.Seen{{Agent: d.Agent, Rule: bcp.SuspectReply, Count: 1}}
	case d.Check == bcp.CheckMessage && d.Controller == "", // to no query that waits for it
		(d.Check == bcp.CheckMessage || d.Check == bcp.CheckAnswer) && d.Outcome == bcp.Rejected:
		return []bcp.Seen{{Agent: d.Agent, Rule: bcp.SuspectAnswer, Count: 1}}
	}
	return nil
}

// sends are the families of subjects that an agent publishes to in each of its roles.
// People and the gateway's own roles are not watched.
var sends = map[bcp.Role][]string{
	bcp.RoleController: {"ask", "session", "run", "reply", "role"},
	bcp.RoleReader:     {"push", "reply", "role"},
	bcp.RoleKeeper:     {"egress", "usage"},
	bcp.RolePlanner:    {"reply"},
	bcp.RoleSubplanner: {"reply"},
	bcp.RoleTool:       {"reply"},
}

// ofAnotherRole reports whether a family is one of the mesh's own, of whose subjects an
// agent publishes none in this role: another role does, or the gateway.
func ofAnotherRole(role bcp.Role, family string) bool {
	switch family {
	case "", "streams", "system", "inbox": // not of the mesh
		return false
	}
	return !slices.Contains(sends[role], family)
}

// Valid reports whether a watch that was read from a checkpoint remembers what one does, and
// no more.
func (w *Watch) Valid() bool {
	for key, c := range w.seen {
		if threshold, known := ThresholdOf(key.rule); !known || key.agent == "" || len(c.times) >= threshold.Count {
			return false
		}
	}
	for name, steps := range w.sizes {
		if name == "" || len(steps) == 0 || len(steps) > UsualPlans {
			return false
		}
	}
	return w.now > 0 || len(w.seen)+len(w.sizes) == 0
}
