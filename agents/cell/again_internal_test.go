package cell

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// A call whose provider lacks capacity or sends what nobody understands is made again until it is back, ten times and not once
// more; one that is refused is not, and the pauses are of 2 seconds to 2 minutes.
func TestCallsAreMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		code   string
		fails  int
		want   error
		calls  int
		lasted time.Duration
	}{
		"once":       {"overloaded", 1, nil, 2, 2 * time.Second},
		"ten times":  {"rate_limited", 10, nil, 11, 606 * time.Second},
		"one more":   {"overloaded", 11, llm.Overloaded{}, 11, 606 * time.Second},
		"garbled":    {"garbled", 2, nil, 3, 6 * time.Second},
		"timeout":    {"timeout", 2, nil, 3, 6 * time.Second},
		"a key":      {"auth", 1, llm.Auth{}, 1, 0},
		"refused":    {"protocol", 1, llm.Protocol{What: "the call failed"}, 1, 0},
		"the budget": {"budget", 1, llm.Budget{}, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			toKeeper, fromCell := io.Pipe()
			toCell, fromKeeper := io.Pipe()
			calls := 0
			keeper := stdio.NewClient(fromKeeper, map[string]stdio.Method{"model": func(context.Context, jsontext.Value) (any, error) {
				if calls++; calls <= c.fails {
					return nil, &stdio.CallError{Code: c.code, Message: "x"}
				}
				return &llm.Reply{Stop: llm.StopEnd}, nil
			}})
			go func() { _ = keeper.Run(t.Context(), toKeeper, maxLine) }() // until the pipe is closed
			door := stdio.NewClient(fromCell, nil)
			ended := make(chan error, 1)
			go func() { ended <- door.Run(t.Context(), toCell, maxLine) }()
			begun := time.Now()
			talk := &talk{cell: &Cell{door: door}, id: "c", ends: time.Now().Add(lasts)}
			_, err := talk.Do(t.Context(), &llm.Request{Model: "m"})
			bcptest.FailIf(t, !errors.Is(err, c.want) || calls != c.calls || time.Since(begun) != c.lasted,
				"%s: %v after %d calls and %s", name, err, calls, time.Since(begun))
			_, _ = fromKeeper.Close(), fromCell.Close()
			<-ended
		})
	}
}
