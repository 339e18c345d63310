package lint

import (
	"cmp"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
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

	legs  []Legs // by agent
	names []bcp.AgentName
	from  []int // the Reader that an agent's exposure comes from; -1 none
	step  []int // the Reader that the taint of its answers comes from; -1 its own
}

// AgentFlow is the taint of one agent at worst.
type AgentFlow struct {
	Name bcp.AgentName
	Base bcp.Taint
	// Exposure is the greatest taint that channels deliver to it; low where
	// none does.
	Exposure bcp.Taint
	// Answers is the taint of its answers: the greater of what its base steps
	// down to, and its exposure.
	Answers bcp.Taint
}

// FlowOf follows the channels of a mesh to a fixpoint: the least taints that
// satisfy PROTOCOL P8.2 for all agents at once. It takes time in proportion to
// agents and channels. Channels with an end that the mesh does not define are
// left out.
func FlowOf(m *bcp.Mesh) *Flow {
	if m == nil {
		return &Flow{}
	}
	g := buildGraph(m)
	f := &Flow{names: g.names, from: make([]int, len(g.names)), step: make([]int, len(g.names))}
	for _, a := range m.Agents {
		base := bcp.MaxTaint(a.BaseTaint, bcp.TaintLow)
		f.Agents = append(f.Agents, AgentFlow{Name: a.Name, Base: base, Exposure: bcp.TaintLow, Answers: base.StepDown()})
	}
	distance := f.spread(g)
	for i := range f.Agents {
		f.from[i] = -1
		for _, e := range g.asks[i] {
			taint, best := f.Agents[e.peer].Answers, f.Agents[i].Exposure
			if taint > best || taint == best && taint > bcp.TaintLow && distance[e.peer] < distance[f.from[i]] {
				f.Agents[i].Exposure, f.from[i] = taint, e.peer
			}
		}
	}
	f.Findings = findings(m, g, f)
	return f
}

// Legs returns the legs of the lethal trifecta that an agent has; none for a name
// that the mesh does not define.
func (f *Flow) Legs(name bcp.AgentName) Legs {
	for i := range f.legs {
		if f.Agents[i].Name == name {
			return f.legs[i]
		}
	}
	return Legs{}
}

// spread raises the taint of answers from Readers to Controllers, the greatest
// level first and level by level the nearest agents first, so that nothing is
// raised twice. It returns how many channels each taint has come through.
func (f *Flow) spread(g *graph) []int {
	distance := make([]int, len(f.Agents))
	for i := range f.step {
		f.step[i] = -1
	}
	for level := bcp.TaintHigh; level > bcp.TaintLow; level-- {
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
				if f.Agents[e.peer].Answers >= level {
					continue
				}
				f.Agents[e.peer].Answers, f.step[e.peer] = level, reader
				distance[e.peer] = distance[reader] + 1
				queue = append(queue, e.peer)
			}
		}
	}
	return distance
}

// Way returns the shortest way on which the agent with this index in Agents
// gets its exposure: from the agent that is tainted by itself to this one. It
// is empty where the exposure is low, and for an index out of range.
func (f *Flow) Way(agent int) []bcp.AgentName {
	if agent < 0 || agent >= len(f.names) || f.from[agent] < 0 || f.Agents[agent].Exposure == bcp.TaintLow {
		return nil
	}
	way := []bcp.AgentName{f.names[agent]}
	for i := f.from[agent]; i >= 0; i = f.step[i] {
		way = append(way, f.names[i])
	}
	slices.Reverse(way)
	return way
}

// graph holds the channels of a mesh by agent, as indexes into its agents.
type graph struct {
	names   []bcp.AgentName
	asks    [][]edge // by Controller: its Readers, sorted by name
	answers [][]edge // by Reader: its Controllers, sorted by name
}

type edge struct {
	peer    int
	channel *bcp.Channel
}

func buildGraph(m *bcp.Mesh) *graph {
	n := len(m.Agents)
	g := &graph{asks: make([][]edge, n), answers: make([][]edge, n)}
	index := make(map[bcp.AgentName]int, n)
	for i, a := range m.Agents {
		g.names = append(g.names, a.Name)
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
		byName := func(x, y edge) int { return cmp.Compare(g.names[x.peer], g.names[y.peer]) }
		slices.SortStableFunc(g.asks[i], byName)
		slices.SortStableFunc(g.answers[i], byName)
	}
	return g
}

// components returns for each agent a number that it shares with exactly those
// that its answers can reach and whose answers can reach it, and how many
// agents have that number (Tarjan).
func (g *graph) components() (component, size []int) {
	n := len(g.names)
	component = make([]int, n)
	low, order := make([]int, n), make([]int, n) // order 0: not visited
	var open []int
	visited := 0
	var visit func(i int)
	visit = func(i int) {
		visited++
		order[i], low[i], component[i] = visited, visited, -1
		open = append(open, i)
		for _, e := range g.answers[i] {
			if order[e.peer] == 0 {
				visit(e.peer)
				low[i] = min(low[i], low[e.peer])
			} else if component[e.peer] < 0 {
				low[i] = min(low[i], order[e.peer])
			}
		}
		if low[i] < order[i] {
			return
		}
		size = append(size, 0)
		for component[i] < 0 {
			last := len(open) - 1
			component[open[last]] = len(size) - 1
			size[len(size)-1]++
			open = open[:last]
		}
	}
	for i := range n {
		if order[i] == 0 {
			visit(i)
		}
	}
	return component, size
}

// loop returns the shortest way from an agent's answers back to it, with it at
// both ends, inside its component.
func (g *graph) loop(start int, component []int) []bcp.AgentName {
	before := map[int]int{}
	for queue := []int{start}; len(queue) > 0; {
		i := queue[0]
		queue = queue[1:]
		for _, e := range g.answers[i] {
			if _, seen := before[e.peer]; seen || component[e.peer] != component[start] {
				continue
			}
			before[e.peer] = i
			queue = append(queue, e.peer)
		}
	}
	way := []bcp.AgentName{g.names[start]}
	for i, ok := before[start]; ok; i, ok = before[i] {
		way = append(way, g.names[i])
		if i == start {
			break
		}
	}
	slices.Reverse(way)
	return way
}
