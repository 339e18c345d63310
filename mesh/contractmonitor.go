package mesh

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// ContractMonitor counts, record by record, how often the invariants of the roles were checked
// during runs, and which record violates one. It does not look at content. The zero
// value has seen nothing. It is not safe for concurrent use.
type ContractMonitor struct {
	seen []contract.Monitor
}

// The invariants that records can show.
var (
	noOutputs = mustPredicate(`{"name":"never_receives","args":["planner","tool_outputs"]}`)
	fromTask  = mustPredicate(`{"name":"function_of","args":["planner.output",["user_query","tool_signatures"]]}`)
	onlyPlans = mustPredicate(`{"name":"conforms","args":["planner.output","plan"]}`)
	onlyTyped = mustPredicate(`{"name":"conforms","args":["processor.output","schema(planner.request)"]}`)
	noText    = mustPredicate(`{"name":"only_messages","args":["processor","planner",["structured_data","not_enough_information"]]}`)
	onlyKinds = mustPredicate(`{"name":"only_messages","args":["orchestrator","planner",["plan_request","error"]]}`)
	gated     = mustPredicate(`{"name":"gated","args":["effects"]}`)
)

// mustPredicate reads a predicate of ours.
func mustPredicate(text string) contract.Predicate {
	p, code := contract.ParsePredicate([]byte(text))
	if code != "" {
		panic(string(code))
	}
	return p
}

// Add looks at one decision; others than those of runs say nothing.
func (m *ContractMonitor) Add(d *bcp.Decision) {
	if d.Run == nil {
		return
	}
	c, err := kernel.ReadRecord(d)
	if err != nil {
		// What cannot be read may be anything.
		for _, p := range []contract.Predicate{noOutputs, fromTask, onlyPlans, onlyTyped, noText, onlyKinds, gated} {
			m.count(d, p, false)
		}
		return
	}
	m.addRecord(d, &c)
}

func (m *ContractMonitor) count(d *bcp.Decision, p contract.Predicate, held bool) {
	i := slices.IndexFunc(m.seen, func(s contract.Monitor) bool { return s.Predicate.Equal(p) })
	if i < 0 {
		i = len(m.seen)
		m.seen = append(m.seen, contract.Monitor{Predicate: p, Since: d.At()})
	}
	s := &m.seen[i]
	if s.Checked++; !held {
		if s.Violated++; s.Violated == 1 {
			s.First = d.Seq
		}
	}
}

// Facts returns the counters, for [contract.Facts].
func (m *ContractMonitor) Facts() []contract.Monitor { return slices.Clone(m.seen) }

// addRecord counts the checks in a record.
func (m *ContractMonitor) addRecord(d *bcp.Decision, c *kernel.Change) {
	if c.Told != nil || c.Wait != nil && c.Wait.Kind == kernel.WaitPlanner {
		// A plan request consists of the task, the tools and reports of failures:
		// numbers, its own ids, words of a closed list.
		held := c.Told == nil || kernel.Explain(c.Told.Code) != "" && (c.Told.Step == "" || kernel.IsStepID(c.Told.Step))
		m.count(d, noOutputs, held)
		m.count(d, fromTask, held)
		m.count(d, onlyKinds, held)
		if c.Kind == bcp.KindStep {
			m.count(d, noText, held)
		}
	}
	if c.Plan != nil {
		m.count(d, onlyPlans, c.Plan.Steps > 0)
	}
	if c.Kind == bcp.KindStep && c.Result != nil && c.Result.Code == "" {
		m.count(d, onlyTyped, true)
	}
	if w := c.Wait; w != nil && w.Kind == kernel.WaitTool && w.Attempt == 1 {
		// A call has its verdict in the record that begins it, or a person approved or endorsed it.
		held := w.Approved || w.Endorsed != "" || slices.ContainsFunc(c.Steps, func(s kernel.StepRecord) bool {
			return s.Path == w.Step && s.Judged != nil && s.Judged.Ruling == kernel.Allow
		})
		m.count(d, gated, held)
	}
}
