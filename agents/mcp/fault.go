package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// fault is why a call failed: a code of the protocol, the problem in words, and
// what to do next.
type fault struct {
	Code   bcp.Code `json:"error"`
	Detail string   `json:"detail"`
	Next   string   `json:"what_next,omitempty"`
}

// newFault returns a fault with a code, its constant text and its advice.
func newFault(code bcp.Code) *fault {
	info := code.Info()
	return &fault{code, info.Text, info.Decision}
}

// saying replaces the constant text.
func (f *fault) saying(format string, args ...any) *fault {
	f.Detail = fmt.Sprintf(format, args...)
	return f
}

// next replaces the advice.
func (f *fault) next(format string, args ...any) *fault {
	f.Next = fmt.Sprintf(format, args...)
	return f
}

// result is the fault as the result of a tool.
func (f *fault) result() *sdk.CallToolResult {
	text := string(f.Code) + ": " + f.Detail + "."
	if f.Next != "" {
		text += " What to do: " + f.Next + "."
	}
	return &sdk.CallToolResult{IsError: true, StructuredContent: f, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// refused turns an error of package agents into a fault. denied is the code for
// refusals by the server itself.
func refused(err error, denied bcp.Code) *fault {
	var r *agents.RefusedError
	var unanswered *agents.UnansweredError
	switch {
	case errors.As(err, &r):
		f := newFault(r.Code)
		f.Detail = r.Detail
		return f
	case errors.As(err, &unanswered):
		return newFault(bcp.Unavailable).saying("the gateway did not answer in time").next("try again")
	case errors.Is(err, nats.ErrPermissionViolation):
		return newFault(denied)
	case errors.Is(err, context.Canceled):
		return newFault(bcp.Cancelled).saying("the call was cancelled")
	case errors.Is(err, agents.ErrMessage):
		return newFault(bcp.Internal).saying("what the gateway says is not understood").next("tell the operator: is the encoding that of the agent's definition")
	}
	return newFault(bcp.Internal).saying("%s", strings.TrimPrefix(err.Error(), "agents: "))
}

// handler makes the handler of a tool: work reads the arguments, and returns the
// result of the call or why it failed. A panic only fails the call.
func handler(log hclog.Logger, work func(ctx context.Context, arguments []byte) (any, *fault)) sdk.ToolHandler {
	return func(ctx context.Context, request *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
		defer func() {
			if r := recover(); r != nil {
				log.Error("a tool panicked", "tool", request.Params.Name, "panic", fmt.Sprintf("%T", r))
				result, err = newFault(bcp.Internal).result(), nil
			}
		}()
		if len(request.Params.Arguments) > maxArguments {
			return newFault(bcp.MessageTooLarge).result(), nil
		}
		value, f := work(ctx, request.Params.Arguments)
		if f != nil {
			return f.result(), nil
		}
		b, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("encoding a result: %w", err)
		}
		// The text is for hosts that do not read structured results.
		return &sdk.CallToolResult{StructuredContent: jsontext.Value(b), Content: []sdk.Content{&sdk.TextContent{Text: string(b)}}}, nil
	}
}

// read decodes the arguments of a call strictly (PROTOCOL P2.2), after what models write is in the wire's spelling: 12.0 is
// an integer, a member that is null is not there, and what is no text may be JSON in one. Its error is for the host, whose
// own bytes it may quote.
func read(arguments []byte, into any) error {
	arguments = wire.WholeNumbers(unquoted(arguments))
	if bare, err := withoutNulls(arguments); err == nil {
		arguments = bare
	}
	return readStrictly(arguments, into)
}

// readStrictly is read without what models write.
func readStrictly(arguments []byte, into any) error {
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if err := wire.Check(arguments); err != nil {
		if name := refusedAt(arguments); name != "" {
			return fmt.Errorf("%s: %w", name, plain(err))
		}
		return plain(err)
	}
	return plain(json.Unmarshal(arguments, into, json.RejectUnknownMembers(true)))
}

// inTexts are the arguments that are no texts, with the first bytes of their values.
var inTexts = map[string]string{
	"fields": "[{", "questions": "[", "answers": "[", "response": "{", "constraints": "[", "acknowledge": "[",
	"category": "0", "max_words": "0", "wait_seconds": "0", "not_enough_information": "tf",
}

// unquoted returns arguments whose structure some hosts send as JSON in a text: all of it, or that of an argument.
func unquoted(b []byte) []byte {
	if text := ""; jsontext.Value(b).Kind() == '"' && json.Unmarshal(b, &text) == nil && (strings.TrimSpace(text) == "" || jsontext.Value(text).Kind() == '{') {
		b = []byte(strings.TrimSpace(text))
	}
	var all map[string]jsontext.Value
	if json.Unmarshal(b, &all) != nil {
		return b
	}
	changed := false
	for name, kinds := range inTexts {
		text := ""
		if value := all[name]; value.Kind() != '"' || json.Unmarshal(value, &text) != nil {
			continue
		}
		if value := jsontext.Value(text); value.IsValid() && strings.ContainsRune(kinds, rune(value.Kind())) {
			all[name], changed = value, true
		}
	}
	if again, err := json.Marshal(all, json.Deterministic(true)); changed && err == nil {
		return again
	}
	return b
}

// withoutNulls returns JSON without the members of objects that are null, and nothing for null.
func withoutNulls(b []byte) ([]byte, error) {
	if jsontext.Value(b).Kind() == 'n' {
		return nil, nil
	}
	if !bytes.Contains(b, []byte("null")) {
		return b, nil
	}
	var out bytes.Buffer
	d, e := jsontext.NewDecoder(bytes.NewReader(b)), jsontext.NewEncoder(&out)
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(out.Bytes()), nil
		}
		if err != nil {
			return nil, err
		}
		token = token.Clone()
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 1 && token.Kind() == '"' && d.PeekKind() == 'n' {
			if err := d.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		if err := e.WriteToken(token); err != nil {
			return nil, err
		}
	}
}

// refusedAt names the first value that the wire does not take, if it is one value.
func refusedAt(b []byte) string {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		switch kind := d.PeekKind(); kind {
		case '{', '[', '}', ']':
			if _, err := d.ReadToken(); err != nil {
				return ""
			}
		default:
			value, err := d.ReadValue()
			if err != nil {
				return ""
			}
			if wire.Check(value) != nil {
				return dotted(d.StackPointer())
			}
		}
	}
}

// dotted names a place as hosts read it.
func dotted(p jsontext.Pointer) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(p), "/"), "/", ".")
}

// plain removes Go's terms from an error.
func plain(err error) error {
	var semantic *json.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("there is no argument %s", semantic.JSONPointer.LastToken())
	case errors.As(err, &semantic) && semantic.JSONPointer != "":
		return fmt.Errorf("%s has the wrong type or value", dotted(semantic.JSONPointer))
	case errors.As(err, &semantic):
		return errors.New("the arguments are no object")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "wire: "))
}
