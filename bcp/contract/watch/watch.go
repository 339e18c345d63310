// Package watch suspects agents that do not do what their role's contract says: a
// projection of the audit, which counts what the records say of an agent and compares
// it with thresholds.
//
// It looks at no content and asks no model. Time is that of the journal, so a replay
// raises the same alerts. It only takes away: an agent that is suspended can do less
// until somebody lifts the suspension, and nothing here ever gives an agent more.
//
// What is not shown: an agent that stays below every threshold is not found.
package watch

import (
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Rule says what was seen of an agent. The zero value is no rule.
type Rule string

// The rules, by the classes of the draft (section 6.1).
const (
	// Behaviour: what its role does not do.
	SubjectDenied  Rule = "subject_denied"  // the server denied it a subject
	OtherRole      Rule = "other_role"      // a message of another role
	UngrantedTools Rule = "ungranted_tools" // a plan with a tool that was not granted
	Unusual        Rule = "unusual"         // a run of ten times the usual size
	// Provenance: data that is not what it is said to be.
	LabelChanged Rule = "label_changed" // a value's label is not what a replay makes of it
	TaintHidden  Rule = "taint_hidden"  // a peer sent as trusted what it had been sent as tainted
	TaskTainted  Rule = "task_tainted"  // a requester that was exposed called its task trusted
	// Pattern: policies that are tried again and again.
	CallDenied     Rule = "call_denied"     // the gate denied a call
	AnswerRejected Rule = "answer_rejected" // a processor's answer was not of its schema
	ForgedReply    Rule = "forged_reply"    // a reply that nobody asked it for
	BadOutcome     Rule = "bad_outcome"     // a tool's outcome was not of its schema
)

// Threshold is how often something may be seen before an agent is suspected.
type Threshold struct {
	Count  int           // 1 to [MaxCount]: the one that raises an alert
	Within time.Duration // above 0
}

const (
	// MaxCount is the greatest count of a threshold: as many moments are kept of each
	// agent and rule.
	MaxCount = 1000
	// usualRuns is how many earlier runs of an agent say what is usual.
	usualRuns = 31
	// unusualTimes is how many times the median of them is unusual.
	unusualTimes = 10
)

// rules are all rules with their default thresholds.
var rules = []struct {
	rule      Rule
	threshold Threshold
}{
	{SubjectDenied, Threshold{3, 10 * time.Minute}},
	{OtherRole, Threshold{1, 10 * time.Minute}},
	{UngrantedTools, Threshold{3, 24 * time.Hour}},
	{Unusual, Threshold{1, 24 * time.Hour}},
	{LabelChanged, Threshold{1, 10 * time.Minute}},
	{TaintHidden, Threshold{1, 10 * time.Minute}},
	{TaskTainted, Threshold{1, 10 * time.Minute}},
	{CallDenied, Threshold{5, 10 * time.Minute}},
	{AnswerRejected, Threshold{10, 10 * time.Minute}},
	{ForgedReply, Threshold{1, 10 * time.Minute}},
	{BadOutcome, Threshold{3, 24 * time.Hour}},
}

// Rules returns all rules.
func Rules() []Rule {
	all := make([]Rule, len(rules))
	for i, r := range rules {
		all[i] = r.rule
	}
	return all
}

// DefaultThresholds returns the threshold of each rule.
func DefaultThresholds() map[Rule]Threshold {
	thresholds := make(map[Rule]Threshold, len(rules))
	for _, r := range rules {
		thresholds[r.rule] = r.threshold
	}
	return thresholds
}

// Event is one thing that a record says of an agent.
type Event struct {
	At    time.Time // of the record
	Agent bcp.AgentName
	Rule  Rule
}

// Alert suspects an agent: role_suspect.
type Alert struct {
	At    time.Time
	Agent bcp.AgentName
	Rule  Rule
	Count int // of events within the time of the threshold
}

// Watch counts. Make one with [New]; use it from one goroutine.
type Watch struct {
	thresholds map[Rule]Threshold
	suspends   bool
	now        time.Time // the latest moment of a record
	seen       map[counter][]time.Time
	sizes      map[bcp.AgentName][]int
	suspended  map[bcp.AgentName]bool
}

type counter struct {
	agent bcp.AgentName
	rule  Rule
}

// New returns a watch. A rule without a threshold, or with one that is out of range,
// has its default: nothing switches a rule off. If suspends is set an alert also
// suspends its agent.
func New(thresholds map[Rule]Threshold, suspends bool) *Watch {
	w := &Watch{
		thresholds: DefaultThresholds(), suspends: suspends, seen: map[counter][]time.Time{}, sizes: map[bcp.AgentName][]int{},
		suspended: map[bcp.AgentName]bool{},
	}
	for rule, t := range thresholds {
		if _, known := w.thresholds[rule]; known && t.Count >= 1 && t.Count <= MaxCount && t.Within > 0 {
			w.thresholds[rule] = t
		}
	}
	return w
}

// See counts an event, in the order of the records, and returns the alert that it
// raises, if any. After an alert its rule begins to count again. A moment before that
// of an earlier record counts as that one.
func (w *Watch) See(e Event) (Alert, bool) {
	threshold, known := w.thresholds[e.Rule]
	if !known {
		return Alert{}, false
	}
	if e.At.After(w.now) {
		w.now = e.At
	}
	key := counter{e.Agent, e.Rule}
	recent := slices.DeleteFunc(append(w.seen[key], w.now), func(at time.Time) bool { return w.now.Sub(at) >= threshold.Within })
	if len(recent) < threshold.Count {
		w.seen[key] = recent
		return Alert{}, false
	}
	delete(w.seen, key)
	if w.suspends {
		w.suspended[e.Agent] = true
	}
	return Alert{w.now, e.Agent, e.Rule, len(recent)}, true
}

// SeeRun counts a run of an agent by its size, such as its number of calls. It is
// [Unusual] if it is at least ten times the median of the agent's 31 runs before it;
// with fewer runs before it nothing is usual yet.
func (w *Watch) SeeRun(at time.Time, agent bcp.AgentName, size int) (Alert, bool) {
	sizes := w.sizes[agent]
	unusual := false
	if len(sizes) == usualRuns {
		median := slices.Sorted(slices.Values(sizes))[usualRuns/2]
		unusual = size/unusualTimes >= max(median, 1)
		sizes = slices.Delete(sizes, 0, 1)
	}
	w.sizes[agent] = append(sizes, max(size, 0))
	if !unusual {
		return Alert{}, false
	}
	return w.See(Event{at, agent, Unusual})
}

// Suspended reports whether what an agent asks is to be refused.
func (w *Watch) Suspended(agent bcp.AgentName) bool { return w.suspended[agent] }

// Lift ends the suspension of an agent, which a person decides.
func (w *Watch) Lift(agent bcp.AgentName) { delete(w.suspended, agent) }
