package contract

import "slices"

// Edge is a way from one role to another. There are eight.
type Edge struct {
	From, To Role
	// Family is the family of subjects that carries it.
	Family string
}

// edges are all the ways between roles. Each has the orchestrator at one end.
var edges = []Edge{
	{User, Orchestrator, "run"},
	{Orchestrator, Planner, "plan"},
	{Planner, Orchestrator, "reply.planner"},
	{Orchestrator, Tool, "call"},
	{Tool, Orchestrator, "reply.tool"},
	{Orchestrator, Processor, "query"},
	{Processor, Orchestrator, "reply.reader"},
	{Orchestrator, User, "deliver"},
}

// Edges returns all the ways between roles.
func Edges() []Edge { return slices.Clone(edges) }

// Passage says how one role reaches another. The zero value is not at all.
type Passage string

// The passages.
const (
	NoPassage Passage = "none"
	// Direct: one of the eight edges.
	Direct Passage = "direct"
	// ByOrchestrator: the orchestrator passes on, in a message of its own, what the
	// first said. So the task of a user comes to the planner, which is the draft's
	// edge from user to planner.
	ByOrchestrator Passage = "orchestrator"
)

// Between says how a role reaches another.
func Between(from, to Role) Passage {
	switch {
	case from == User && to == Planner:
		return ByOrchestrator
	case hasEdge(from, to):
		return Direct
	default:
		return NoPassage
	}
}

func hasEdge(from, to Role) bool {
	return slices.ContainsFunc(edges, func(e Edge) bool { return e.From == from && e.To == to })
}
