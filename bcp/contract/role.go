package contract

import "slices"

// Role is what a part of a dual-execution mesh is for. The zero value is none.
type Role string

// The roles. The first three have contracts.
const (
	Planner      Role = "planner"      // answers a task with a plan, and sees no content
	Processor    Role = "processor"    // a Reader: turns content into typed values
	Orchestrator Role = "orchestrator" // the interpreter inside the gateway
	Tool         Role = "tool"         // does calls; what it answers is hostile
	User         Role = "user"         // gives tasks, approves, hears results
)

// Roles returns every role, in the order of the isolation matrix.
func Roles() []Role { return []Role{Planner, Processor, Orchestrator, User, Tool} }

// ParseRole returns the role that a word names. A group of tools is the tool role.
func ParseRole(word string) (Role, bool) {
	if word == "tools" {
		return Tool, true
	}
	return Role(word), slices.Contains(Roles(), Role(word))
}

// hasContract reports whether a contract may be about the role.
func (r Role) hasContract() bool { return r == Planner || r == Processor || r == Orchestrator }

// Level is how an invariant is held. A greater level is stronger; the zero value is
// [Declared], which nothing satisfies. The order is frozen.
type Level uint8

// The levels.
const (
	Declared      Level = 0 // somebody says so
	Monitored     Level = 1 // each step is checked while it runs, and recorded
	Parser        Level = 2 // what breaks it cannot be said in the messages
	Architectural Level = 3 // what breaks it cannot be sent
)

var levelWords = [...]string{"declared", "monitored", "parser", "architectural"}

func (l Level) String() string {
	if int(l) >= len(levelWords) {
		return "invalid"
	}
	return levelWords[l]
}

// MarshalText returns the word.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// ParseLevel returns the level that a word names. It knows those that can be
// demanded: not declared.
func ParseLevel(word string) (Level, bool) {
	i := slices.Index(levelWords[:], word)
	if i < int(Monitored) {
		return Declared, false
	}
	return Level(i), true
}

// enforcements are the words of a contract for its levels.
var enforcements = map[string]Level{
	"architectural":         Architectural,
	"parser_enforced":       Parser,
	"schema_validation":     Parser,
	"orchestrator_enforced": Monitored,
	"runtime_monitored":     Monitored,
}
