package bcp

import (
	"math"
	"time"
)

// Egress is what an agent may reach, and how much it may send there. The zero
// value allows nothing.
type Egress struct {
	// Hosts are entries of an allow-list, as package guard reads them.
	Hosts []string
	// StartURLs may be fetched at the price of a link.
	StartURLs []string
	// LinksOnly refuses URLs that the agent composes.
	LinksOnly bool
	// Budget bounds what the agent tells hosts over Window, by which URLs it
	// fetches. BudgetStated says that the definition names it.
	Budget       Bits
	BudgetStated bool
	// Window is the length of the sliding window of all three limits.
	Window time.Duration
	// MaxBytes bounds what goes over the wire, in both directions, and
	// MaxHostBytes the part of one host.
	MaxBytes, MaxHostBytes int64
}

// PerDay is the greatest number of bits that leave in any 24 hours: a budget for
// each window that fits into a day, and for the one that has begun.
func (e Egress) PerDay() Bits {
	const day = 24 * time.Hour
	if len(e.Hosts) == 0 || e.Budget <= 0 || e.Window <= 0 {
		return 0
	}
	windows := Bits((day + e.Window - 1) / e.Window)
	if e.Budget > math.MaxInt64/windows {
		return math.MaxInt64
	}
	return e.Budget * windows
}

// AcceptedLegs says of which agents the definitions accept that they have private
// data, untrusted input and a way out, a line each: the audit has them at every start,
// and what a reload changes of them.
func (m *Mesh) AcceptedLegs() []string {
	var lines []string
	var flow *Flow
	for i := range m.Agents {
		a := &m.Agents[i]
		if !a.Egress.BudgetStated {
			continue
		}
		if flow == nil {
			flow = FlowOf(m)
		}
		if flow.Legs(a.Name).All() {
			lines = append(lines, string(a.Name)+" may have private data, untrusted input and a way out (egress_budget_bits)")
		}
	}
	return lines
}
