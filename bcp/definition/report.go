package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
)

// Problem is one error or warning and where it is. Its JSON form is a
// contract (`bcpmesh check --json`).
type Problem struct {
	// File is the path inside the folder; "." where the folder as a whole is
	// meant.
	File string `json:"file"`
	// Line and Column count from 1; a column is a code point.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Code is one of the Code constants, or of the Finding constants of package bcp.
	Code string `json:"code"`
	// Key is the path of the key inside the file, such as
	// "bcp_channels[0].budget_bits"; empty where no key is meant.
	Key string `json:"key"`
	// Message says what was expected.
	Message string `json:"message"`
}

// String returns file:line:column: key: message.
func (p Problem) String() string {
	at := p.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column) + ": "
	if p.Key != "" {
		at += p.Key + ": "
	}
	return at + p.Message
}

// The codes of errors. The words are frozen.
const (
	CodeUnreadable      = "unreadable"       // the file system refused
	CodeTooLarge        = "too_large"        // a file or the folder
	CodeTooMany         = "too_many"         // files, keys, words or problems
	CodeTooDeep         = "too_deep"         // nesting
	CodeEncoding        = "encoding"         // BOM, invalid UTF-8, control characters
	CodeFrontMatter     = "front_matter"     // no --- lines around the YAML of an agent
	CodeSyntax          = "syntax"           // not YAML
	CodeForbiddenYAML   = "forbidden_yaml"   // YAML that definitions do without
	CodeNull            = "null"             // a key without a value
	CodeUnknownKey      = "unknown_key"      // with the key that may have been meant
	CodeDuplicateKey    = "duplicate_key"    // with the line of the first
	CodeMissingKey      = "missing_key"      // a required key
	CodeControllerOnly  = "controller_only"  // a key that a reader entry may not have
	CodeWrongType       = "wrong_type"       // text for a number and the like
	CodeOutOfRange      = "out_of_range"     // a number, a length or a count
	CodeBadValue        = "bad_value"        // right type, wrong form
	CodeUnknownWord     = "unknown_word"     // not one of a closed list
	CodeDuplicate       = "duplicate"        // a name, id, entry or word twice
	CodeNoAgents        = "no_agents"        // in the whole folder
	CodePersonIsAgent   = "person_is_agent"  // people are never agents
	CodeUnknownPerson   = "unknown_person"   // an approver that the mesh does not name
	CodeUnknownList     = "unknown_list"     // a word list that the mesh does not have
	CodeSelfChannel     = "self_channel"     // a channel has two agents
	CodeNoCounterpart   = "no_counterpart"   // also a warning
	CodeReaderPushes    = "reader_entry"     // a subscription on a reader entry
	CodeAboveCategory   = "category_denied"  // a subscription above max_category
	CodeInvalidSpec     = "invalid_spec"     // refused by bcp.Compile
	CodeReleaseInterval = "release_interval" // a capacity budget needs one
	CodeKernel          = "kernel"           // what is wrong with a kernel, a rule or a tool
	CodeRole            = "role"             // an agent with a role that it cannot have
	CodeContract        = "contract"         // a file in contracts that is none
	CodeTrust           = "trust"            // an entry of trust or a role requirement that is none, or is missing
	CodeOneProgram      = "one_program"      // warning: planner and processor are one program
	CodeWitness         = "witness"          // require_witness on a cluster
	CodeCommandUser     = "command_user"     // a command as the user of the mesh
	CodeNoCommand       = "no_command"       // a program that is not there
	CodeNoModel         = "no_model"         // a model that cannot be called
	CodeNoPrice         = "no_price"         // a cost_budget for a model that nobody knows the price of
	CodeNoFile          = "no_file"          // what a tool cannot read
	CodeSandbox         = "sandbox"          // what the mesh cannot confine as it is said
	CodeSecret          = "secret"           // a token, a private key, a password in a URL
	CodeIgnoredFile     = "ignored_file"     // warning: not a file of a definition
	CodeFileName        = "file_name"        // warning: differs from the agent's name
	CodeOverBudget      = "over_budget"      // warning: never fits its budget
	CodeWindowOff       = "window_off"       // warning: only epochs limit the channel
	CodeCategory3       = "category_3"       // warning: every push waits for a person
	CodeNoApprovers     = "no_approvers"     // warning: nobody can approve
	CodeCapacity        = "capacity"         // warning: capacity above 4 x nominal
	CodeNoEffect        = "no_effect"        // warning: a limit that never applies
	CodeConstant        = "constant"         // warning: every push says the same
	CodeTotalParts      = "total_parts"      // warning: pushes may take more than half of a total budget
	CodeSecretLike      = "secret_like"      // warning: a value that may be a secret

	CodeArgumentsOut   = "arguments_out"   // warning: secrets may leave with arguments of a query
	CodeAdviceMentions = "advice_mentions" // warning: a critical argument that no rule compares with the task
)

// Report holds everything that is wrong with a folder, sorted by file, line
// and column. Warnings never keep a mesh from loading.
type Report struct {
	Errors   []Problem
	Warnings []Problem
}

// OK reports whether there is no error.
func (r Report) OK() bool { return len(r.Errors) == 0 }

// source is one file while it is read; problems go through it to the report.
type source struct {
	path   string
	report *Report
	failed bool // an error was added
}

func (s *source) errorf(at position, code, key, format string, args ...any) {
	s.failed = true
	s.report.Errors = add(s.report.Errors, s.problem(at, code, key, fmt.Sprintf(format, args...)))
}

func (s *source) warnf(at position, code, key, format string, args ...any) {
	s.report.Warnings = add(s.report.Warnings, s.problem(at, code, key, fmt.Sprintf(format, args...)))
}

func (s *source) problem(at position, code, key, message string) Problem {
	return Problem{
		File: shown(s.path), Line: max(at.line, 1), Column: max(at.column, 1), Code: code,
		Key: shown(guard.Redact(key, guard.Keys)), Message: shown(guard.Redact(message, guard.Keys)),
	}
}

// shown makes text safe to show wherever it came from: bounded, and without
// what could steer a terminal.
func shown(text string) string {
	const longest = 2000
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return inert.Line(text)
}

// add keeps at most maxProblems; the last one says that there are more.
func add(problems []Problem, p Problem) []Problem {
	if len(problems) == maxProblems-1 {
		p = Problem{File: p.File, Line: p.Line, Column: p.Column, Code: CodeTooMany, Message: "there are more problems; these are the first"}
	}
	if len(problems) == maxProblems {
		return problems
	}
	return append(problems, p)
}

func (r *Report) sort() {
	for _, problems := range [][]Problem{r.Errors, r.Warnings} {
		slices.SortStableFunc(problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
	}
}

// quote returns text for a message: without secrets, escaped and short.
func quote(text string) string {
	runes := []rune(guard.Redact(text, guard.Keys)) // before it is cut, which would leave half of one
	if len(runes) > maxQuoted {
		return strconv.QuoteToASCII(string(runes[:maxQuoted])) + "…"
	}
	return strconv.Quote(string(runes))
}
