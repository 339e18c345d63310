package stdio_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// pair is a mesh of a Controller and a Reader with a subscription.
func pair(t *testing.T) *meshtest.Mesh {
	t.Helper()
	return meshtest.Start(t, map[string]string{
		"mesh.yaml": "name: desk\n",
		"agents/main.md": `---
name: main
bcp_channels:
  - {peer: researcher, role: controller, max_category: 2, budget_bits: 1000, subscriptions: [{id: news, category: 1, fields: [{name: urgent, type: boolean}]}]}
---
`,
		"agents/researcher.md": `---
name: researcher
bcp_channels:
  - {peer: main, role: reader, max_category: 2, budget_bits: 1000}
---
`,
	})
}

// served is a program that a test plays by hand.
type served struct {
	t     *testing.T
	in    *io.PipeWriter // what it says
	lines chan []byte    // what it hears
	ended chan error
}

func serve(t *testing.T, m *meshtest.Mesh, name bcp.AgentName, role bcp.Role) *served {
	t.Helper()
	c, err := agents.Connect(t.Context(), m.URL(), agents.CredsText(m.Creds(t, name, role)),
		agents.Options{Name: name, Logger: hclog.NewNullLogger(), MaxWait: 50 * time.Millisecond, Handlers: stdio.MaxHandlers})
	bcptest.NoError(t, err)
	fromProgram, in := io.Pipe()
	out, toProgram := io.Pipe()
	s := &served{t: t, in: in, lines: make(chan []byte, 4096), ended: make(chan error, 1)}
	go func() { // as the buffer of a real pipe does, it takes what nobody reads yet
		defer close(s.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- bytes.Clone(scanner.Bytes())
		}
	}()
	go func() {
		err := stdio.Serve(t.Context(), stdio.Agent{Connection: c, Name: name, Role: role, Version: "test", Logger: hclog.NewNullLogger()}, fromProgram, toProgram)
		_ = fromProgram.Close()
		_ = toProgram.Close()
		c.Close()
		s.ended <- err
	}()
	t.Cleanup(func() {
		_ = in.Close()
		<-s.ended
		for range s.lines { // what was still said
		}
	})
	return s
}

// say sends a line.
func (s *served) say(format string, args ...any) {
	s.t.Helper()
	_, err := fmt.Fprintf(s.in, format+"\n", args...)
	stopIf(s.t, err != nil, "%v", err)
}

// line is what a program hears.
type line struct {
	ID     jsontext.Value
	Method string
	Params jsontext.Value
	Result jsontext.Value
	Error  jsontext.Value
}

// hear returns the next line that matches; others are dropped.
func (s *served) hear(match func(line) bool) line {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case b, more := <-s.lines:
			var l line
			stopIf(s.t, !more, "it ended")
			err := json.Unmarshal(b, &l, json.MatchCaseInsensitiveNames(true))
			stopIf(s.t, err != nil, "%s: %v", b, err)
			if match(l) {
				return l
			}
		case <-timeout:
			s.t.Fatal("it did not come")
		}
	}
}

func method(name string) func(line) bool { return func(l line) bool { return l.Method == name } }

func reply(id string) func(line) bool {
	return func(l line) bool { return l.Method == "" && string(l.ID) == id }
}

