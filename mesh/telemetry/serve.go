package telemetry

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Limits of one server. A scrape stops the gateway's goroutine for a snapshot,
// so few are served at once.
const (
	maxScrapes     = 2
	inspectTimeout = 5 * time.Second
	headerTimeout  = 5 * time.Second
	readTimeout    = 5 * time.Second
	writeTimeout   = 15 * time.Second
	idleTimeout    = 2 * time.Minute // scrapes come at least once a minute
	maxHeaderBytes = 16 << 10
	// healthFor is how long a health result is cached: strangers may ask, and must not
	// stop the gateway each time.
	healthFor = time.Second
	// MinToken is the least length of a token, in bytes.
	MinToken = 16
)

// MetricsPath is the path of the metrics.
const MetricsPath = "/metrics"

var (
	// ErrNotLoopback says that an address is reachable from other machines
	// without authentication.
	ErrNotLoopback = errors.New("metrics are served beyond loopback with a token alone")
	// ErrToken says that a token is too short, or has a character that no header can
	// carry.
	ErrToken = errors.New("expected a token of 16 or more visible ASCII characters")
)

// CheckToken reports whether a token may guard metrics: [ErrToken].
func CheckToken(token string) error {
	if len(token) < MinToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ErrToken
	}
	return nil
}

// Handler serves GET /metrics; GET /healthz: 200 if the gateway of the source answers,
// otherwise 503; and GET /livez: 200, since the process runs. Other requests are refused.
//
// Without a token, so are requests to a host name that is not this machine's: a web page
// must not read metrics by DNS rebinding. With a token, /metrics requires it
// (Authorization: Bearer), with any host name, and the others are for everybody.
func Handler(token string, metrics *Metrics, source Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /healthz", (&health{source: source}).serve)
	busy := make(chan struct{}, maxScrapes)
	mux.HandleFunc("GET "+MetricsPath, func(w http.ResponseWriter, r *http.Request) {
		if token != "" && !hasToken(r, token) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "metrics need the token", http.StatusUnauthorized)
			return
		}
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
			scrape(w, r, metrics, source)
		default:
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if token == "" && !guard.Loopback(cutPort(r.Host)) {
			http.Error(w, "metrics are served on loopback alone", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// hasToken reports whether a request has the token, in constant time.
func hasToken(r *http.Request, token string) bool {
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	have, want := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

// health asks the gateway, and keeps the answer for a moment.
type health struct {
	source Source

	mu    sync.Mutex
	asked time.Time
	good  bool
}

func (h *health) serve(w http.ResponseWriter, r *http.Request) {
	if h.answers(r.Context()) {
		_, _ = io.WriteString(w, "ok\n")
		return
	}
	http.Error(w, "the gateway does not answer", http.StatusServiceUnavailable)
}

// answers reports whether the gateway answers. Concurrent callers wait for
// the same result.
func (h *health) answers(ctx context.Context) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.asked.IsZero() && time.Since(h.asked) < healthFor {
		return h.good
	}
	// The answer is for others too: it does not end with this request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inspectTimeout)
	defer cancel()
	_, err := readSnapshot(ctx, h.source)
	h.good = err == nil
	h.asked = time.Now()
	return h.good
}

func scrape(w http.ResponseWriter, r *http.Request, metrics *Metrics, source Source) {
	ctx, cancel := context.WithTimeout(r.Context(), inspectTimeout)
	defer cancel()
	snapshot, err := readSnapshot(ctx, source)
	registry := prometheus.NewRegistry()
	registry.MustRegister(&reading{now: time.Now(), up: err == nil, snapshot: snapshot, connected: source.Connected(), storage: source.Storage()})
	promhttp.HandlerFor(prometheus.Gatherers{metrics.registry, registry}, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// cutPort returns a host without its port.
func cutPort(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// Server serves metrics. [Serve] makes one.
type Server struct {
	http    *http.Server
	address string
	done    chan struct{}
	err     error // of serving, once done is closed
}

// Serve serves the metrics at an address until Stop; port 0 means any free one. Without a token the address must be loopback, otherwise the
// error is [ErrNotLoopback]; a token must pass [CheckToken].
func Serve(ctx context.Context, address, token string, metrics *Metrics, source Source) (*Server, error) {
	if token != "" {
		if err := CheckToken(token); err != nil {
			return nil, fmt.Errorf("serve metrics: %w", err)
		}
	}
	if token == "" && !guard.Loopback(cutPort(address)) {
		return nil, fmt.Errorf("%w: %q", ErrNotLoopback, address)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	s := &Server{address: listener.Addr().String(), done: make(chan struct{}), http: &http.Server{
		Handler: Handler(token, metrics, source), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: hclog.NewNullLogger().StandardLogger(nil), // clients' mistakes are not logged
	}}
	// What localhost is, the system says.
	if token == "" && !guard.Loopback(cutPort(s.address)) {
		return nil, errors.Join(fmt.Errorf("%w: %q is %s", ErrNotLoopback, address, s.address), listener.Close())
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("serve metrics: %w", err)
		}
	}()
	return s, nil
}

// URL returns the URL of the metrics.
func (s *Server) URL() string { return "http://" + s.address + MetricsPath }

// Stop stops the server: running scrapes may finish until ctx ends. It may be
// called several times.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // cuts the others off
	}
	<-s.done
	return s.err
}
