package tool

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	// MaxChars is how many code points of a text one result has.
	MaxChars = 100_000

	maxArguments = 64 << 10 // bytes
	maxQuoted    = 512      // code points of a quoted text
)

// Failure says why a call failed. It is an error with a constant text. The zero value is no failure.
type Failure string

// The failures.
const (
	BadArguments  Failure = "arguments"      // not of the tool's schema
	UnknownNumber Failure = "unknown_number" // nothing was listed under the number, or not this kind of thing
	NoSuchPart    Failure = "no_such_part"
	Gone          Failure = "gone"     // removed or replaced
	NotText       Failure = "not_text" // of a file
	TooLarge      Failure = "too_large"
	Unreadable    Failure = "unreadable"
	TimedOut      Failure = "timeout"
	Changed       Failure = "tool_changed" // its listing differs from what an operator reviewed
	Unavailable   Failure = "unavailable"  // its server does not run
	SetAside      Failure = "set_aside"    // reading it has ended a cell
)

// ReadFailure says why a file cannot be opened, or a folder listed.
func ReadFailure(err error) Failure {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return Unreadable
	case errors.Is(err, disk.ErrTooMany):
		return TooLarge
	}
	return Gone // also where a path leads out, or something else is in its place
}

// failures are the texts for models.
var failures = map[Failure]llm.Instruction{
	BadArguments:  llm.Constant("The call failed: the arguments are not as the tool's schema says (arguments)."),
	UnknownNumber: llm.Constant("The call failed: nothing of this kind was listed under this number (unknown_number)."),
	NoSuchPart:    llm.Constant("The call failed: there is no such part (no_such_part)."),
	Gone:          llm.Constant("The call failed: it is no longer there, or was changed (gone)."),
	NotText:       llm.Constant("The call failed: it is not text (not_text)."),
	TooLarge:      llm.Constant("The call failed: it is too large (too_large)."),
	Unreadable:    llm.Constant("The call failed: it cannot be read (unreadable)."),
	TimedOut:      llm.Constant("The call failed: it took too long (timeout)."),
	Changed:       llm.Constant("The call failed: the tool is not what it was when it was allowed, and is off (tool_changed)."),
	SetAside:      llm.Constant("The call failed: reading this has ended this program before, and so it is set aside (set_aside)."),
	Unavailable:   llm.Constant("The call failed: the tool's server does not run (unavailable)."),
}

// Error returns the constant text of a listed failure, and of any other that it failed.
func (f Failure) Error() string { return f.Output().Trusted.Text() }

// Output returns the text for the model. It is not fenced.
func (f Failure) Output() llm.Output {
	text, ok := failures[f]
	if !ok {
		text = llm.Failure("", 0)
	}
	return llm.Output{Trusted: text, Failed: true}
}

// Arguments reads the arguments of a call strictly: an unknown or repeated member, or more than 64 KiB, is [BadArguments].
func Arguments(raw jsontext.Value, into any) error {
	if len(raw) > maxArguments || json.Unmarshal(raw, into, json.RejectUnknownMembers(true)) != nil {
		return BadArguments
	}
	return nil
}

// Quote returns a name or another short text from outside on one line, between quotes,
// cleaned and redacted, so that no line of a listing is chosen by its author. A text of
// more than 512 code points is cut, and ends with an ellipsis after the quote.
func Quote(text string) string {
	text = guard.Redact(guard.Clean(text), guard.All)
	end := runes(text, maxQuoted)
	if end < len(text) {
		return strconv.Quote(text[:end]) + "…"
	}
	return strconv.Quote(text)
}

// Text is a text from outside, cleaned and redacted as a whole, so that no secret is
// split between two parts.
type Text string

// NewText makes a text ready.
func NewText(text string) Text { return Text(guard.Redact(guard.Clean(text), guard.All)) }

// Part returns part n of a text, counted from 1, each of [MaxChars] code points, and how many there are. An empty text has one.
func (t Text) Part(n int) (part string, parts int, err error) {
	parts = max(1, (utf8.RuneCountInString(string(t))+MaxChars-1)/MaxChars)
	if n < 1 || n > parts {
		return "", parts, NoSuchPart
	}
	rest := string(t)
	for range n - 1 {
		rest = rest[runes(rest, MaxChars):]
	}
	return rest[:runes(rest, MaxChars)], parts, nil
}

