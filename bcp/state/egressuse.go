package state

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// EgressUse is what counts of an agent's egress at a time (PROTOCOL P13), beside its limits.
type EgressUse struct {
	Agent bcp.AgentName `json:"agent"`
	// Window is the length of the window in seconds; this and the limits are 0 if the
	// definitions do not have the agent any more.
	Window   int64    `json:"window_seconds"`
	Requests int      `json:"requests"`
	Refused  int      `json:"refused"`
	Bits     bcp.Bits `json:"bits"`
	Budget   bcp.Bits `json:"budget_bits"`
	// Bytes went over the wire, and ReservedBytes are those that open requests may need.
	Bytes         int64 `json:"bytes"`
	ReservedBytes int64 `json:"reserved_bytes"`
	MaxBytes      int64 `json:"max_bytes"`
}

// EgressUses counts the egress of agents at one time, from their decisions.
type EgressUses struct {
	now    time.Time
	agents map[bcp.AgentName]*egressTally
}

type egressTally struct {
	use          EgressUse
	refusedSince time.Time
	open         map[uint64]int64 // bytes by the decision that reserved them
}

// NewEgressUses counts what counts at a time. Agents of the definitions, which may be nil,
// are listed without a request too if they have hosts.
func NewEgressUses(m *bcp.Mesh, now time.Time) *EgressUses {
	u := &EgressUses{now: now, agents: make(map[bcp.AgentName]*egressTally)}
	if m == nil {
		return u
	}
	for i := range m.Agents {
		if a := &m.Agents[i]; len(a.Egress.Hosts) > 0 {
			u.findTally(a.Name, a.Egress)
		}
	}
	return u
}

func (u *EgressUses) findTally(name bcp.AgentName, e bcp.Egress) *egressTally {
	if u.agents[name] == nil {
		u.agents[name] = &egressTally{
			use:          EgressUse{Agent: name, Window: int64(e.Window / time.Second), Budget: e.Budget, MaxBytes: e.MaxBytes},
			refusedSince: u.now.Add(-cmp.Or(e.Window, 24*time.Hour)),
			open:         make(map[uint64]int64),
		}
	}
	return u.agents[name]
}

// Add counts a decision, as the journal or the audit has it, if it is about egress. A
// request comes before its settlement.
func (u *EgressUses) Add(d *bcp.Decision) {
	if d.Kind != bcp.KindEgress || d.Egress == nil {
		return
	}
	t, counts := u.findTally(d.Agent, bcp.Egress{}), d.Egress.Until > u.now.UnixNano()
	switch {
	case d.Verdict != bcp.Accept:
		if d.At().After(t.refusedSince) {
			t.use.Refused++
		}
	case d.Egress.Act == bcp.EgressSettle:
		delete(t.open, d.Egress.Reserved)
		if counts {
			t.use.Bytes += d.Egress.Bytes
		}
	case counts:
		t.use.Requests++
		t.use.Bits += d.Egress.Bits
		t.open[d.Seq] = d.Egress.Bytes
	}
}

// List returns what counts, by the names of the agents.
func (u *EgressUses) List() []EgressUse {
	list := make([]EgressUse, 0, len(u.agents))
	for _, name := range slices.Sorted(maps.Keys(u.agents)) {
		t := u.agents[name]
		use := t.use
		for _, bytes := range t.open {
			use.ReservedBytes += bytes
		}
		list = append(list, use)
	}
	return list
}
