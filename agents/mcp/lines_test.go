package mcp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// ids are those that hosts send: each comes back byte for byte.
var ids = []string{`1`, `0`, `-7`, `9007199254740991`, `9007199254740993`, `-9007199254740993`, `1234567890123456789`, `18446744073709551617`, `1.5`, `2.0`, `1e3`, `"x"`, `"1"`, `"\u0041\n"`, `""`, `"é"`}

// A host is answered under its own ids, and a line that is no message is answered with an error and ends nothing.
func TestLinesOfHosts(t *testing.T) {
	t.Parallel()
	const invalid, broken = -32600, -32700
	failed := func(id string, code int) string { return fmt.Sprintf(`"id":%s,"error":{"code":%d,`, id, code) }
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	pong := func(id string) string { return `"id":` + id + `,"result":{}` }
	tests := map[string][]string{ // by a line what is answered
		"hello": {failed("null", broken)}, "{": {failed("null", broken)}, "{}": {failed("null", invalid)}, "5": {failed("null", invalid)}, `"x"`: {failed("null", invalid)}, "null": {failed("null", invalid)},
		`{"jsonrpc":"2.0","id":1,"method":"ping"`: {failed("null", broken)}, `{"jsonrpc":"2.0","id":NaN,"method":"ping"}`: {failed("null", broken)},
		`{"id":1,"method":"ping"}`: {failed("null", invalid)}, `{"jsonrpc":"1.0","id":1,"method":"ping"}`: {failed("null", invalid)}, `{"jsonrpc":"2.0","id":1}`: {failed("null", invalid)},
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`: {failed("null", invalid)}, `{"jsonrpc":"2.0","id":{},"method":"ping"}`: {failed("null", invalid)}, `{"jsonrpc":"2.0","id":true,"method":"ping"}`: {failed("null", invalid)},
		`{"jsonrpc":"2.0","id":3,"method":5}`: {failed("3", invalid)}, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`: {pong("2")},
		"[]": {failed("null", invalid)}, "[" + ping("1") + "," + ping("2.5") + ",7]": {pong("1"), pong("2.5"), failed("null", invalid)}, "[[" + ping("1") + "]]": {failed("null", invalid)},
		ping("1,\"params\":" + strings.Repeat("[", 1001) + strings.Repeat("]", 1001)): {failed("1", invalid)}, ping(`1,"error":5`): {pong("1")}, ping("\"\xff\""): {pong("\"\ufffd\"")},
		"\ufeff" + ping("1"): {pong("1")}, " \t" + ping("1") + "\r": {pong("1")}, "": nil, "  ": nil,
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"nothing"}`: {`"id":9007199254740993,"error":`},
		ping(`"` + strings.Repeat("x", 254) + `"`):                   {pong(`"` + strings.Repeat("x", 254) + `"`)}, ping(`"` + strings.Repeat("x", 255) + `"`): {failed("null", invalid)},
		strings.Repeat("x", 1<<20):                                                                     {failed("null", invalid)},
		ping("1") + strings.Repeat(" ", 1<<20-1-len(ping("1"))):                                        {pong("1")},
		"[" + strings.Repeat("1,", 1<<17) + "1]":                                                       {failed("null", broken)},
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993}}`: nil,
	}
	for _, id := range ids {
		tests[ping(id)] = []string{pong(id)}
	}
	for line, want := range tests {
		var out bytes.Buffer
		in := line + "\n" + ping(`"after"`) + "\n"
		err := mcp.New("main", bcp.RoleController, mcp.Options{}).ServeLines(t.Context(), strings.NewReader(in), &out)
		failIf(t, err != nil, "%.60q: %v", line, err)
		got := strings.Split(strings.TrimSpace(out.String()), "\n")
		for _, one := range append(want, pong(`"after"`)) {
			i := slices.IndexFunc(got, func(line string) bool { return strings.HasPrefix(line, `{"jsonrpc":"2.0",`+one) })
			if i < 0 {
				t.Errorf("%.60q: no %s in %q", line, one, got)
				continue
			}
			got = slices.Delete(got, i, i+1)
		}
		failIf(t, len(got) > 0, "%.60q: also %q", line, got)
	}
}

// A request is cancelled by its own id, and two requests with one id are not at work at a time.
func TestCancellationOfExactIDs(t *testing.T) {
	t.Parallel()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { done <- mcp.New("main", bcp.RoleController, mcp.Options{}).ServeLines(ctx, in, out) }()
	const id = "9007199254740993"
	answers := make(chan string, 8)
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, err := fromServer.Read(b)
			if err != nil {
				return
			}
			answers <- string(b[:n])
		}
	}()
	send := func(line string) {
		must(io.WriteString(toServer, line+"\n"))
	}
	send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}`)
	next(t, answers, "the greeting")
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`) // waits for a mesh
	send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`)
	got := next(t, answers, "a refusal")
	failIf(t, !strings.Contains(got, `"id":`+id+`,"error":{"code":-32600`), "the same id again: %s", got)
	send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	got = next(t, answers, "the end")
	failIf(t, !strings.Contains(got, `"id":`+id+`,"error":`), "cancelled: %s", got)
	_ = toServer.Close()
	noError(t, <-done)
	_ = out.Close()
}

// Over HTTP each id comes back too.
func TestIDsOverHTTP(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(mcp.New("main", bcp.RoleController, mcp.Options{}).Handler(token))
	t.Cleanup(web.Close)
	session := ""
	post := func(body string) string {
		method := http.MethodPost
		if body == "" { // the end
			method = http.MethodDelete
		}
		r := must(http.NewRequestWithContext(t.Context(), method, web.URL, strings.NewReader(body)))
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		response := must(http.DefaultClient.Do(r))
		defer func() { _ = response.Body.Close() }()
		if id := response.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		return string(must(io.ReadAll(response.Body)))
	}
	first := post(`{"jsonrpc":"2.0","id":9007199254740993,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}`)
	failIf(t, !strings.Contains(first, `"id":9007199254740993,`), "the greeting is %s", first)
	for _, id := range ids {
		if id == `"\u0041\n"` {
			continue // a text comes back as one of its spellings
		}
		got := post(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		failIf(t, !strings.Contains(got, `"id":`+id+`,"result":{}`), "%s: %s", id, got)
	}
	post("")
}
