package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Predicate is an invariant in the form in which it can be checked: a name of a
// closed set and its arguments. The zero value is no predicate, and never holds.
type Predicate struct {
	Name string
	Args []Arg
}

// Arg is one argument: a word, or a set of words. A set is sorted.
type Arg struct {
	Word string
	Set  []string // nil: a word
}

// The names of predicates.
const (
	NeverReceives = "never_receives" // (role, data): the data is never sent to the role
	FunctionOf    = "function_of"    // (output, inputs): made of these inputs and nothing else
	Conforms      = "conforms"       // (output, schema): nothing else gets through
	HasNone       = "has_none"       // (role, kind): the role has none of that kind
	OnlyMessages  = "only_messages"  // (from, to, kinds): one role tells another nothing else
	Deterministic = "deterministic"  // (role): the same records give the same decisions
	Gated         = "gated"          // (effects): each effect follows a recorded verdict that allows it
	DecidesOn     = "decides_on"     // (role, data): decisions depend on nothing else
)

// The words that arguments are made of.
var (
	contractRoles = []string{string(Planner), string(Processor), string(Orchestrator)}
	speakingRoles = []string{string(Planner), string(Processor), string(Orchestrator), string(Tool), string(User)}
	dataWords     = []string{string(UserQuery), string(ToolOutputs), string(Plan), string(ExternalData)}
	outputWords   = []string{"planner.output", "processor.output"}
	inputWords    = []string{"user_query", "tool_signatures", "schemas", "errors", "instruction", "content"}
	schemaWords   = []string{planSchema, requestedSchema}
	kindWords     = []string{"tools"}
	messageWords  = []string{
		"task", "plan_request", "error", "plan", "call", "outcome", "content", "structured_data", "not_enough_information", "result",
	}
	effectWords   = []string{"effects"}
	decisionWords = []string{"metadata"}
)

const (
	planSchema      = "plan"
	requestedSchema = "schema(planner.request)"
)

// parameter says what one argument of a predicate may be.
type parameter struct {
	words []string
	set   bool
}

// signature is a predicate's name with its parameters, and what the facts say about one.
type signature struct {
	name       string
	parameters []parameter
	evidence   func(*Facts, Predicate) []Evidence
}

// signatures are the closed set of predicates.
var signatures = []signature{
	{NeverReceives, []parameter{{words: speakingRoles}, {words: dataWords}}, (*Facts).neverReceives},
	{FunctionOf, []parameter{{words: outputWords}, {words: inputWords, set: true}}, (*Facts).checkPlannerInput},
	{Conforms, []parameter{{words: outputWords}, {words: schemaWords}}, (*Facts).decoder},
	{HasNone, []parameter{{words: contractRoles}, {words: kindWords}}, (*Facts).noTools},
	{OnlyMessages, []parameter{{words: speakingRoles}, {words: speakingRoles}, {words: messageWords, set: true}}, (*Facts).onlyMessages},
	{Deterministic, []parameter{{words: contractRoles}}, (*Facts).pure},
	{Gated, []parameter{{words: effectWords}}, (*Facts).gated},
	{DecidesOn, []parameter{{words: contractRoles}, {words: decisionWords}}, (*Facts).rules},
}

// signatureOf returns the signature of a name, or nil.
func signatureOf(name string) *signature {
	for i := range signatures {
		if signatures[i].name == name {
			return &signatures[i]
		}
	}
	return nil
}

// PredicateNames returns the names of all predicates.
func PredicateNames() []string {
	names := make([]string, len(signatures))
	for i, s := range signatures {
		names[i] = s.name
	}
	return names
}

// predicate makes one of our own.
func predicate(name string, args ...any) Predicate {
	p := Predicate{Name: name}
	for _, arg := range args {
		switch arg := arg.(type) {
		case []string:
			p.Args = append(p.Args, setArg(arg))
		default: // a string, a Role or a Column
			p.Args = append(p.Args, Arg{Word: fmt.Sprint(arg)})
		}
	}
	return p
}

func setArg(words []string) Arg {
	return Arg{Set: append([]string{}, slices.Compact(slices.Sorted(slices.Values(words)))...)}
}

// IsZero reports whether it is no predicate.
func (p Predicate) IsZero() bool { return p.Name == "" }

