package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// Limits of the HTTP server of a target.
const (
	LargestBody = 64 << 10 // of a request, in bytes
	MostWaiting = 64       // requests at a time, of which one is served
)

// ErrNotLoopback says that other machines could reach the listener.
var ErrNotLoopback = errors.New("the address can be reached from other machines")

func ownListener(l net.Listener) (net.Listener, error) {
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok || !address.IP.IsLoopback() {
		return nil, errors.Join(ErrNotLoopback, l.Close())
	}
	return l, nil
}

// serveTarget serves until ctx ends, or a text could not be said.
func serveTarget(ctx context.Context, l net.Listener, say func(string) (Arrived, error), onReady func(url string)) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port) // ownListener looked
	server := http.Server{
		Handler: targetHandler(port, say, end), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 5 * time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close()
		}
	})
	if onReady != nil {
		onReady("http://" + l.Addr().String() + "/")
	}
	err := server.Serve(l)
	if stop() {
		return err // it ended by itself
	}
	<-ended
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// targetHandler answers POST /. An error of say ends the target: later results would
// not be reliable.
func targetHandler(port string, say func(string) (Arrived, error), failed func(error)) http.Handler {
	waiting, turn := make(chan struct{}, MostWaiting), make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		select {
		case waiting <- struct{}{}:
			defer func() { <-waiting }()
		default:
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, "too many requests wait: send fewer at a time")
			return
		}
		text, status, why := readText(w, r)
		if why != "" {
			refuse(w, status, why)
			return
		}
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-r.Context().Done():
			return
		}
		arrived, err := say(text)
		if err != nil {
			refuse(w, http.StatusInternalServerError, "the mesh let the target down, which ends")
			failed(err)
			return
		}
		answer(w, http.StatusOK, arrived)
	})
	protected := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Host {
		case "localhost:" + port, "127.0.0.1:" + port, "[::1]:" + port:
			protected.ServeHTTP(w, r)
		default: // another name that resolves to this machine
			refuse(w, http.StatusMisdirectedRequest, "ask for localhost or 127.0.0.1")
		}
	})
}

// readText reads {"text": …}, or says why not.
func readText(w http.ResponseWriter, r *http.Request) (text string, status int, why string) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return "", http.StatusUnsupportedMediaType, "send application/json"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, LargestBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return "", http.StatusRequestEntityTooLarge, "a request has at most 65536 bytes"
	}
	if err != nil {
		return "", http.StatusBadRequest, "the request cannot be read"
	}
	var request struct {
		Text *string `json:"text"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if !utf8.Valid(body) || decoder.Decode(&request) != nil || request.Text == nil || *request.Text == "" {
		return "", http.StatusBadRequest, `send {"text": "…"}`
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return "", http.StatusBadRequest, "send one object"
	}
	return *request.Text, 0, ""
}

func refuse(w http.ResponseWriter, status int, why string) {
	answer(w, status, map[string]string{"error": why})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // ignore an error: the client is gone
}
