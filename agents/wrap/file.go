package wrap

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Limits of a file, and of a server's list of tools.
const (
	// MaxFile bounds a file, in bytes.
	MaxFile = 4 << 20
	// maxTools bounds the tools of one server, maxSchema the schema of each, in bytes.
	maxTools  = 256
	maxSchema = 64 << 10
	// maxDescription bounds a description, in bytes: a model reads it.
	maxDescription = 8 << 10
)

// File is a wrapped server, as `bcpmesh wrap` writes it and people edit it.
type File struct {
	// Server is the command that starts the MCP server, which uses stdio.
	Server []string `json:"server"`
	// Reader is the agent that answers with it.
	Reader bcp.AgentName `json:"reader"`
	Tools  []Tool        `json:"tools"`
}

// Tool is one tool of the server: what the host sees, and which part of a result it
// gets.
type Tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"input_schema"`
	// SHA256 is the pin: the hash of the tool as listed when somebody reviewed it.
	SHA256 string `json:"sha256"`
	// Answer is the spec of the host's question.
	Answer bcp.Spec `json:"answer"`
	// From says, for each name of the spec, how its value is taken out of a result: a CEL
	// expression over result.structured, result.text, result.error and arguments.
	From map[string]string `json:"from"`
	// Decide lists open decisions; `check` is for a person, never for a program.
	Decide []string `json:"decide,omitempty"`

	unseen int // characters that nobody sees, which were left out
}

// wrong is what is wrong at a place of a file.
type wrong struct {
	at jsontext.Pointer
	error
}

// Unwrap returns the error without its place.
func (w *wrong) Unwrap() error { return w.error }

func wrongAt(at jsontext.Pointer, format string, args ...any) error {
	return &wrong{at, fmt.Errorf(format, args...)}
}

// Place returns the line and the column, from 1, of what [Parse] found wrong with a file; 1 and 1
// if it is of the whole.
func Place(content []byte, err error) (line, column int) {
	offset := int64(0)
	skip := func(until int64) { // what stands between two tokens
		for offset = until; offset < int64(len(content)) && strings.IndexByte(" \t\r\n,:", content[offset]) >= 0; {
			offset++
		}
	}
	if w, ok := errors.AsType[*wrong](err); ok {
		d := jsontext.NewDecoder(bytes.NewReader(content))
		for failed := error(nil); failed == nil && d.StackPointer() != w.at; {
			skip(d.InputOffset())
			_, failed = d.ReadToken()
		}
	} else if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = min(syntax.ByteOffset, int64(len(content)))
	} else if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		skip(semantic.ByteOffset)
	}
	before := content[:offset]
	begins := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[begins:]) + 1
}

// Parse reads a file strictly. The error names the problem and the tool; [Place] says where.
func Parse(content []byte) (*File, error) {
	var f File
	if len(content) > MaxFile {
		return nil, fmt.Errorf("expected at most %d MiB", MaxFile>>20)
	}
	if err := json.Unmarshal(content, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("not a file of bcpmesh wrap: %w", err)
	}
	if len(f.Server) == 0 || f.Server[0] == "" {
		return nil, errors.New("server: expected a program and its arguments")
	}
	if _, err := bcp.ParseAgentName(string(f.Reader)); err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	if len(f.Tools) > maxTools {
		return nil, fmt.Errorf("tools: expected at most %d", maxTools)
	}
	seen := map[string]bool{}
	for i := range f.Tools {
		t := &f.Tools[i]
		if err := t.check(); err != nil {
			at := jsontext.Pointer("/tools").AppendToken(strconv.Itoa(i))
			if w, ok := errors.AsType[*wrong](err); ok {
				at += w.at
			}
			return nil, wrongAt(at, "tool %q: %w", t.Name, err)
		}
		if seen[t.Name] {
			return nil, wrongAt(jsontext.Pointer("/tools").AppendToken(strconv.Itoa(i)), "tool %q is listed twice", t.Name)
		}
		seen[t.Name] = true
	}
	return &f, nil
}

func (t *Tool) check() error {
	switch {
	case !validName(t.Name):
		return errors.New("name: expected 1 to 128 letters, digits, and _ - . /")
	case len(t.Description) > maxDescription:
		return fmt.Errorf("description: expected at most %d bytes", maxDescription)
	case len(t.InputSchema) > maxSchema || t.InputSchema.Kind() != '{':
		return fmt.Errorf("input_schema: expected an object of at most %d KiB", maxSchema>>10)
	case t.Answer.Arguments != nil:
		return errors.New("answer: arguments are the host's")
	}
	_, inText := seen(t.Description)
	if _, inSchema, err := seenSchema(t.InputSchema); err != nil {
		return fmt.Errorf("input_schema: %w", err)
	} else if inText+inSchema > 0 {
		return errUnseen
	}
	if _, err := bcp.Compile(t.Answer, bcp.Settings{Constraints: constraint.Compile}); err != nil {
		return wrongAt("/answer", "answer: %w", err)
	}
	names := stdio.AnswerNames(t.Answer)
	for _, name := range slices.Sorted(maps.Keys(t.From)) { // the first mistake is always the same
		expression := t.From[name]
		if !slices.Contains(names, name) {
			return wrongAt(jsontext.Pointer("/from").AppendToken(name), "from: the answer has no %q", name)
		}
		if _, err := constraint.CompileExtraction(expression); err != nil {
			return wrongAt(jsontext.Pointer("/from").AppendToken(name), "from %s: %w", name, err)
		}
	}
	for _, name := range names {
		if t.From[name] == "" {
			return wrongAt("/from", "from: %s has no expression", name)
		}
	}
	return nil
}

// errUnseen is why texts of a tool are refused that tell a model more than they show a person.
var errUnseen = errors.New("its description or schema has characters that nobody sees: leave them out")

// seen returns a text without the characters that nobody sees, and how many they were.
func seen(text string) (clean string, unseen int) {
	clean = guard.Clean(text)
	letters := func(s string) int { return utf8.RuneCountInString(strings.Join(strings.Fields(s), "")) }
	if unseen = letters(text) - letters(clean); unseen == 0 {
		return text, 0 // of white space there may be any
	}
	return clean, unseen
}

// seenSchema is seen of the names and texts of a schema, however they are spelled.
func seenSchema(schema jsontext.Value) (clean jsontext.Value, unseen int, err error) {
	var b bytes.Buffer
	from, to := jsontext.NewDecoder(bytes.NewReader(schema)), jsontext.NewEncoder(&b)
	for {
		token, err := from.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && token.Kind() == '"' {
			text, n := seen(token.String())
			token, unseen = jsontext.String(text), unseen+n
		}
		if err = cmp.Or(err, to.WriteToken(token)); err != nil {
			return nil, 0, err
		}
	}
	if unseen == 0 {
		return schema, 0, nil
	}
	return bytes.TrimSpace(b.Bytes()), unseen, nil
}

// validName accepts names that hosts accept and a terminal shows verbatim.
func validName(name string) bool {
	return name != "" && len(name) <= 128 && strings.Trim(name, nameLetters+"./") == ""
}

// Pin returns the SHA-256 of a tool as a server lists it: its name, title, description,
// schemas and annotations, in canonical form. It covers everything that a model or a
// person would read.
func Pin(tool *sdk.Tool) (string, error) {
	b, err := json.Marshal(struct {
		Name        string               `json:"name"`
		Title       string               `json:"title"`
		Description string               `json:"description"`
		Input       any                  `json:"input"`
		Output      any                  `json:"output"`
		Annotations *sdk.ToolAnnotations `json:"annotations"`
	}{tool.Name, tool.Title, tool.Description, tool.InputSchema, tool.OutputSchema, tool.Annotations}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("pin the tool: %w", err)
	}
	value := jsontext.Value(b)
	if err := value.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return "", fmt.Errorf("pin the tool: %w", err)
	}
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:]), nil
}