// String writes a predicate as name(word, [word, word]), and the zero value as
// unverified.
func (p Predicate) String() string {
	if p.IsZero() {
		return "unverified"
	}
	args := make([]string, len(p.Args))
	for i, a := range p.Args {
		args[i] = a.String()
	}
	return p.Name + "(" + strings.Join(args, ", ") + ")"
}

// String writes a word, or a set in the order of the table of words.
func (a Arg) String() string {
	if a.Set == nil {
		return a.Word
	}
	return "[" + strings.Join(tableOrder(a.Set), ", ") + "]"
}

// tableOrder returns words in the order of their table, which is that of the draft.
func tableOrder(words []string) []string {
	for _, table := range [][]string{inputWords, messageWords} {
		ordered := slices.DeleteFunc(slices.Clone(table), func(w string) bool { return !slices.Contains(words, w) })
		if len(ordered) == len(words) {
			return ordered
		}
	}
	return words
}

// Equal reports whether two predicates say the same.
func (p Predicate) Equal(q Predicate) bool {
	return p.Name == q.Name && slices.EqualFunc(p.Args, q.Args, Arg.Equal)
}

// matches reports whether a predicate has a name, and arguments if any are given.
func (p Predicate) matches(name string, args []Arg) bool {
	return p.Name == name && (len(args) == 0 || slices.EqualFunc(p.Args, args, Arg.Equal))
}

// Equal reports whether two arguments are the same. The order of a set says nothing.
func (a Arg) Equal(b Arg) bool {
	return a.Word == b.Word && (a.Set == nil) == (b.Set == nil) && slices.Equal(a.Set, b.Set)
}

// word returns the n-th argument, which the signature says is a word.
func (p Predicate) word(n int) string {
	if n < len(p.Args) {
		return p.Args[n].Word
	}
	return ""
}

// set returns the n-th argument, which the signature says is a set.
func (p Predicate) set(n int) []string {
	if n < len(p.Args) {
		return p.Args[n].Set
	}
	return nil
}

// subject returns the role that a predicate is about: whose contract states it.
func (p Predicate) subject() Role {
	switch p.Name {
	case Gated:
		return Orchestrator
	case FunctionOf, Conforms:
		output, _, _ := strings.Cut(p.word(0), ".")
		return Role(output)
	default:
		return Role(p.word(0))
	}
}

// ParsePredicate reads a predicate of the closed set: {"name": …, "args": […]}. The
// code is empty if it is one.
func ParsePredicate(b []byte) (Predicate, DefectCode) {
	var doc struct {
		Name *string          `json:"name"`
		Args []jsontext.Value `json:"args"`
	}
	if !decode(b, &doc) || doc.Name == nil || doc.Args == nil {
		return Predicate{}, Malformed
	}
	return readArgs(*doc.Name, doc.Args)
}

// MarshalText is [Predicate.String].
func (p Predicate) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalJSON is [ParsePredicate].
func (p *Predicate) UnmarshalJSON(b []byte) error {
	parsed, code := ParsePredicate(b)
	if *p = parsed; code != "" {
		return errors.New("contract: " + code.Text())
	}
	return nil
}

// readArgs reads the arguments of a predicate by its signature.
func readArgs(name string, args []jsontext.Value) (Predicate, DefectCode) {
	s := signatureOf(name)
	switch {
	case s == nil:
		return Predicate{}, UnknownPredicate
	case len(args) != len(s.parameters):
		return Predicate{}, BadArguments
	}
	p := Predicate{Name: name}
	for i, parameter := range s.parameters {
		arg, ok := parameter.read(args[i])
		if !ok {
			return Predicate{}, BadArguments
		}
		p.Args = append(p.Args, arg)
	}
	return p, ""
}

// read reads an argument. A set may be empty, and has no word twice.
func (p parameter) read(v jsontext.Value) (Arg, bool) {
	unknown := func(word string) bool { return !slices.Contains(p.words, word) }
	if !p.set {
		var word string
		err := json.Unmarshal(v, &word)
		return Arg{Word: word}, err == nil && !unknown(word)
	}
	var words []string
	err := json.Unmarshal(v, &words)
	arg := setArg(words)
	return arg, err == nil && words != nil && !slices.ContainsFunc(words, unknown) && len(arg.Set) == len(words)
}
