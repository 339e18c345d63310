package contract

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Facts are what was found out about a mesh, by whoever calls this package. The zero
// value shows nothing, and neither does a part that is missing.
type Facts struct {
	// Roles and Effects are claims of the permission proof, computed from the JWTs
	// that the server enforces: who hears the subjects of each column and speaks
	// along which edge, and that each call subject has one publisher.
	Roles   *Claim
	Effects *Claim
	// Messages are all the types of messages between roles, each of them closed.
	Messages []MessageType
	// Decoders are the strict decoders, tested with their embedded vectors.
	Decoders []SelfTest
	// Monitors are the counters of what is checked while runs go on.
	Monitors []Monitor
	// ErrorBits is how much the errors of one run can tell a planner, of which content may
	// have chosen all: the greatest max_planner_bits of the kernels.
	ErrorBits int
	// Rules says what the rules of the kernels read.
	Rules *Rules
	// Build says what the program is made of.
	Build *Build
}

// Claim is what a permission proof shows.
type Claim struct {
	// JWTs is the digest of the JWTs that were proven.
	JWTs bcp.Digest
	// Holes are the ways past the claim. With any of them the claim shows nothing.
	Holes []Hole
}

// Hole is one way past a claim: a role that hears a column, or one that reaches
// another.
type Hole struct {
	Role   Role   // who hears, or speaks
	Column Column // what it hears; or
	To     Role   // whom it reaches
	// Way is the way for people: accounts, agents and subjects.
	Way string
}

// MessageType is the closed type of what one role can be sent by another.
type MessageType struct {
	From, To Role
	// Kind is what the message is: a word of [OnlyMessages].
	Kind string
	// Holds are the columns that the type has room for.
	Holds []Column
}

// SelfTest is the result of a decoder over its embedded vectors.
type SelfTest struct {
	// Output is what the decoder reads: planner.output or processor.output.
	Output string
	// Vectors is the digest of the vectors; Passed and Failed count them.
	Vectors        bcp.Digest
	Passed, Failed int
}

// Monitor counts how often a predicate was checked at run time.
type Monitor struct {
	Predicate Predicate
	Checked   uint64
	Violated  uint64
	// First is the number of the first record with a violation.
	First uint64
	// Since is the journal time from which on it was counted.
	Since time.Time
}

// Rules says what rules read.
type Rules struct {
	Digest bcp.Digest
	// ReadData are the ids of rules that say reads: data.
	ReadData []string
}

// Build is the program that decides.
type Build struct {
	Version string
	// PureInterpreter says that the interpreter's import table was checked for this
	// build: it reaches no clock, randomness, network or model.
	PureInterpreter bool
}
