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
	// Lock is held during a call, for the shared state of a conversation's tools.
	Lock *sync.Mutex
	// Run returns outside text, or an error that is a [Failure] or a code of package
	// guard. The text of any other error is hidden.
	Run func(context.Context, A) (string, error)
}

// New returns a tool as the engine of a conversation takes it.
func New[A any](t Tool[A]) llm.Executable {
	return llm.Executable{
		Tool: llm.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema},
		Run: func(ctx context.Context, raw jsontext.Value) llm.Output {
			var arguments A
			if err := Arguments(raw, &arguments); err != nil {
				return BadArguments.Output()
			}
			t.Lock.Lock()
			defer t.Lock.Unlock()
			text, err := Watched(ctx, func(ctx context.Context) (string, error) { return t.Run(ctx, arguments) })
			if err != nil {
				return failed(err)
			}
			return llm.Output{Untrusted: text, Source: t.Source}
		},
	}
}

// failed returns the text for the model about an error.
func failed(err error) llm.Output {
	if f, ok := errors.AsType[Failure](err); ok {
		return f.Output()
	}
	code, _ := errors.AsType[guard.Code](err)
	return llm.Output{Trusted: llm.Failure(code, 0), Failed: true}
}
