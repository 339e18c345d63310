package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// hostileMesh is a copy of this program whose cells are hostile: a keeper starts the program
// that it is itself, and nothing of the mesh knows of it.
const hostileMesh = "hostilemesh"

func init() {
	cells := map[string]func(){hostileMesh: playHostileCell, fragileMesh: playFragileCell}
	for name := range cells {
		programs[name] = main
	}
	takenOver = func() bool {
		self, err := os.Executable()
		play := cells[filepath.Base(self)]
		taken := err == nil && play != nil && slices.Equal(os.Args[1:], []string{"cell"}) && os.Getenv(realCell) == ""
		if taken {
			play()
		}
		return taken
	}
}

// playHostileCell is a cell that somebody has taken over. It tries all that it can think of
// at its door and in its sandbox, and says on stderr what came of it.
func playHostileCell() {
	ctx := context.Background()
	answer := func(context.Context, jsontext.Value) (any, error) {
		return map[string]bool{"breaking": true}, nil
	}
	door := stdio.NewClient(os.Stdout, map[string]stdio.Method{"query": answer, "subscriptions": answer})
	go func() {
		_ = door.Run(ctx, os.Stdin, 32<<20)
		os.Exit(0)
	}()
	var config cell.Configuration
	if err := door.Call(ctx, "configuration", nil, &config); err != nil {
		fmt.Fprintln(os.Stderr, "no configuration:", err)
		return
	}
	var found []string // said at the end: what prints too much is cut
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	call := func(method string, params, result any) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if result == nil {
			result = new(jsontext.Value)
		}
		return door.Call(ctx, method, params, result)
	}
	tried := func(what string, err error) {
		var refused *stdio.CallError
		switch {
		case err == nil:
			say("tried %s: done", what)
		case errors.As(err, &refused):
			say("tried %s: refused %s", what, refused.Code)
		default:
			say("tried %s: failed", what)
		}
	}
	var wanted struct {
		Bait bait     `json:"bait"`
		URLs []string `json:"urls"`
	}
	if err := json.Unmarshal([]byte(config.Instructions), &wanted); err != nil {
		fmt.Fprintln(os.Stderr, "no instructions:", err)
		return
	}
	for _, name := range wanted.Bait.reached() {
		say("reached %s", name)
	}
	request := jsontext.Value(`{"model":"dearer","max_tokens":1000000,"turns":[{"role":1,"parts":[{"instruction":"x"}]}]}`)
	var mu sync.Mutex
	came := map[string]int{}
	var spending sync.WaitGroup
	for i := range 32 {
		spending.Go(func() {
			for range 3 {
				err := call("model", map[string]any{"conversation": fmt.Sprintf("c%d", i), "request": request}, nil)
				code := "done"
				if refused, ok := errors.AsType[*stdio.CallError](err); ok {
					code = refused.Code
				} else if err != nil {
					code = "failed"
				}
				mu.Lock()
				came[code]++
				mu.Unlock()
			}
		})
	}
	spending.Wait()
	say("spent %d of 96", came["done"])
	for _, url := range wanted.URLs {
		var got jsontext.Value
		err := call("fetch", map[string]any{"conversation": "c0", "ask": map[string]any{"url": url}}, &got)
		say("asked for %s: %t", url, bytes.Contains(got, []byte(`"aGVsbG8="`)) || err != nil)
	}
	var link, tool jsontext.Value
	_ = call("fetch", map[string]any{"conversation": "c0", "ask": map[string]int{"page": 7, "start": 0, "end": 9}}, &link)
	_ = call("mcp", map[string]any{"conversation": "c0", "call": map[string]string{"tool": "mcp__x__y"}}, &tool)
	say("a link of no page: %s", link)
	say("a tool: %s", tool)
	tried("a push", call("push", map[string]any{"controller": "main", "subscription_id": "none", "response": map[string]bool{"breaking": true}}, nil))
	for _, method := range []string{"ask", "ask_and_wait", "sign", "nats", "reserve", "usage", "exec", "done", "../model"} {
		tried("the method "+method, call(method, map[string]any{}, nil))
	}
	for _, params := range []string{`[]`, `{}`, `{"conversation":""}`, `{"conversation":"` + strings.Repeat("x", 65) + `"}`, `{"conversation":"c0","more":1}`, `{"conversation":"c0","request":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`} {
		tried("a model with "+params[:min(len(params), 20)], call("model", jsontext.Value(params), nil))
	}
	var last error
	for i := range 64 {
		last = call("model", map[string]any{"conversation": fmt.Sprintf("more%d", i), "request": jsontext.Value(`{}`)}, nil)
	}
	tried("a conversation too many", last)
	time.Sleep(2 * time.Second) // until the keeper may print again
	for _, line := range append(found, "tried all") {
		fmt.Fprintln(os.Stderr, line)
		time.Sleep(50 * time.Millisecond)
	}
	select {}
}

