package contract

import "github.com/bcpmesh/bcpmesh/bcp"

// Report says how far a contract is kept. Its JSON is what role report prints.
type Report struct {
	Role       Role                `json:"role"`
	Contract   bcp.Digest          `json:"contract_sha256"`
	Invariants []InvariantReport   `json:"invariants"`
	Prohibited []ProhibitionReport `json:"prohibited"`
	// OK says that every invariant holds and every prohibition is shown.
	OK bool `json:"ok"`
}

// Verdict says what was found about an invariant. The zero value is invalid.
type Verdict string

// The verdicts.
const (
	Holds      Verdict = "holds"      // shown at the declared level or a stronger one
	Fails      Verdict = "fails"      // something shows the contrary
	Unverified Verdict = "unverified" // nothing shows it at that level
)

// InvariantReport is about one invariant.
type InvariantReport struct {
	ID        string `json:"id"`
	Predicate string `json:"predicate"` // unverified: it has none
	Declared  Level  `json:"declared"`
	// Shown are the levels at which it was shown, strongest first.
	Shown    []Level    `json:"shown"`
	Verdict  Verdict    `json:"verdict"`
	Evidence []Evidence `json:"evidence"`
	// But bounds what the verdict leaves out, for people: a planner hears of errors.
	But string `json:"but,omitzero"`
}

// ProhibitionReport is about one prohibited word.
type ProhibitionReport struct {
	Word string `json:"word"`
	// Predicate is what would show it.
	Predicate string  `json:"predicate"`
	Shown     []Level `json:"shown"`
	Fails     bool    `json:"fails,omitzero"`
}

// Evidence is one thing that speaks for an invariant, or against it.
type Evidence struct {
	Level Level `json:"level"`
	// By says what found it out: proof, types, decoder, monitor, rules or build.
	By string `json:"by"`
	// Against says that it shows the contrary.
	Against bool `json:"against,omitzero"`
	// Detail is for people: the way of a hole, the ids of rules, what was counted.
	Detail string `json:"detail"`
	// Digest is of what was looked at, if that has one.
	Digest bcp.Digest `json:"sha256,omitzero"`
	// Record is the number of the record that shows the contrary.
	Record uint64 `json:"record,omitzero"`
}

// What evidence comes from.
const (
	byProof   = "proof"
	byTypes   = "types"
	byDecoder = "decoder"
	byMonitor = "monitor"
	byRules   = "rules"
	byBuild   = "build"
)