// Number is a number that may be left out: then it is 1.
func Number(n *int) int {
	if n == nil {
		return 1
	}
	return *n
}

// Numbers numbers what a conversation is shown, from 1. A thing keeps its number. The zero value is empty.
type Numbers[K comparable] struct {
	Shown   []K // by number, less 1
	numbers map[K]int
}

// Of returns the number of a thing.
func (n *Numbers[K]) Of(k K) int {
	if n.numbers == nil {
		n.numbers = map[K]int{}
	}
	if n.numbers[k] == 0 {
		n.Shown = append(n.Shown, k)
		n.numbers[k] = len(n.Shown)
	}
	return n.numbers[k]
}

// Find returns the thing of a number.
func (n *Numbers[K]) Find(number int) (k K, err error) {
	if number < 1 || number > len(n.Shown) {
		return k, UnknownNumber
	}
	return n.Shown[number-1], nil
}

// Phrase returns what a search looks for, in lower case: at most n code points.
func Phrase(text string, n int) (string, error) {
	phrase := strings.ToLower(strings.TrimSpace(text))
	if phrase == "" || utf8.RuneCountInString(phrase) > n {
		return "", BadArguments
	}
	return phrase, nil
}

// Day is the day of what is listed.
func Day(t time.Time) string {
	if t.IsZero() {
		return "undated"
	}
	return t.Format(time.DateOnly)
}

// runes returns how many bytes the first n code points have.
func runes(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// Contains reports whether a text contains a phrase, given in lower case, ignoring
// case.
func Contains(text, lower string) bool { return strings.Contains(strings.ToLower(text), lower) }

// Around returns at most n code points of a line, around the phrase if it is there: the
// excerpt for one match.
func Around(line, lower string, n int) string {
	at := strings.Index(strings.ToLower(line), lower)
	start := 0
	if at > 0 && at <= len(line) { // lower case may have another length: then the place is near
		for start = max(0, at-n/2); start > 0 && !utf8.RuneStart(line[start]); start-- {
		}
	}
	return line[start : start+runes(line[start:], n)]
}

// Call is a call of a tool outside the cell: of an MCP server.
type Call struct {
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
}

// Result is the result of a [Call]: a text of a server, which is untrusted, or a
// failure without one.
type Result struct {
	Text string `json:"text,omitzero"`
	// Failed says that the server calls its text an error.
	Failed  bool    `json:"failed,omitzero"`
	Failure Failure `json:"failure,omitzero"`
}

// New returns a tool as the engine of a conversation takes it, with arguments of type A and results that are text from a
// source. lock is held during a call, for the shared state of a conversation's tools. run returns outside text, or an error that
// is a [Failure] or a code of package guard. The text of any other error is hidden.
func New[A any](name string, description llm.Instruction, schema string, source guard.Source, lock *sync.Mutex,
	run func(context.Context, A) (string, error)) llm.Executable {
	return llm.Executable{
		Tool: llm.Tool{Name: name, Description: description, Schema: jsontext.Value(schema)},
		Run: func(ctx context.Context, raw jsontext.Value) llm.Output {
			var arguments A
			if err := Arguments(raw, &arguments); err != nil {
				return BadArguments.Output()
			}
			lock.Lock()
			defer lock.Unlock()
			text, err := Watched(ctx, func(ctx context.Context) (string, error) { return run(ctx, arguments) })
			if err != nil {
				return failed(err)
			}
			return llm.Output{Untrusted: text, Source: source}
		},
	}
}

// failed returns the text for the model about an error: one with a code of package guard may have a status, which is a number.
func failed(err error) llm.Output {
	if f, ok := errors.AsType[Failure](err); ok {
		return f.Output()
	}
	code, _ := errors.AsType[guard.Code](err)
	number := 0
	if host, ok := errors.AsType[interface {
		error
		Status() int
	}](err); ok {
		number = host.Status()
	}
	return llm.Output{Trusted: llm.Failure(code, number), Failed: true}
}
