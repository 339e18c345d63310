package keeper_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// A program has what its definition gives it, one model at a time of 64, and is told why it has nothing else.
//
// covers P7.5, ALF-10
func TestProgramIsServed(t *testing.T) {
	t.Parallel()
	const (
		messages = "/openai/v1/chat/completions"
		call     = `{"model":"dearer","max_tokens":1000000,"messages":[{"role":"user","content":"x"}]}`
		fetch    = `{"conversation":"c","ask":{"url":"https://good.test/"}}`
	)
	model, script := endpoint(1)
	whole := keeper.NewServices(nil, model, pages)
	nothing := keeper.NewServices(nil, llm.Endpoint{}, nil)
	for _, c := range []struct {
		services   *keeper.Services
		path, body string
		status     int
		want       string
	}{
		{whole, messages, call, http.StatusOK, `"model":"pinned"`},
		{whole, "/fetch", fetch, http.StatusOK, `"page":1`},
		{whole, "/fetch", `{"conversation":"c","ask":{"url":"https://evil.test/"}}`, http.StatusOK, `"error":"host"`},
		{whole, "/end", `{"conversation":"c"}`, http.StatusOK, `{}`},
		{whole, "/fetch", `{"conversation":"c"`, http.StatusBadRequest, `"code":"malformed"`},
		{whole, "/fetch", fetch + strings.Repeat(" ", 16<<10-len(fetch)), http.StatusOK, `"page":1`},
		{whole, "/fetch", fetch + strings.Repeat(" ", 16<<10-len(fetch)+1), http.StatusRequestEntityTooLarge, `"code":"malformed"`},
		{whole, "/model", `{"conversation":"c","request":{}}`, http.StatusNotFound, ""},
		{whole, "/configuration", `{}`, http.StatusNotFound, ""},
		{whole, "/mcp", `{"conversation":"c"}`, http.StatusNotFound, ""},
		{nothing, messages, call, http.StatusForbidden, "this agent has no model"},
		{nothing, "/fetch", fetch, http.StatusForbidden, "this agent has no network"},
	} {
		w := httptest.NewRecorder()
		c.services.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, strings.NewReader(c.body)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %.60s: %d, %s", c.path, c.body, w.Code, w.Body)
		}
	}
	if r := script.Requests[0]; r.Model != "pinned" || r.MaxTokens != 100 {
		t.Errorf("%+v", r)
	}
}

// A program has as many calls of its model at a time as a cell has conversations, and not one more.
func TestProgramsCallsAreBounded(t *testing.T) {
	t.Parallel()
	model, _ := endpoint(0)
	handler := keeper.NewServices(nil, model, nil).Handler()
	asked := func(body io.Reader) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/openai/v1/chat/completions", body)
		r.ContentLength = 1
		handler.ServeHTTP(w, r)
		return w
	}
	begun := make(chan struct{})
	var open []*io.PipeWriter
	ended := make(chan struct{})
	for range 64 {
		r, w := io.Pipe()
		open = append(open, w)
		go func() {
			asked(&reading{r, begun})
			ended <- struct{}{}
		}()
		<-begun
	}
	if w := asked(strings.NewReader(`{}`)); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "rate_limited") {
		t.Errorf("the 65th: %d, %s", w.Code, w.Body)
	}
	for _, w := range open {
		_ = w.Close()
		<-ended
	}
	if w := asked(strings.NewReader(`{`)); w.Code != http.StatusBadRequest {
		t.Errorf("after they have ended: %d, %s", w.Code, w.Body)
	}
}

// A program's calls have so much room in all: one without more waits until another has ended, whether it says how long it
// is or not, and so does a page.
func TestProgramsCallsHaveSoMuchRoom(t *testing.T) {
	t.Parallel()
	model, _ := endpoint(0)
	handler := keeper.NewServices(nil, model, pages).Handler()
	for path, lengths := range map[string][]int64{"/openai/v1/chat/completions": {4 << 20, -1, 1 << 40}, "/fetch": {1}} {
		begun, ended := make(chan struct{}), make(chan struct{})
		ask := func(n int) *io.PipeWriter {
			from, to := io.Pipe()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, &reading{from, begun})
			r.ContentLength = lengths[n%len(lengths)]
			go func() {
				handler.ServeHTTP(httptest.NewRecorder(), r)
				ended <- struct{}{}
			}()
			return to
		}
		var open []*io.PipeWriter
		for n := range map[string]int{"/openai/v1/chat/completions": 16, "/fetch": 7}[path] {
			open = append(open, ask(n))
			<-begun
		}
		open = append(open, ask(0))
		select {
		case <-begun:
			t.Errorf("%s: one more is read while there is no room", path)
		case <-time.After(50 * time.Millisecond):
			_ = open[0].Close()
			<-begun
			<-ended
			open = open[1:]
		}
		for _, w := range open {
			_ = w.Close()
			<-ended
		}
	}
}

// A program has 128 connections. One more is taken when another has ended, and all end with the keeper.
func TestProgramsConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	model, _ := endpoint(0)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- keeper.NewServices(nil, model, nil).Serve(ctx, listener) }()
	answered := func(conn net.Conn) bool {
		if _, err := conn.Write([]byte("GET /fetch HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			return false
		}
		_, err := bufio.NewReader(conn).ReadString('\n')
		return err == nil
	}
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var open []net.Conn
	for range 128 {
		conn := dial()
		if !answered(conn) {
			t.Fatal("a connection is not answered")
		}
		open = append(open, conn)
	}
	late := make(chan bool)
	conn := dial()
	go func() { late <- answered(conn) }()
	select {
	case <-late:
		t.Error("the 129th is answered while the others are open")
	case <-time.After(50 * time.Millisecond):
	}
	_ = open[0].Close()
	if !<-late {
		t.Error("the 129th is not answered when another has ended")
	}
	end()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// reading says when it is read first.
type reading struct {
	io.Reader
	begun chan struct{}
}

func (r *reading) Read(p []byte) (int, error) {
	if r.begun != nil {
		r.begun <- struct{}{}
		r.begun = nil
	}
	return r.Reader.Read(p)
}
