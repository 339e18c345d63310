package bcp

import (
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// The enumerations of the protocol. Their wire words and numbers are frozen;
// zero is never a valid member, so that a forgotten field denies.

// Role is what an agent is on a channel, or what a person may do.
type Role uint8

// The roles.
const (
	RoleController Role = 1
	RoleReader     Role = 2
	RoleApprover   Role = 3
	RoleAuditor    Role = 4
	RoleOperator   Role = 5  // whoever owns the state folder; see [Operator]
	RoleKeeper     Role = 6  // what reaches the network in an agent's place
	RolePlanner    Role = 7  // plans the runs of kernels
	RoleTool       Role = 8  // a service whose tools kernels call
	RoleDispatcher Role = 9  // what calls one tool for one kernel, inside the server's process
	RoleSubplanner Role = 10 // plans sub-runs, of what it reads
)

// Category is 1 (typed primitives), 2 (constrained answers) or 3 (a summary
// that a person approves).
type Category uint8

// Valid reports whether c is one of the three categories.
func (c Category) Valid() bool { return c >= 1 && c <= 3 }

// Encoding is how an agent writes its messages (PROTOCOL P2.1).
type Encoding uint8

// The encodings.
const (
	JSON        Encoding = 1
	MessagePack Encoding = 2
)

// Sandbox says what keeps an agent's command from what the mesh can do (PROTOCOL
// P7.5). The zero value is that nobody has said so: such a command is not started.
type Sandbox string

// What confines a command.
const (
	// SandboxNone is nothing: the command runs as the user of the mesh, and can read
	// its keys and its journal. The definition accepts that.
	SandboxNone Sandbox = "none"
	// SandboxOwn is the command itself: it runs the agent as another user, or apart.
	SandboxOwn Sandbox = "own"
	// SandboxRequired is the mesh: the command, or what reads for a model, runs confined,
	// without files, network and creds, or it is not started.
	SandboxRequired Sandbox = "required"
)

// OnAnomaly is what happens to an answer with anomalies (PROTOCOL P3.6). Its
// zero value is Hold.
type OnAnomaly uint8

// What an anomaly leads to.
const (
	AnomalyHold    OnAnomaly = 0 // held for a person, unless all signs are weak
	AnomalyReject  OnAnomaly = 1 // refused, unless all signs are weak
	AnomalyFlag    OnAnomaly = 2 // delivered with the codes attached
	AnomalyHoldAll OnAnomaly = 3 // held for a person, for a weak sign too
)

// Type is the type of a category 1 field.
type Type uint8

// The field types.
const (
	TypeBoolean Type = 1
	TypeEnum    Type = 2
	TypeInteger Type = 3
	TypeSealed  Type = 4 // a text that nobody reads but who it is handed to
)

// Format is the expected format of a category 2 answer.
type Format uint8

// The formats. FormatSummary is the one of a category 3 answer and cannot be
// asked for by name.
const (
	FormatPersonName Format = 1
	FormatDate       Format = 2
	FormatEmail      Format = 3
	FormatShortText  Format = 4
	FormatShortList  Format = 5
	FormatInteger    Format = 6
	FormatBoolean    Format = 7
	FormatEnum       Format = 8
	FormatTime       Format = 9
	FormatVocabulary Format = 10
	FormatSummary    Format = 11

	formatSealed Format = 12 // of a field, without a word
)

// Outcome is the verdict on an answer. The zero value denies.
type Outcome uint8

// The verdicts.
const (
	Accept Outcome = 1
	Hold   Outcome = 2
	Reject Outcome = 3
)

var (
	roleWords     = []string{"", "controller", "reader", "approver", "auditor", "operator", "keeper", "planner", "tool", "dispatcher", "subplanner"}
	encodingWords = []string{"", "json", "msgpack"}
	anomalyWords  = []string{"hold", "reject", "flag", "hold_all"}
	typeWords     = []string{"", "boolean", "enum", "integer", "sealed"}
	formatWords   = []string{"", "person_name", "date", "email", "short_text", "short_list", "integer", "boolean", "enum", "time", "vocabulary", "summary"}
	outcomeWords  = []string{"", "accept", "hold", "reject"}
)

// IsAgent reports whether it is a role of agents, and not of people.
func (r Role) IsAgent() bool { return r == RoleController || r == RoleReader }

func (r Role) String() string      { return wire.Word(roleWords, r) }
func (e Encoding) String() string  { return wire.Word(encodingWords, e) }
func (a OnAnomaly) String() string { return wire.Word(anomalyWords, a) }
func (t Type) String() string      { return wire.Word(typeWords, t) }
func (f Format) String() string    { return wire.Word(formatWords, f) }
func (o Outcome) String() string   { return wire.Word(outcomeWords, o) }

// They are written and read as exactly their words. A zero value that has no word is not written; "summary" is not read.

func (r Role) MarshalText() ([]byte, error)      { return wire.MarshalWord(roleWords, r) }
func (e Encoding) MarshalText() ([]byte, error)  { return wire.MarshalWord(encodingWords, e) }
func (a OnAnomaly) MarshalText() ([]byte, error) { return wire.MarshalWord(anomalyWords, a) }
func (t Type) MarshalText() ([]byte, error)      { return wire.MarshalWord(typeWords, t) }
func (f Format) MarshalText() ([]byte, error)    { return wire.MarshalWord(formatWords, f) }
func (o Outcome) MarshalText() ([]byte, error)   { return wire.MarshalWord(outcomeWords, o) }

func (r *Role) UnmarshalText(b []byte) error      { return wire.ParseWord(roleWords, b, r) }
func (e *Encoding) UnmarshalText(b []byte) error  { return wire.ParseWord(encodingWords, b, e) }
func (a *OnAnomaly) UnmarshalText(b []byte) error { return wire.ParseWord(anomalyWords, b, a) }
func (t *Type) UnmarshalText(b []byte) error      { return wire.ParseWord(typeWords, b, t) }
func (f *Format) UnmarshalText(b []byte) error {
	return wire.ParseWord(formatWords[:FormatSummary], b, f)
}

// Taint says how far an agent may be under the influence of hostile content.
// The zero value is unknown and counts as high (PROTOCOL P8.1).
type Taint uint8

// The levels.
const (
	TaintUnknown Taint = 0
	TaintLow     Taint = 1
	TaintMedium  Taint = 2
	TaintHigh    Taint = 3
)

var taintWords = []string{"", "low", "medium", "high"}

func (t Taint) String() string { return taintWords[t.level()] }

// MarshalText returns low, medium or high; unknown is high.
func (t Taint) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText accepts low, medium and high.
func (t *Taint) UnmarshalText(b []byte) error { return wire.ParseWord(taintWords, b, t) }

// StepDown is the taint of a validated answer of an agent with taint t: high
// becomes medium, medium and low become low (BCP-140 to BCP-142). It never
// looks at content.
func (t Taint) StepDown() Taint {
	if t.level() == TaintHigh {
		return TaintMedium
	}
	return TaintLow
}

// MaxTaint returns the greater of two levels.
func MaxTaint(a, b Taint) Taint { return max(a.level(), b.level()) }

// level maps unknown, and every number that is no level, to high.
func (t Taint) level() Taint {
	if t == TaintUnknown || t > TaintHigh {
		return TaintHigh
	}
	return t
}
