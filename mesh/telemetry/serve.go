package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of one server. A scrape has the gateway's goroutine stop for the
// moment of a snapshot, so that few are served at once.
const (
	maxScrapes     = 2
	inspectTimeout = 5 * time.Second
	headerTimeout  = 5 * time.Second
	readTimeout    = 5 * time.Second
	writeTimeout   = 15 * time.Second
	idleTimeout    = 2 * time.Minute // scrapes come every minute or oftener
	maxHeaderBytes = 16 << 10
)

// Path is where the metrics are.
const Path = "/metrics"

// ErrNotLoopback says that an address can be reached from other machines.
var ErrNotLoopback = errors.New("metrics are served on loopback alone")

// Shard is the metrics of a shard, and where they are read.
type Shard struct {
	Metrics *Metrics
	Source  Source
}

// Handler serves GET /metrics of all shards, and GET /healthz: 200 where the gateway
// answers for one of them, and 503 where it does not. Other requests are refused, and so is one that was
// sent to a name that is not this machine's: a web page must not read metrics
// by pointing its own name here.
func Handler(shards ...Shard) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) { scrape(w, r, shards) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), inspectTimeout)
		defer cancel()
		answers := make(chan error, len(shards))
		for _, s := range shards {
			go func() {
				_, err := snapshotOf(ctx, s.Source)
				answers <- err
			}()
		}
		for range shards {
			if err := <-answers; err == nil {
				_, _ = io.WriteString(w, "ok\n")
				return
			}
		}
		http.Error(w, "the gateway does not answer", http.StatusServiceUnavailable)
	})
	busy := make(chan struct{}, maxScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if !isLoopback(hostOf(r.Host)) {
			http.Error(w, ErrNotLoopback.Error(), http.StatusForbidden)
			return
		}
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
			mux.ServeHTTP(w, r)
		default:
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
		}
	})
}

func scrape(w http.ResponseWriter, r *http.Request, shards []Shard) {
	ctx, cancel := context.WithTimeout(r.Context(), inspectTimeout)
	defer cancel()
	readings := make([]*reading, len(shards))
	var asking sync.WaitGroup // at once: one that does not answer takes no time from the others
	for i, s := range shards {
		asking.Go(func() {
			snapshot, err := snapshotOf(ctx, s.Source)
			readings[i] = &reading{now: time.Now(), up: err == nil, snapshot: snapshot, connected: s.Source.Connected(), storage: s.Source.Storage(), shown: s.Source.Shown()}
		})
	}
	asking.Wait()
	var all prometheus.Gatherers
	for i, s := range shards {
		registry := prometheus.NewRegistry()
		prometheus.WrapRegistererWith(s.Metrics.labels, registry).MustRegister(readings[i])
		all = append(all, s.Metrics.registry, registry)
	}
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// hostOf returns a host without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// Server serves metrics. [Serve] makes one.
type Server struct {
	http    *http.Server
	address string
	undo    func() bool
	done    chan struct{}
	err     error // of serving, once done is closed
}

// Serve serves the metrics at an address of the loopback interface until Stop,
// or until ctx is cancelled; port 0 means any free one.
func Serve(ctx context.Context, address string, shards ...Shard) (*Server, error) {
	if !isLoopback(hostOf(address)) {
		return nil, fmt.Errorf("%w: %q", ErrNotLoopback, address)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	s := &Server{address: listener.Addr().String(), done: make(chan struct{}), http: &http.Server{
		Handler: Handler(shards...), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: hclog.NewNullLogger().StandardLogger(nil), // what a client does wrong is its own affair
	}}
	// What localhost is, the system says.
	if !isLoopback(hostOf(s.address)) {
		return nil, errors.Join(fmt.Errorf("%w: %q is %s", ErrNotLoopback, address, s.address), listener.Close())
	}
	s.undo = context.AfterFunc(ctx, func() { _ = s.http.Close() })
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("serve metrics: %w", err)
		}
	}()
	return s, nil
}

// URL is where the metrics are.
func (s *Server) URL() string { return "http://" + s.address + Path }

// Stop ends the server: scrapes that run are finished until ctx ends. It may be
// called several times.
func (s *Server) Stop(ctx context.Context) error {
	s.undo()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // those that are left are cut off
	}
	<-s.done
	return s.err
}
