package contract

import "slices"

// DefectCode says what is wrong with a contract: a word of a closed list.
type DefectCode string

// What may be wrong with a contract.
const (
	TooLarge           DefectCode = "too_large" // longer than [MaxContract]
	Malformed          DefectCode = "malformed" // not JSON as PROTOCOL P2.2 has it, or a value of another type or length
	MissingKey         DefectCode = "missing_key"
	UnknownKey         DefectCode = "unknown_key"
	UnknownVersion     DefectCode = "unknown_version" // not 1.0
	UnknownRole        DefectCode = "unknown_role"    // not planner, processor or orchestrator
	NoInvariants       DefectCode = "no_invariants"
	TooManyInvariants  DefectCode = "too_many_invariants" // more than 64
	BadID              DefectCode = "bad_id"              // of an invariant: not 1 to 64 letters, digits, hyphens and underscores
	DuplicateID        DefectCode = "duplicate_id"        // of an invariant
	UnknownEnforcement DefectCode = "unknown_enforcement"
	UnknownPredicate   DefectCode = "unknown_predicate"
	BadArguments       DefectCode = "bad_arguments"      // of a predicate
	PredicateMismatch  DefectCode = "predicate_mismatch" // formula and predicate say different things
	UnknownWord        DefectCode = "unknown_word"       // a capability or prohibition that is not in the table
	DuplicateWord      DefectCode = "duplicate_word"     // twice in one list
	WordInBoth         DefectCode = "word_in_both"       // a capability that is prohibited
)

// codeTexts are words of a closed list, in its order, each with what people read.
type codeTexts[C ~string] []struct {
	code C
	text string
}

func (t codeTexts[C]) codes() []C {
	codes := make([]C, len(t))
	for i := range t {
		codes[i] = t[i].code
	}
	return codes
}

// of returns the text of a code, or an unknown one itself.
func (t codeTexts[C]) of(code C) string {
	for i := range t {
		if t[i].code == code {
			return t[i].text
		}
	}
	return string(code)
}

// defectTexts say in one line what is wrong and what would be right.
var defectTexts = codeTexts[DefectCode]{
	{TooLarge, "a contract has at most 64 KiB"},
	{Malformed, "this is not JSON, or not a value of the right type and length"},
	{MissingKey, "the key is missing"},
	{UnknownKey, "a contract has no such key"},
	{UnknownVersion, `the version is not "1.0"`},
	{UnknownRole, "contracts are of a planner, a processor or an orchestrator"},
	{NoInvariants, "a contract has at least one invariant"},
	{TooManyInvariants, "a contract has at most 64 invariants"},
	{BadID, "an id has 1 to 64 letters, digits, hyphens and underscores"},
	{DuplicateID, "another invariant has this id"},
	{UnknownEnforcement, "enforcement is architectural, parser_enforced, schema_validation, orchestrator_enforced or runtime_monitored"},
	{UnknownPredicate, "there is no such predicate; docs/contracts.md lists them"},
	{BadArguments, "these are no arguments of the predicate; docs/contracts.md lists them"},
	{PredicateMismatch, "formal and predicate say different things"},
	{UnknownWord, "there is no such word; docs/contracts.md lists them"},
	{DuplicateWord, "the list has this word twice"},
	{WordInBoth, "a capability cannot be prohibited"},
}

// DefectCodes returns all codes.
func DefectCodes() []DefectCode { return defectTexts.codes() }

// Text returns a sentence for people, or the code itself if it is unknown.
func (c DefectCode) Text() string { return defectTexts.of(c) }

// Defect is one thing that is wrong with a contract.
type Defect struct {
	Code DefectCode `json:"code"`
	// Where is a path of the format's own keys and of indices, such as
	// contract:invariants[0].formal. Empty is the whole contract.
	Where string `json:"where,omitempty"`
	// Unknown is the key below it that a contract does not have: whoever wrote it finds its line.
	Unknown string `json:"-"`
}

// Codes returns the codes of defects, each once, in the order of [DefectCodes].
func Codes(defects []Defect) []DefectCode {
	codes := []DefectCode{}
	for _, code := range DefectCodes() {
		if slices.ContainsFunc(defects, func(d Defect) bool { return d.Code == code }) {
			codes = append(codes, code)
		}
	}
	return codes
}
