package keeper

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/net/netutil"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
)

// headerTimeout bounds how long a program may take for the head of a request. It may take its time for the rest.
const headerTimeout = 10 * time.Second

// Serve serves a confined program over the one port that it can reach (package sandbox),
// until ctx ends: POST /fetch and /end have the parameters of the methods of the same
// names, and the model is served as by [wires.Serve]. Services that the program does not
// have answer 403. Connections beyond 128 wait.
func (s *Services) Serve(ctx context.Context, at net.Listener) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	return server.Serve(netutil.LimitListener(at, maxConnections))
}

func (s *Services) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /fetch", s.roomy(fetch.MaxBody, answering(s.fetch)))
	mux.HandleFunc("POST /end", answering(s.end))
	model := refuse("this agent has no model: name one of mesh.yaml in its definition")
	if s.model.Provider != nil {
		model = s.limited(s.roomy(0, wires.Serve(s.model)))
	}
	mux.Handle(wires.ServedBase+"/", model)
	return mux
}

const (
	maxConnections = 128
	maxHeader      = 64 << 10 // bytes of the head of a request
	maxAsk         = 16 << 10 // bytes of a request to /fetch and /end
)

// limited refuses calls beyond the number that a cell may have at a time.
func (s *Services) limited(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxConversations)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			tell(w, http.StatusTooManyRequests, errMany)
		}
	})
}

// roomy lets a call wait until there is room for it, and for a result of so many bytes.
func (s *Services) roomy(result int64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		room := r.ContentLength + result
		if r.ContentLength < 0 || r.ContentLength > maxRequest { // it does not say, or reading it will fail
			room = maxRequest + result
		}
		if s.atWork.Acquire(r.Context(), room) == nil {
			defer s.atWork.Release(room)
			next.ServeHTTP(w, r)
		}
	})
}

func refuse(message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		tell(w, http.StatusForbidden, &stdio.CallError{Code: "not_permitted", Message: message})
	})
}

// answering is a method as HTTP has it.
func answering(method stdio.Method) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAsk))
		if err != nil {
			tell(w, http.StatusRequestEntityTooLarge, errParams)
			return
		}
		result, err := method(r.Context(), body)
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			_ = json.MarshalWrite(w, result) // or the program has gone
			return
		}
		refused := &stdio.CallError{Code: "failed", Message: "the call failed"}
		_ = errors.As(err, &refused)
		status := http.StatusBadGateway
		switch refused.Code {
		case errParams.Code:
			status = http.StatusBadRequest
		case "not_permitted":
			status = http.StatusForbidden
		case errMany.Code:
			status = http.StatusTooManyRequests
		}
		tell(w, status, refused)
	}
}

// tell says why there is no result, in the words of JSON-RPC's errors.
func tell(w http.ResponseWriter, status int, why *stdio.CallError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, map[string]any{"error": map[string]string{"code": why.Code, "message": why.Message}}) // or the program has gone
}
