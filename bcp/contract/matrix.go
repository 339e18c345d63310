package contract

import "slices"

// Column is a kind of data of the isolation matrix. The zero value is none.
type Column string

// The columns.
const (
	UserQuery    Column = "user_query"
	ToolOutputs  Column = "tool_outputs"
	Plan         Column = "plan"
	ExternalData Column = "external_data"
)

// Columns returns the columns in their order.
func Columns() []Column { return []Column{UserQuery, ToolOutputs, Plan, ExternalData} }

// Known reports whether it is one of the columns.
func (c Column) Known() bool { return slices.Contains(Columns(), c) }

// Sight is what a role sees of a column. The zero value sees nothing.
type Sight string

// What a role may see.
const (
	SeesNot      Sight = "no"
	SeesAll      Sight = "yes"
	SeesOwn      Sight = "own"      // what it made itself, and sends only
	SeesMetadata Sight = "metadata" // it carries the bytes; decisions depend on their labels
)

// Cell is one cell of the isolation matrix.
type Cell struct {
	Role   Role
	Column Column
	Sees   Sight
	// How says by which means, or what keeps it so.
	How string
}

// matrix is the isolation matrix: the draft's 16 cells, and those of tools.
var matrix = []Cell{
	{Planner, UserQuery, SeesAll, "its own requests for plans"},
	{Planner, ToolOutputs, SeesNot, "nothing that it hears can hold content"},
	{Planner, Plan, SeesOwn, "it sends its own, and hears none"},
	{Planner, ExternalData, SeesNot, "nothing that it hears can hold content"},

	{Processor, UserQuery, SeesNot, "it gets an instruction of the plan, never the task"},
	{Processor, ToolOutputs, SeesNot, "it gets the one piece of content that it is to read"},
	{Processor, Plan, SeesNot, "it hears no plans"},
	{Processor, ExternalData, SeesAll, "its own queries, one piece of content each"},

	{Orchestrator, UserQuery, SeesAll, "the gateway's account"},
	{Orchestrator, ToolOutputs, SeesAll, "the gateway's account"},
	{Orchestrator, Plan, SeesAll, "the gateway's account"},
	{Orchestrator, ExternalData, SeesMetadata, "it carries bytes; decisions depend on labels, schemas and rules"},

	{User, UserQuery, SeesAll, "their own"},
	{User, ToolOutputs, SeesAll, "by item or result"},
	{User, Plan, SeesAll, "kernel RUN"},
	{User, ExternalData, SeesAll, "with permission to read raw messages"},

	{Tool, UserQuery, SeesNot, "it gets the arguments of its calls"},
	{Tool, ToolOutputs, SeesOwn, "it sends its own, and hears none"},
	{Tool, Plan, SeesNot, "it hears no plans"},
	{Tool, ExternalData, SeesNot, "it hears calls alone"},
}

// Matrix returns the isolation matrix, role by role, in the order of [Roles] and
// [Columns].
func Matrix() []Cell { return slices.Clone(matrix) }

// Sees returns the cell of a role and a column; of anything else it sees nothing.
func Sees(role Role, column Column) Cell {
	for _, c := range matrix {
		if c.Role == role && c.Column == column {
			return c
		}
	}
	return Cell{Role: role, Column: column, Sees: SeesNot}
}
