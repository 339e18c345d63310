package stdio_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/stdio"
)

// A program in Go is asked and asks over the same two streams, and hears why it was refused.
func TestClient(t *testing.T) {
	t.Parallel()
	toProgram, fromServer := io.Pipe()
	toServer, fromProgram := io.Pipe()
	var heard []string
	client := stdio.NewClient(fromProgram, map[string]stdio.Method{
		"ready": func(context.Context, jsontext.Value) (any, error) { heard = append(heard, "ready"); return nil, nil },
		"query": func(_ context.Context, params jsontext.Value) (any, error) {
			if heard == nil {
				return nil, errors.New("a query came first")
			}
			return map[string]any{"seen": params}, nil
		},
	})
	server := stdio.NewClient(fromServer, map[string]stdio.Method{
		"model": func(context.Context, jsontext.Value) (any, error) {
			return nil, &stdio.CallError{Code: "budget", Message: "spent"}
		},
		"now": func(context.Context, jsontext.Value) (any, error) { return 7, nil },
	})
	ends := make(chan error, 2)
	go func() { ends <- client.Run(t.Context(), toProgram, 1<<10) }()
	go func() { ends <- server.Run(t.Context(), toServer, 1<<10) }()

	if _, err := io.WriteString(fromServer, `{"jsonrpc":"2.0","method":"ready"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Seen jsontext.Value `json:"seen"`
	}
	if err := server.Call(t.Context(), "query", map[string]int{"n": 1}, &answer); err != nil || string(answer.Seen) != `{"n":1}` {
		t.Errorf("%s, %v", answer.Seen, err)
	}
	var n int
	if err := client.Call(t.Context(), "now", nil, &n); err != nil || n != 7 {
		t.Error(n, err)
	}
	var refused *stdio.CallError
	if err := client.Call(t.Context(), "model", nil, &n); !errors.As(err, &refused) || refused.Code != "budget" || refused.Message != "spent" {
		t.Error(err)
	}
	if err := client.Call(t.Context(), "socket", nil, &n); !errors.As(err, &refused) || refused.Code != "" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Call(ctx, "now", nil, &n); !errors.Is(err, context.Canceled) && err != nil {
		t.Error(err)
	}
	// A line beyond the bound ends it.
	go func() { _, _ = io.WriteString(fromServer, strings.Repeat("x", 2<<10)) }() // until the pipe is closed
	if err := <-ends; err == nil || !strings.Contains(err.Error(), "longer than 1 KiB") {
		t.Error(err)
	}
	// Both ends are gone, and nobody writes to them any more.
	_, _ = toProgram.Close(), fromProgram.Close()
	if err := <-ends; err != nil {
		t.Error(err)
	}
}
