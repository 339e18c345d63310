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
	Roles   *Claim `json:"roles"`
	Effects *Claim `json:"effects"`
	// Messages are all the types of messages between roles, each of them closed.
	Messages []MessageType `json:"messages"`
	// Decoders are the strict decoders, tested with their embedded vectors.
	Decoders []SelfTest `json:"decoders"`
	// Monitors are the counters of what is checked while runs go on.
	Monitors []Monitor `json:"monitors"`
	// ErrorBits is how much the errors of one run can tell a planner, of which content may
	// have chosen all: the greatest max_planner_bits of the kernels.
	ErrorBits int `json:"-"`
	// Rules says what the rules of the kernels read.
	Rules *Rules `json:"rules"`
	// Build says what the program is made of.
	Build *Build `json:"build"`
}

// Claim is what a permission proof shows.
type Claim struct {
	// JWTs is the digest of the JWTs that were proven.
	JWTs bcp.Digest `json:"jwts"`
	// Holes are the ways past the claim. With any of them the claim shows nothing.
	Holes []Hole `json:"holes"`
}

// Hole is one way past a claim: a role that hears a column, or one that reaches
// another.
type Hole struct {
	Role   Role   `json:"role"`   // who hears, or speaks
	Column Column `json:"column"` // what it hears; or
	To     Role   `json:"to"`     // whom it reaches
	// Way is the way for people: accounts, agents and subjects.
	Way string `json:"way"`
}

// MessageType is the closed type of what one role can be sent by another.
type MessageType struct {
	From Role `json:"from"`
	To   Role `json:"to"`
	// Kind is what the message is: a word of [OnlyMessages].
	Kind string `json:"kind"`
	// Holds are the columns that the type has room for.
	Holds []Column `json:"holds"`
}

// SelfTest is the result of a decoder over its embedded vectors.
type SelfTest struct {
	// Output is what the decoder reads: planner.output or processor.output.
	Output string `json:"output"`
	// Vectors is the digest of the vectors; Passed and Failed count them.
	Vectors bcp.Digest `json:"vectors"`
	Passed  int        `json:"passed"`
	Failed  int        `json:"failed"`
}

// Monitor counts how often a predicate was checked at run time.
type Monitor struct {
	Predicate Predicate `json:"predicate"`
	Checked   uint64    `json:"checked"`
	Violated  uint64    `json:"violated"`
	// First is the number of the first record with a violation.
	First uint64 `json:"first"`
	// Since is the journal time from which on it was counted.
	Since time.Time `json:"since"`
}

// Rules says what rules read.
type Rules struct {
	Digest bcp.Digest `json:"sha256"`
	// ReadData are the ids of rules that say reads: data.
	ReadData []string `json:"read_data"`
}

// Build is the program that decides.
type Build struct {
	Version string `json:"version"`
	// PureInterpreter says that the interpreter's import table was checked for this
	// build: it reaches no clock, randomness, network or model.
	PureInterpreter bool `json:"pure_interpreter"`
}
