package state

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
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
	agents map[bcp.AgentName]*EgressUse
	open   map[uint64]int64 // bytes by the decision that reserved them
}

// NewEgressUses counts what counts at a time. Agents of the definitions, which may be nil,
// are listed without a request too if they have hosts.
func NewEgressUses(m *bcp.Mesh, now time.Time) *EgressUses {
	u := &EgressUses{now, make(map[bcp.AgentName]*EgressUse), make(map[uint64]int64)}
	if m == nil {
		return u
	}
	for i := range m.Agents {
		if a := &m.Agents[i]; len(a.Egress.Hosts) > 0 {
			u.agents[a.Name] = &EgressUse{Agent: a.Name, Window: int64(a.Egress.Window / time.Second), Budget: a.Egress.Budget, MaxBytes: a.Egress.MaxBytes}
		}
	}
	return u
}

// Add counts a decision, as the journal or the audit has it, if it is about egress. A
// request comes before its settlement.
func (u *EgressUses) Add(d *bcp.Decision) {
	if d.Kind != bcp.KindEgress || d.Egress == nil {
		return
	}
	use := u.agents[d.Agent]
	if use == nil {
		use = &EgressUse{Agent: d.Agent}
		u.agents[d.Agent] = use
	}
	counts := d.Egress.Until > u.now.UnixNano()
	switch {
	case d.Verdict != bcp.Accept:
		if d.At().After(u.now.Add(-cmp.Or(time.Duration(use.Window)*time.Second, 24*time.Hour))) {
			use.Refused++
		}
	case d.Egress.Act == bcp.EgressSettle:
		use.ReservedBytes -= u.open[d.Egress.Reserved]
		delete(u.open, d.Egress.Reserved)
		if counts {
			use.Bytes += d.Egress.Bytes
		}
	case counts:
		use.Requests++
		use.Bits += d.Egress.Bits
		use.ReservedBytes += d.Egress.Bytes
		u.open[d.Seq] = d.Egress.Bytes
	}
}

// List returns what counts, by the names of the agents.
func (u *EgressUses) List() []EgressUse {
	list := make([]EgressUse, 0, len(u.agents))
	for _, name := range slices.Sorted(maps.Keys(u.agents)) {
		list = append(list, *u.agents[name])
	}
	return list
}

// egressState is what an agent has sent out.
type egressState struct {
	policy   guard.Policy `msgpack:"-"` // of its definition
	pool     *guard.Pool
	alerted  int64 // up to when no other alert is due
	refusals refusalCount
}
