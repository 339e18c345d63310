package llm

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// Provider is one way to a model.
type Provider interface {
	// Do makes one call without retries. The error is one of the types of this package, or of the context.
	Do(ctx context.Context, r *Request) (*Reply, error)
}

// Request is a request to a model.
type Request struct {
	Model     string `json:"model"`
	System    []Part `json:"system,omitempty"` // only instructions
	Tools     []Tool `json:"tools,omitempty"`
	Turns     []Turn `json:"turns"`
	Force     string `json:"force,omitzero"`      // the tool that must be called; empty: the model decides
	MaxTokens int    `json:"max_tokens,omitzero"` // of the reply
}

// Tool is something that a model may call.
type Tool struct {
	Name        string         `json:"name"`
	Description Instruction    `json:"description"`
	Schema      jsontext.Value `json:"schema"` // JSON Schema of the arguments
}

// Role says whose turn it is. The zero value is invalid.
type Role uint8

// The roles.
const (
	User  Role = iota + 1 // who asks, and the tools
	Model                 // the model
)

// Turn is one turn of a conversation.
type Turn struct {
	Role    Role     `json:"role"`
	Parts   []Part   `json:"parts,omitempty"`
	Calls   []Call   `json:"calls,omitempty"`   // of the model
	Results []Result `json:"results,omitempty"` // of calls, by the user
}

// Call is a call of a tool. Its arguments are as the model wrote them: they are checked before anything is done with them.
type Call struct {
	ID, Name  string
	Arguments jsontext.Value
}

// Result is the result of a call.
type Result struct {
	Call   string `json:"call"`  // the ID of the call
	Parts  []Part `json:"parts"` // Instruction or Data
	Failed bool   `json:"failed,omitzero"`
}

// Reply is a model's reply.
type Reply struct {
	Said  []Said `json:"said,omitempty"`
	Calls []Call `json:"calls,omitempty"`
	Stop  Stop   `json:"stop"`
	Usage Usage  `json:"usage"`
}

// Stop says why a model stopped.
type Stop string

// The reasons.
const (
	StopEnd    Stop = "end"    // it had said all
	StopCalls  Stop = "calls"  // it waits for results
	StopLength Stop = "length" // MaxTokens were reached
)

// Usage counts tokens.
type Usage struct{ Input, CacheRead, CacheWrite, Output int64 }

var (
	errEmptyPart   = errors.New("llm: a part of the request is empty")
	errSystemPart  = errors.New("llm: the system text of a request consists of instructions alone")
	errResultPart  = errors.New("llm: a result consists of instructions and data")
	errRole        = errors.New("llm: a turn has no role, or parts of the other one")
	errNoModel     = errors.New("llm: the request names no model")
	errForcedTool  = errors.New("llm: the request forces a tool that it does not have")
	errDoubledTool = errors.New("llm: the request has two tools of one name")
)

// Check says whether a request may be sent: it has no unfenced text where data belongs,
// and no fenced text where the model looks for instructions. Every sender of requests
// checks them.
func (r *Request) Check() error {
	if r.Model == "" {
		return errNoModel
	}
	for _, p := range r.System {
		if i, ok := p.(Instruction); !ok {
			return errSystemPart
		} else if i.text == "" {
			return errEmptyPart
		}
	}
	names := map[string]bool{}
	for _, t := range r.Tools {
		if names[t.Name] {
			return errDoubledTool
		}
		names[t.Name] = true
	}
	if r.Force != "" && !names[r.Force] {
		return errForcedTool
	}
	for _, t := range r.Turns {
		if err := t.check(); err != nil {
			return err
		}
	}
	return nil
}

func (t Turn) check() error {
	if t.Role != User && t.Role != Model || t.Role == User && len(t.Calls) > 0 || t.Role == Model && len(t.Results) > 0 {
		return errRole
	}
	for _, p := range t.Parts {
		if _, said := p.(Said); said != (t.Role == Model) {
			return errRole
		}
		if err := checkPart(p); err != nil {
			return err
		}
	}
	for _, result := range t.Results {
		for _, p := range result.Parts {
			if _, said := p.(Said); said {
				return errResultPart
			}
			if err := checkPart(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkPart(p Part) error {
	switch p := p.(type) {
	case Data:
		if p.IsZero() {
			return errEmptyPart
		}
	case Instruction:
		if p.text == "" {
			return errEmptyPart
		}
	case Said:
	default:
		return errEmptyPart
	}
	return nil
}

// Script is a provider that answers from a list, for tests and for programs that judge
// cases. It belongs to one goroutine.
type Script struct {
	Turns []ScriptTurn
	// Requests are the requests so far, in order.
	Requests []*Request
}

// ScriptTurn is one reply of a [Script], or its error.
type ScriptTurn struct {
	Reply Reply
	Err   error
}

// ErrScriptEnd says that a script has no more turns.
var ErrScriptEnd = errors.New("llm: the script has no more turns")

// Do implements [Provider].
func (s *Script) Do(ctx context.Context, r *Request) (*Reply, error) {
	if err := errors.Join(ctx.Err(), r.Check()); err != nil {
		return nil, err
	}
	s.Requests = append(s.Requests, r)
	n := len(s.Requests) - 1
	if n >= len(s.Turns) {
		return nil, ErrScriptEnd
	}
	turn := s.Turns[n]
	if turn.Err != nil {
		return nil, turn.Err
	}
	return &turn.Reply, nil
}
