package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// aKey is in no output of anything.
const aKey = "canary-key-0123456789"

// failingProvider fails as it is told, and answers as a model when it works.
type failingProvider struct {
	works  atomic.Bool
	status int
	body   string
	model  http.Handler
}

func (f *failingProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.works.Load() {
		f.model.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.body)
}

// eventually runs a command until its output has a text.
func eventually(ctx context.Context, t *testing.T, c *terminal, line, want string) string {
	t.Helper()
	for {
		out, _ := c.command(ctx, line).CombinedOutput() // its output says
		if strings.Contains(string(out), want) {
			return string(out)
		}
		if ctx.Err() != nil {
			t.Fatalf("%s does not say %q but:\n%s\n%s", line, want, out, c.logs())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Whoever runs a model is told why it does not answer: in the log once, by the query, the status and the doctor; and the query
// is answered when its provider is back. What the provider says is shown to the operator, unless there is a secret in it, and
// to nobody else.
//
// covers P15.6
func TestModelThatFailsIsSeen(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]struct {
		status    int
		body      string
		why, says string
		retried   bool // a query that waits is answered when the provider is back
	}{
		"401":      {401, `{"error":{"message":"obey-me: no such key ` + aKey + `"}}`, "the provider does not accept the key (401)", "", false},
		"400":      {400, `{"error":{"message":"your credit is used up"}}`, "the provider refuses the request (400)", "your credit is used up", false},
		"404":      {404, `{"error":"model qwen3 not found"}`, "the provider refuses the request (404)", "model qwen3 not found", false},
		"429":      {429, `{"error":{"message":"slow down"}}`, "the provider takes no more calls for now (429)", "slow down", true},
		"529":      {529, "", "the provider is overloaded (529)", "", true},
		"HTML":     {200, "<html>\x1b[31mBad gateway</html>", "the provider's answer is not of its protocol", "Bad gateway", true},
		"a 302":    {302, "", "the provider refuses the request (302)", "", true},
		"no words": {403, strings.Repeat("x", 10_000), "the provider does not accept the key (403)", "xxxxx…", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			provider := &failingProvider{status: p.status, body: p.body, model: completions(t, make(chan string, 100))}
			server := httptest.NewServer(provider)
			t.Cleanup(server.Close)
			c := newTerminal(t)
			c.env = append(c.env, "MODEL_KEY="+aKey)
			c.run(ctx, "bcpmesh init desk --model openai/qwen3 --endpoint "+strings.Replace(server.URL, "127.0.0.1", "localhost", 1)+"/v1")
			c.run(ctx, "cd desk")
			c.run(ctx, `sed -i -e 's/base_url: /key: "env:MODEL_KEY", base_url: /' mesh.yaml`)
			up := startUp(t, "bcpmesh", c.dir, filepath.Join(t.TempDir(), "log"), c.env, "--listen", "127.0.0.1:0")
			out, err := c.command(ctx, "bcpmesh query researcher --boolean breaking --wait 4s").CombinedOutput()
			failIf(t, err == nil || !strings.Contains(string(out), "researcher cannot answer: its model fails since ") || !strings.Contains(string(out), ": "+p.why) || !strings.Contains(string(out), p.says),
				"query: %v\n%s", err, out)
			eventually(ctx, t, c, "bcpmesh status --json", `"model_failing":{"fault":"`)
			checked, err := c.command(ctx, "bcpmesh doctor").CombinedOutput()
			failIf(t, err == nil || !strings.Contains(unwrapped(checked), p.why), "doctor: %v\n%s", err, checked)
			asked, err := c.command(ctx, "bcpmesh doctor --model --json").CombinedOutput()
			failIf(t, err == nil || !strings.Contains(string(asked), p.why) || !strings.Contains(string(asked), p.says),
				"doctor --model: %v\n%s", err, asked)
			audit, err := c.command(ctx, "bcpmesh audit replay --kind usage").CombinedOutput()
			failIf(t, err != nil || !strings.Contains(string(audit), "the model fails: "+p.why), "audit: %v\n%s", err, audit)
			raw, _ := c.command(ctx, "bcpmesh audit replay --json").CombinedOutput()
			failIf(t, p.says != "" && strings.Contains(string(raw), p.says), "what the provider says is in the journal:\n%s", raw)
			provider.works.Store(true)
			if !p.retried {
				out, err := c.command(ctx, "bcpmesh query researcher --boolean breaking --wait 20s").CombinedOutput()
				failIf(t, err != nil || !strings.Contains(string(out), `{"breaking":true}`), "when it works: %v\n%s", err, out)
			} else {
				eventually(ctx, t, c, "bcpmesh inbox --wait 1s", `{"breaking":true}`)
			}
			said := up.said()
			for text, want := range map[string]int{"an agent's model did not answer": 1, "the model of an agent works again": 1, aKey: 0, "obey-me": 0, "\x1b": 0} {
				n := strings.Count(said, text)
				failIf(t, n != want, "the log has %q %d times:\n%s", text, n, said)
			}
			failIf(t, !strings.Contains(said, p.why) || !strings.Contains(said, p.says), "the log does not say why:\n%s", said)
			for _, text := range [][]byte{out, checked, asked, audit, raw} {
				failIf(t, bytes.Contains(text, []byte(aKey)) || bytes.Contains(text, []byte("obey-me")),
					"a secret is shown:\n%s", text)
			}
		})
	}
}

// unwrapped joins the lines of a table.
func unwrapped(table []byte) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "\n", " ").Replace(string(table))), " ")
}

// up is bcpmesh up in a process of its own, which is killed at the end of the test.
type up struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   string // what it prints is added to this file
	ended chan struct{}
}

// startUp starts it in a folder, as a program, and waits until its mesh is ready.
func startUp(t *testing.T, program, dir, log string, env []string, flags ...string) *up {
	t.Helper()
	u := &up{t, exec.Command(program, append([]string{"up", "--ready-file", log + ".ready"}, flags...)...), log, make(chan struct{})}
	file := must(os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	defer func() { _ = file.Close() }() // the process has its own
	_ = os.Remove(log + ".ready")       // of the one before
	u.cmd.Dir, u.cmd.Env, u.cmd.Stdout, u.cmd.Stderr = dir, env, file, file
	noError(t, u.cmd.Start())
	go func() {
		defer close(u.ended)
		_ = u.cmd.Wait() // it is killed
	}()
	t.Cleanup(func() { u.end(os.Kill) })
	u.await("the mesh does not start", func() bool {
		_, err := os.Stat(log + ".ready")
		return err == nil
	})
	return u
}

// await waits until something is so.
func (u *up) await(otherwise string, so func() bool) {
	u.t.Helper()
	for deadline := time.Now().Add(clustertest.Patience); !so(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-u.ended:
			u.t.Fatalf("the mesh ended:\n%s", u.said())
		default:
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("%s:\n%s", otherwise, u.said())
		}
	}
}

func (u *up) said() string { return string(readFile(u.t, u.log)) }

// end ends the process by a signal.
func (u *up) end(by os.Signal) {
	_ = u.cmd.Process.Signal(by) // it may have ended
	<-u.ended
}

// callOf is the stream of a model that calls a tool, for 99 tokens.
func callOf(tool, arguments string) []string {
	return []string{
		fmt.Sprintf(`{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0,"id":"a1","type":"function","function":{"name":%q,"arguments":%q}}]}}]}`, tool, arguments),
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, `{"choices":[],"usage":{"prompt_tokens":90,"completion_tokens":9}}`, `[DONE]`,
	}
}

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
		for _, data := range callOf("answer", `{"breaking":true}`) {
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
