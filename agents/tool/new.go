package tool

import (
	"context"
	"errors"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

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