// A cell that somebody has taken over does nothing that its agent may not: none of its
// attempts reaches anything, it gets the definition's model with the definition's
// limits, no call without a record, nothing beyond the budget from 32 goroutines, none after
// a restart, and no page but the one that the definition names. The agent is alive
// afterwards, and its records add up.
//
// covers ALF-3, ALF-60, P13.2, P15.1, P15.3
func TestHostileCell(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	self := must(os.Executable())(t)
	program := filepath.Join(folder, hostileMesh)
	copyProgram(t, self, program)

	var asked, visited atomic.Int64
	var odd atomic.Pointer[string]
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if visited.Add(1); r.URL.RequestURI() != "/start" {
				odd.Store(new(r.Method + " " + r.URL.RequestURI()))
			}
			_, _ = io.WriteString(w, "hello")
			return
		}
		asked.Add(1)
		var request struct {
			Model     string `json:"model"`
			MaxTokens int    `json:"max_tokens"`
		}
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &request) != nil || request.Model != "x" || request.MaxTokens != 16 || r.URL.Path != "/v1/chat/completions" {
			odd.Store(new(r.URL.Path + " " + string(body)))
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range []string{`{"choices":[{"delta":{"content":"x"}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":1200,"completion_tokens":16}}`, `[DONE]`} {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		}
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	address := listener.Addr().String()

	bait, end, err := newBait(t.TempDir())
	noError(t, err)
	t.Cleanup(end)
	instructions := must(json.Marshal(map[string]any{"bait": bait, "urls": []string{
		"http://" + address + "/start", "http://" + address + "/secret?what=all", "http://" + address + "/start?what=all", "http://127.0.0.1:1/start", "http://localhost:80/",
		"http://169.254.169.254/latest/meta-data/", "file:///etc/passwd",
	}}))(t)
	const budget = 5000
	dir := filepath.Join(folder, "desk")
	writeFiles(t, dir, map[string]string{
		"mesh.yaml":        "auditors: [sec]\nmodels:\n- {name: small, provider: openai, model: x, base_url: 'http://" + address + "/v1'}\n",
		"agents/main.md":   "---\nname: main\nbcp_channels:\n- {peer: reader, role: controller, max_category: 1, budget_bits: 100}\n---\n",
		"agents/reader.md": fmt.Sprintf("---\nname: reader\ncommand: builtin\nmodel: small\ntools: [web_fetch]\nnetwork: ['%s']\nstart_urls: ['http://%s/start']\nlinks_only: true\negress_budget_bits: 10000\ntoken_budget: %d\nmax_output_tokens: 16\nbcp_channels:\n- {peer: main, role: reader}\n---\n%s\n", address, address, budget, instructions),
	})
	var spent int64
	for round := range 2 {
		log := filepath.Join(folder, fmt.Sprintf("log%d", round))
		said := upWithHostileCells(t, program, dir, log)
		for _, wrong := range []string{"reached ", ": done", "what=all: true", "127.0.0.1:1/start: true", "localhost:80/: true", "meta-data/: true", "passwd: true"} {
			if i := strings.Index(said, wrong); i >= 0 {
				t.Errorf("round %d: %s", round, said[max(0, i-100):min(len(said), i+100)])
			}
		}
		for _, right := range []string{"tried a conversation too many: refused rate_limited", "tried a push: refused no_channel", "a tool: ", "asked for http://" + address + "/start: ", "spent "} {
			failIf(t, !strings.Contains(said, right), "round %d: it does not say %q:\n%s", round, right, said)
		}
		if text := odd.Load(); text != nil {
			t.Errorf("round %d: the network heard %s", round, *text)
		}
		u := readUsage(t, dir)
		failIf(t, len(u.twice) > 0 || asked.Load() > int64(len(u.reserves)) || u.used > budget,
			"round %d: twice %q, %d asked, %d recorded, %d of %d tokens", round, u.twice, asked.Load(), len(u.reserves), u.used, budget)
		failIf(t, round == 1 && asked.Load() != spent,
			"%d calls after the restart of a mesh whose budget was spent", asked.Load()-spent)
		spent = asked.Load()
		t.Logf("round %d: %d calls, %d tokens, %d pages", round, spent, u.used, visited.Load())
	}
	failIf(t, spent == 0 || visited.Load() == 0, "nothing was tried")
}

// upWithHostileCells runs a mesh until its hostile cell has tried all and its agent has
// answered a question, and returns what was logged.
func upWithHostileCells(t *testing.T, program, dir, log string) string {
	t.Helper()
	up := startUp(t, program, "", log, os.Environ(), dir, "--log-level", "info", "--listen", "127.0.0.1:0")
	up.await("the cell did not come to its end", func() bool { return strings.Contains(up.said(), "tried all") })
	got := execute(t, "", "query", "reader", "--boolean", "breaking", "--as", "main", "--dir", dir)
	failIf(t, got.code != cli.ExitOK || !strings.Contains(got.stdout, `{"breaking":true}`), "%+v", got)
	up.end(os.Interrupt)
	return up.said()
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o700)
	}
	noError(t, err)
	stopIf(t, !bytes.HasPrefix(b, []byte("\x7fELF")), "this program is none")
}
