package status

import (
	"cmp"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// usualWindow is the window of an agent whose definition is not at hand.
const usualWindow = 24 * time.Hour

// Use is what counts of one model of an agent at a time (PROTOCOL P15), beside the
// budgets of the agent.
type Use struct {
	Agent bcp.AgentName `json:"agent"`
	Model string        `json:"model"`
	Calls int           `json:"calls"`
	// Refused are calls that were not allowed.
	Refused    int `json:"refused"`
	bcp.Tokens `json:",inline"`
	Cost       bcp.USD `json:"usd"`
	// Unpriced says that nobody knew the price of a call.
	Unpriced       bool    `json:"unpriced,omitzero"`
	ReservedTokens int64   `json:"reserved_tokens"`
	ReservedCost   bcp.USD `json:"reserved_usd"`
	// Delivered are the bits of the agent's answers and pushes meanwhile, whichever of its
	// models took part.
	Delivered   bcp.Bits `json:"delivered_bits"`
	CostBudget  bcp.USD  `json:"cost_budget_usd,omitzero"`
	TokenBudget int64    `json:"token_budget,omitzero"`
	Window      int64    `json:"window_seconds"`
}

// Tally adds up the tokens and costs of agents' models at one time, from decisions in the
// journal or the audit.
type Tally struct {
	now    time.Time
	runs   map[bcp.AgentName]bcp.Run
	uses   map[[2]string]*Use
	bits   map[bcp.AgentName]bcp.Bits
	opened map[uint64]*bcp.UsageChange // what is reserved, by its decision
}

// NewTally counts what counts at a time. Agents of the definitions, which may be nil,
// are listed without a call too if a model runs them.
func NewTally(m *bcp.Mesh, now time.Time) *Tally {
	u := &Tally{now, map[bcp.AgentName]bcp.Run{}, map[[2]string]*Use{}, map[bcp.AgentName]bcp.Bits{}, map[uint64]*bcp.UsageChange{}}
	if m != nil {
		for i := range m.Agents {
			if a := &m.Agents[i]; a.AsksModel() {
				u.runs[a.Name] = a.Run
				u.of(a.Name, a.Model)
			}
		}
	}
	return u
}

func (u *Tally) of(agent bcp.AgentName, model string) *Use {
	key := [2]string{string(agent), model}
	if u.uses[key] == nil {
		run := u.runs[agent]
		u.uses[key] = &Use{Agent: agent, Model: model, CostBudget: run.CostBudget, TokenBudget: run.TokenBudget, Window: int64(run.Window / time.Second)}
	}
	return u.uses[key]
}

// Add counts a decision, as the journal or the audit has it. A call comes before its
// settlement.
func (u *Tally) Add(d *bcp.Decision) {
	if m, ok := d.Message(); ok && m.Outcome == "" && d.At().After(u.now.Add(-cmp.Or(u.runs[d.Reader].Window, usualWindow))) {
		u.bits[d.Reader] += d.Nominal
	}
	c := d.Usage
	if d.Kind != bcp.KindUsage || c == nil {
		return
	}
	counts := c.Until > u.now.UnixNano()
	switch {
	case d.Verdict != bcp.Accept:
		if d.Code == bcp.BudgetExhausted && counts {
			u.of(d.Agent, c.Model).Refused++
		}
	case c.Act == bcp.UsageSettle:
		t := u.of(d.Agent, c.Model)
		if reserved := u.opened[c.Reserved]; reserved != nil {
			t.ReservedTokens, t.ReservedCost = t.ReservedTokens-reserved.Tokens, t.ReservedCost-reserved.Cost
			delete(u.opened, c.Reserved)
		}
		if counts {
			t.Input, t.CacheRead, t.CacheWrite, t.Output = bcp.Plus(t.Input, c.Input), bcp.Plus(t.CacheRead, c.CacheRead), bcp.Plus(t.CacheWrite, c.CacheWrite), bcp.Plus(t.Output, c.Output)
			t.Cost, t.Unpriced = bcp.Plus(t.Cost, c.Cost), t.Unpriced || c.Unpriced
		}
	case counts && c.Act == bcp.UsageReserve:
		t := u.of(d.Agent, c.Model)
		t.Calls, t.ReservedTokens, t.ReservedCost = t.Calls+1, t.ReservedTokens+c.Tokens, t.ReservedCost+c.Cost
		u.opened[d.Seq] = c
	}
}

// List returns what counts, by the names of the agents, then of their models.
func (u *Tally) List() []Use {
	list := make([]Use, 0, len(u.uses))
	for _, t := range u.uses {
		t.Delivered = u.bits[t.Agent]
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Use) int { return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Model, b.Model)) })
	return list
}
