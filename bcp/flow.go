package bcp

import (
	"cmp"
	"slices"
)

// Flow says how taint flows through a whole mesh at worst, as its definitions
// allow it: every channel delivers, in every order, for as long as it takes
// (PROTOCOL P8.2). What is reported for an agent at runtime comes on top. It
// is immutable, and may be shared. The zero value says nothing.
type Flow struct {
	// Agents are those of the mesh, in its order.
	Agents []AgentFlow
	// Findings are what adds up, by code in the order of the Finding
	// constants, then by agent.
	Findings []Finding
}

// AgentFlow is the taint of one agent at worst.
type AgentFlow struct {
	Name AgentName
	Base Taint
	// Exposure is the greatest taint that channels deliver to it; low where
	// none does.
	Exposure Taint
	// Answers is the taint of its answers: the greater of what its base steps
	// down to, and its exposure.
	Answers Taint

	legs Legs
}

// FlowOf follows the channels of a mesh to a fixpoint: the least taints that
// satisfy PROTOCOL P8.2 for all agents at once. It takes time in proportion to
// agents and channels. Channels with an end that the mesh does not define are
// left out.
func FlowOf(m *Mesh) *Flow {
	if m == nil {
		return &Flow{}
	}
	g := buildGraph(m)
	f := &Flow{}
	for _, a := range m.Agents {
		base := MaxTaint(a.BaseTaint, TaintLow)
		f.Agents = append(f.Agents, AgentFlow{Name: a.Name, Base: base, Exposure: TaintLow, Answers: base.StepDown()})
	}
	f.spread(g)
	for i := range f.Agents {
		for _, e := range g.asks[i] {
			f.Agents[i].Exposure = MaxTaint(f.Agents[i].Exposure, f.Agents[e.peer].Answers)
		}
	}
	f.Findings = findings(m, g, f)
	return f
}

// Legs returns the legs of the lethal trifecta that an agent has; none for a name
// that the mesh does not define.
func (f *Flow) Legs(name AgentName) Legs {
	for i := range f.Agents {
		if f.Agents[i].Name == name {
			return f.Agents[i].legs
		}
	}
	return Legs{}
}

// AcceptedLegs says of which agents the definitions accept that they have private
// data, untrusted input and a way out, a line each: the audit has them at every start,
// and what a reload changes of them.
func AcceptedLegs(m *Mesh) []string {
	var lines []string
	flow := FlowOf(m)
	for i := range m.Agents {
		a := &m.Agents[i]
		if a.Egress.BudgetStated && flow.Legs(a.Name).All() {
			lines = append(lines, string(a.Name)+" may have private data, untrusted input and a way out (egress_budget_bits)")
		}
	}
	return lines
}

// spread raises the taint of answers from Readers to Controllers, the greatest
// level first, so that nothing is raised twice.
func (f *Flow) spread(g *graph) {
	for level := TaintHigh; level > TaintLow; level-- {
		var queue []int
		for i := range f.Agents {
			if f.Agents[i].Answers == level {
				queue = append(queue, i)
			}
		}
		for len(queue) > 0 {
			reader := queue[0]
			queue = queue[1:]
			for _, e := range g.answers[reader] {
				if f.Agents[e.peer].Answers < level {
					f.Agents[e.peer].Answers = level
					queue = append(queue, e.peer)
				}
			}
		}
	}
}

// graph holds the channels of a mesh by agent, as indexes into its agents.
type graph struct {
	asks    [][]edge // by Controller: its Readers, sorted by name
	answers [][]edge // by Reader: its Controllers, sorted by name
}

type edge struct {
	peer    int
	channel *Channel
}

func buildGraph(m *Mesh) *graph {
	n := len(m.Agents)
	g := &graph{asks: make([][]edge, n), answers: make([][]edge, n)}
	index := make(map[AgentName]int, n)
	for i, a := range m.Agents {
		index[a.Name] = i
	}
	for i := range m.Channels {
		c := &m.Channels[i]
		controller, ok := index[c.Controller]
		reader, known := index[c.Reader]
		if ok && known {
			g.asks[controller] = append(g.asks[controller], edge{reader, c})
			g.answers[reader] = append(g.answers[reader], edge{controller, c})
		}
	}
	for i := range n {
		byName := func(x, y edge) int { return cmp.Compare(m.Agents[x.peer].Name, m.Agents[y.peer].Name) }
		slices.SortStableFunc(g.asks[i], byName)
		slices.SortStableFunc(g.answers[i], byName)
	}
	return g
}
