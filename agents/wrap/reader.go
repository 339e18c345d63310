package wrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// callTimeout bounds one call of a tool for a query.
const callTimeout = 40 * time.Second

// Call is the arguments of a query: the tool and its input.
type Call struct {
	Tool  string         `json:"tool"`
	Input jsontext.Value `json:"input"`
}

// Reader answers queries with a server. Its methods may be used concurrently.
type Reader struct {
	server *Server
	log    hclog.Logger
	tools  map[string]*pinned
}

// pinned is a tool of the file that the server still lists unchanged.
type pinned struct {
	*Tool
	from map[string]*constraint.Extraction
}

// NewReader returns the Reader of a file, with the tools that the server lists as pinned.
// changed names the others: queries for them are not answered.
func NewReader(ctx context.Context, f *File, u *Upstream, log hclog.Logger) (r *Reader, changed []string, err error) {
	var pins []Pinned
	for _, t := range f.Tools {
		pins = append(pins, Pinned{Name: t.Name, Listed: t.Name, SHA256: t.SHA256})
	}
	r = &Reader{log: log, tools: map[string]*pinned{}}
	if r.server, err = NewServer(u, callTimeout, pins); err != nil {
		return nil, nil, err
	}
	if changed, _, err = r.server.Check(ctx); err != nil {
		return nil, nil, err
	}
	for i := range f.Tools {
		t := &f.Tools[i]
		if slices.Contains(changed, t.Name) {
			continue
		}
		p := &pinned{t, map[string]*constraint.Extraction{}}
		for name, expression := range t.From {
			if p.from[name], err = constraint.CompileExtraction(expression); err != nil {
				return nil, nil, fmt.Errorf("tool %s: %w", t.Name, err)
			}
		}
		r.tools[t.Name] = p
	}
	return r, changed, nil
}

// Answer answers one query: it calls the tool that the arguments name, and extracts the
// answer from its result. If that fails, the answer is not_enough_information; without a
// result, or if the tool differs from the pin, the query stays open.
func (r *Reader) Answer(ctx context.Context, q agents.Query) (any, error) {
	var call Call
	if err := json.Unmarshal(q.Arguments, &call, json.RejectUnknownMembers(true)); err != nil {
		return agents.NotEnoughInformation{}, nil // somebody asked who does not know of tools
	}
	tool := r.tools[call.Tool]
	if tool == nil {
		r.log.Error("a query names a tool that is not pinned", "query", q.QueryID)
		return agents.NotEnoughInformation{}, nil
	}
	if call.Input == nil {
		call.Input = jsontext.Value("{}")
	}
	result, err := r.server.call(ctx, r.server.upstream, call.Tool, call.Input, nil)
	refused, isRefused := errors.AsType[*agents.NotPerformedError](err)
	switch {
	case isRefused:
		r.log.Error("a tool is refused: if it is another than was pinned, look at it with bcpmesh wrap --accept", "tool", tool.Name, "error", refused)
		return agents.NotEnoughInformation{}, nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		result = &Result{Failed: true}
	case err != nil:
		return nil, fmt.Errorf("the tool %s: %w", call.Tool, err)
	}
	tree := parseTree(result)
	if result.Failed { // why it failed is no result, and what it says is nothing that was asked for
		tree["text"], tree["structured"] = "", nil
	}
	input, err := decode(call.Input)
	if err != nil {
		return agents.NotEnoughInformation{}, nil
	}
	answer := map[string]any{}
	for name, e := range tool.from {
		value, err := e.Value(tree, input)
		if err != nil {
			r.log.Info("a result lacks what is asked for", "tool", tool.Name, "name", name)
			return agents.NotEnoughInformation{}, nil
		}
		if result.Failed && value == "" {
			return agents.NotEnoughInformation{}, nil
		}
		if text, ok := value.(string); q.Category != 1 && !ok {
			value = fmt.Sprint(value) // answers of category 2 are texts
		} else if ok {
			value = text
		}
		answer[name] = value
	}
	return answer, nil
}

// parseTree is a result as expressions see it.
func parseTree(result *Result) map[string]any {
	text := result.Text()
	tree := map[string]any{"error": result.Failed, "text": text, "structured": nil}
	content := []byte(text)
	if result.Structured != nil {
		content = result.Structured
	}
	if structured, err := decode(content); err == nil { // a text that is not JSON has no structure
		tree["structured"] = structured
	}
	return tree
}

// decode reads the JSON that bytes begin with, and keeps whole numbers exact: those beyond 64 bits are texts.
func decode(b []byte) (v any, err error) {
	if wire.Crowded(b) {
		return nil, errNoAnswer
	}
	raw, err := jsontext.NewDecoder(bytes.NewReader(b), lenient).ReadValue()
	if err == nil {
		err = json.Unmarshal(raw, &v, lenient, wholeNumbers)
	}
	return v, err
}

var wholeNumbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, into *any) error {
	*into = nil // what an equal name had
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	raw, err := d.ReadValue()
	text := string(raw)
	if n, wide := strconv.ParseInt(text, 10, 64); wide == nil {
		*into = n
	} else if !strings.ContainsAny(text, ".eE") {
		*into = text
	} else if f, wide := strconv.ParseFloat(text, 64); wide == nil {
		*into = f
	} else {
		*into = math.NaN()
	}
	return err
}))

// Spec returns the spec of the host's call: the tool's answer, with the call as
// arguments.
func (t *Tool) Spec(input jsontext.Value) (bcp.Spec, error) {
	if input == nil {
		input = jsontext.Value("{}")
	}
	b, err := json.Marshal(Call{t.Name, input}, json.Deterministic(true))
	if err != nil {
		return bcp.Spec{}, fmt.Errorf("the call of %s: %w", t.Name, err)
	}
	spec := t.Answer
	spec.Arguments = b
	return spec, nil
}