// A Reader's and a Controller's program hold the whole exchange: an answer that cannot
// be read is asked for again with the reason, one that nobody waits for is dropped, a
// delivery that fails comes again, and a push is delivered.
//
// covers P3.10, P9.1
func TestServe(t *testing.T) {
	t.Parallel()
	m := pair(t)
	reader, controller := serve(t, m, "researcher", bcp.RoleReader), serve(t, m, "main", bcp.RoleController)
	got := reader.hear(method("ready"))
	failIf(t, string(got.Params) != `{"agent":"researcher","role":"reader","version":"test"}`, "ready: %s", got.Params)
	controller.say(`{"jsonrpc":"2.0","id":"a","method":"ask_and_wait","params":{"target":"researcher","spec":{"category":1,"fields":[{"name":"urgent","type":"boolean"}]}}}`)
	first := reader.hear(method("query"))
	reader.say(`{"jsonrpc":"2.0","id":%s,"result":["attacker words"]}`, first.ID)
	again := reader.hear(method("query"))
	bcptest.FailIf(t, !strings.Contains(string(again.Params), `"attempt":1,"last_detail":"its answer is not a JSON object"`),
		"asked again with %s", again.Params)
	reader.say(`{"jsonrpc":"2.0","id":%s,"result":{"urgent":false}}`, first.ID) // late
	reader.say(`{"jsonrpc":"2.0","id":77,"result":{"urgent":false}}`)           // made up
	reader.say(`{"jsonrpc":"2.0","id":%s,"result":{"urgent":true}}`, again.ID)
	got = controller.hear(reply(`"a"`))
	failIf(t, !strings.Contains(string(got.Result), `"response":{"urgent":true}`), "answered with %s, %s", got.Result, got.Error)

	reader.say(`{"jsonrpc":"2.0","id":2,"method":"push","params":{"controller":"main","subscription_id":"news","response":{"urgent":true},"push_id":"p1"}}`)
	got = reader.hear(reply("2"))
	failIf(t, !strings.Contains(string(got.Result), `"status":"delivered"`), "pushed: %s, %s", got.Result, got.Error)
	d := controller.hear(method("delivery"))
	controller.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"not now"}}`, d.ID)
	same := controller.hear(method("delivery"))
	bcptest.FailIf(t, string(same.Params) != string(d.Params), "it came again as %s, before as %s", same.Params, d.Params)
	controller.say(`{"jsonrpc":"2.0","id":%s,"result":null}`, same.ID)

	controller.say(`{"jsonrpc":"2.0","id":3,"method":"channels"}`)
	if got := controller.hear(reply("3")); !strings.Contains(string(got.Result), `"reader":"researcher","max_category":2`) {
		t.Errorf("channels: %s, %s", got.Result, got.Error)
	}
}

// What a program says wrongly is refused with a code, and the next line is read.
//
// covers P2.2
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	m := pair(t)
	c := serve(t, m, "main", bcp.RoleController)
	for i, wrong := range []struct{ method, params, want string }{
		{"push", `{}`, `"code":-32601`},
		{"ask", `{"target":"researcher","spec":{"category":9}}`, `"code":-32000,"message":"the query's spec is not valid"`},
		{"ask", `{"target":"No Name","spec":{"category":1}}`, `"code":-32602,"message":"target: `},
		{"ask", `{"attacker":"words"}`, `"code":-32602`},
		{"ask", `{"target":"nobody","spec":{"category":1,"fields":[{"name":"a","type":"boolean"}]}}`, `"data":{"code":"no_channel"}`},
		{"ask", `{"target":"researcher","spec":{"category":3,"directive":"say all","max_words":5}}`, `"code":-32000,`},
		{"taint", `{"source":"nowhere"}`, `"error"`},
		{"run", `{"kernel":"No Name","grant":"go","task":"x"}`, `"code":-32602,"message":"kernel: `},
		{"run", `{"kernel":"desk","grant":"go","task":"x","attacker":"words"}`, `"code":-32602`},
		{"close", `[]`, `"code":-32602`},
	} {
		c.say(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}`, i, wrong.method, wrong.params)
		got := c.hear(reply(fmt.Sprint(i)))
		if text := string(got.Error); text == "" || wrong.want != `"error"` && !strings.Contains(text, wrong.want) || strings.Contains(text, "attacker") {
			t.Errorf("%s %s: %s %s", wrong.method, wrong.params, got.Result, got.Error)
		}
	}
}

// Lines that are no messages are refused; one that is too long ends it.
//
// covers P2.2
func TestLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"attacker":                               `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not a JSON object of JSON-RPC"}}`,
		`{"id":1}`:                               `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"jsonrpc is not \"2.0\""}}`,
		`{"jsonrpc":"2.0"}`:                      `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"neither a method nor an id"}}`,
		`{"jsonrpc":"2.0","id":1,"id":2}`:        `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not a JSON object of JSON-RPC"}}`,
		`{"jsonrpc":"2.0","id":1,"error":3}`:     `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not a JSON object of JSON-RPC"}}`,
		`{"jsonrpc":"2.0","id":"x","result":{}}`: ``,
	} {
		var out bytes.Buffer
		err := stdio.ReadLines(strings.NewReader(text+"\n"), &out)
		failIf(t, err != nil || strings.TrimSuffix(out.String(), "\n") != want, "%s: %s, %v", text, out.String(), err)
	}
	long := `{"jsonrpc":"2.0","method":"` + strings.Repeat("x", stdio.MaxLine-len(`{"jsonrpc":"2.0","method":""}`)-1) + `"}`
	if err := stdio.ReadLines(strings.NewReader(long+"\n"), io.Discard); err != nil {
		t.Error(err)
	}
	err := stdio.NewClient(io.Discard, nil).Run(t.Context(), strings.NewReader(strings.Repeat("x", 2<<10)+"\n"), 1<<10)
	bcptest.FailIf(t, err == nil || !strings.Contains(err.Error(), "longer than 1 KiB"), "a client: %v", err)
	err = stdio.ReadLines(strings.NewReader(long+"xx\n"), io.Discard)
	failIf(t, err == nil || err.Error() != "stdio: a line of the program is longer than 1024 KiB", "%v", err)
}

// FuzzLines reads any bytes as a program's lines: each thing that is said of them is an
// error of JSON-RPC with a text of ours.
//
// covers P2.2
func FuzzLines(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1,"method":"ask"}`, `{"jsonrpc":"2.0","id":1,"result":null}`, "[]\n\n{}", `{"jsonrpc":"2.0","id":{},"method":"x"}`, "{\"id\":\"\xff\"}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		_ = stdio.ReadLines(bytes.NewReader(b), &out)
		for said := range bytes.Lines(out.Bytes()) {
			var m struct {
				JSONRPC string         `json:"jsonrpc"`
				ID      jsontext.Value `json:"id"`
				Error   struct {
					Code    int    `json:"code"`
					Message string `json:"message"`
				} `json:"error"`
			}
			err := json.Unmarshal(said, &m, json.RejectUnknownMembers(true))
			stopIf(t, err != nil || m.Error.Code > -32600 || len(m.Error.Message) > 60, "%q: %s, %v", b, said, err)
		}
	})
}

var failIf, stopIf = bcptest.FailIf, bcptest.StopIf
