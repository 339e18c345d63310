package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// completions answers as a server of Chat Completions does, with a call of the tool answer.
func completions(t *testing.T, asked chan<- string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Messages []struct {
				Content string `json:"content"`
			} `json:"messages"`
			Tools []jsontext.Value `json:"tools"`
		}
		if err := json.UnmarshalRead(r.Body, &request); err != nil || r.URL.Path != "/v1/chat/completions" || len(request.Tools) == 0 {
			t.Errorf("%s: %+v, %v", r.URL, request, err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range []string{
			`{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0,"id":"a1","type":"function","function":{"name":"answer","arguments":"{\"breaking\":true}"}}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, `{"choices":[],"usage":{"prompt_tokens":90,"completion_tokens":9}}`, `[DONE]`,
		} {
			if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
				return // the test has ended
			}
		}
		select {
		case asked <- request.Messages[len(request.Messages)-1].Content:
		default:
		}
	})
}

// From an empty folder to a model that answers a Controller's question it is four commands,
// as docs/agents.md has them.
//
// covers BCP-1
func TestModelInFourCommands(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, b := range blocksOf(t, "docs/agents.md") {
		if len(b.lines) > 0 && strings.HasPrefix(b.lines[0], "bcpmesh init desk --model ") {
			lines = b.lines
		}
	}
	if len(lines) != 4 || lines[2] != "bcpmesh up" {
		t.Fatalf("docs/agents.md has %q", lines)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := newTerminal(t)
	address := c.withFreePorts("127.0.0.1:8000")
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	server := &http.Server{Handler: completions(t, asked)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	for _, line := range lines[:3] {
		c.run(ctx, line)
	}
	out, err := c.command(ctx, lines[3]).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "true") {
		t.Fatalf("%s: %v\n%s", lines[3], err, out)
	}
	if got := <-asked; !strings.Contains(got, "breaking") {
		t.Errorf("the model is asked %q", got)
	}
}
