package tool

import (
	"context"
	"errors"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Tool is a tool with arguments of type A, all of whose results are outside text.
type Tool[A any] struct {
	Name        string
	Description llm.Instruction
	Schema      jsontext.Value
	Source      guard.Source
	// Lock is held in a call: it belongs to what the tools of one conversation share.
	Lock *sync.Mutex
	// Run returns outside text, or an error that is a [Failure] or a code of package guard. Any other error shows nothing.
	Run func(context.Context, A) (string, error)
	// Permit is required if it is outbound, which a tool is that has one.
	Permit func(A) error
}

// New returns a tool as the engine of a conversation takes it.
func New[A any](t Tool[A]) llm.Executable {
	e := llm.Executable{
		Tool: llm.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema},
		Run: func(ctx context.Context, raw jsontext.Value) llm.Output {
			var arguments A
			if err := Arguments(raw, &arguments); err != nil {
				return BadArguments.Output()
			}
			t.Lock.Lock()
			defer t.Lock.Unlock()
			text, err := t.Run(ctx, arguments)
			if err != nil {
				return failed(err)
			}
			return llm.Output{Untrusted: text, Source: t.Source}
		},
	}
	if t.Permit != nil {
		e.Outbound = true
		e.Permit = func(_ context.Context, raw jsontext.Value) error {
			var arguments A
			if Arguments(raw, &arguments) != nil {
				return nil // the call says why it fails, and sends nothing
			}
			t.Lock.Lock()
			defer t.Lock.Unlock()
			return t.Permit(arguments)
		}
	}
	return e
}

// failed returns what the model is told of an error.
func failed(err error) llm.Output {
	if f, ok := errors.AsType[Failure](err); ok {
		return f.Output()
	}
	code, _ := errors.AsType[guard.Code](err)
	return llm.Output{Trusted: llm.Failure(code, 0), Failed: true}
}
