package web

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// ErrNotLoopback says that an address is reachable from other machines, without TLS or
// without a [Site].
var ErrNotLoopback = errors.New("web: without a site and TLS pages are served on loopback alone")

// Config configures a [Server].
type Config struct {
	// Listen is an address, such as localhost:4280; port 0 is any free one. It must be
	// loopback, unless Site has TLS.
	Listen string
	// Announce is called with each login address, valid once and for five minutes. It
	// must show it only to the person, and neither block nor call the server. With a Site
	// it is never called.
	Announce func(address string)
	// Site makes people log in with passkeys; it is nil if they use the codes of
	// Announce.
	Site *Site
	// Scenes returns the story of a demonstration so far, which then has its own page.
	// It is nil for other meshes.
	Scenes func() []Scene
}

// Server serves pages. Its methods may be called concurrently.
type Server struct {
	listeners []net.Listener // the first is the one of the config
	port      string
	cookie    string
	site      *Site // nil for people of this machine
	logins    logins
	connected connectedPeople
	// strangers is the number of requests that few counts.
	strangers atomic.Int32
	scenes    func() []Scene // nil if the mesh is no demonstration
	mesh      atomic.Pointer[Mesh]
	views     viewCache
	history   history
	live      atomic.Int32  // pages that are live
	ending    chan struct{} // closed when live pages must end
	http      http.Server
}

//go:embed assets/style.css
var style []byte

//go:embed assets/page.js
var script []byte

// The paths of files contain the hash of their content, so that browsers may cache
// them.
var (
	stylePath  = fmt.Sprintf("/assets/%x/style.css", sha256.Sum256(style))
	scriptPath = fmt.Sprintf("/assets/%x/page.js", sha256.Sum256(script))
)

// Listen returns a server that has its port and serves once [Server.Serve] is called.
// The error is [ErrNotLoopback], or of the network.
func Listen(c Config) (*Server, error) {
	if c.Site != nil {
		if _, ok := accounts.PasskeySite(c.Site.Origin); !ok {
			return nil, ErrOrigin
		}
	}
	listeners, err := hold(c.Listen)
	if err != nil {
		return nil, err
	}
	address, ok := listeners[0].Addr().(*net.TCPAddr)
	if !ok || !address.IP.IsLoopback() && (c.Site == nil || c.Site.TLS == nil) {
		return nil, errors.Join(fmt.Errorf("%w: %q", ErrNotLoopback, c.Listen), closeAll(listeners))
	}
	s := newServer(strconv.Itoa(address.Port), c)
	s.listeners = listeners
	return s, nil
}

// maxPorts is how many free ports are tried until one is free on both addresses.
const maxPorts = 16

// hold listens at an address. A browser that goes to localhost asks 127.0.0.1 and ::1: of
// one of them it takes the other too, which somebody else could have.
func hold(listen string) ([]net.Listener, error) {
	_, port, _ := net.SplitHostPort(listen)
	for tries := 1; ; tries++ {
		first, err := net.Listen("tcp", listen)
		if err != nil {
			return nil, err
		}
		address := first.Addr().(*net.TCPAddr)
		other := "::1"
		switch {
		case address.IP.Equal(net.IPv6loopback):
			other = "127.0.0.1"
		case !address.IP.Equal(net.IPv4(127, 0, 0, 1)):
			return []net.Listener{first}, nil
		}
		second, err := net.Listen("tcp", net.JoinHostPort(other, strconv.Itoa(address.Port)))
		switch {
		case err == nil:
			return []net.Listener{first, second}, nil
		case !errors.Is(err, syscall.EADDRINUSE): // this machine has no such address
			return []net.Listener{first}, nil
		case port != "0" || tries >= maxPorts:
			return nil, errors.Join(fmt.Errorf("somebody else listens at %s, where browsers may look for localhost: %w", net.JoinHostPort(other, strconv.Itoa(address.Port)), err), first.Close())
		}
		if err := first.Close(); err != nil {
			return nil, err
		}
	}
}

func closeAll(listeners []net.Listener) (err error) {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

func newServer(port string, c Config) *Server {
	s := &Server{port: port, cookie: "bcpmesh-" + port, site: c.Site, scenes: c.Scenes, ending: make(chan struct{})}
	if s.secure() {
		s.cookie = "__Secure-bcpmesh"
	}
	s.logins.now = time.Now
	s.logins.announce = func(code string) { c.Announce(s.URL() + loginPath + "?code=" + code) }
	s.http = http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: hclog.NewNullLogger().StandardLogger(nil),
	}
	return s
}

// URL is the address of the pages.
func (s *Server) URL() string {
	if s.site != nil {
		return s.site.Origin
	}
	return "http://localhost:" + s.port
}

// Address returns the server's listen address.
func (s *Server) Address() string { return s.listeners[0].Addr().String() }

// host returns the server's host in browsers.
func (s *Server) host() string {
	_, host, _ := strings.Cut(s.URL(), "://")
	return host
}

// secure reports whether browsers use TLS.
func (s *Server) secure() bool { return strings.HasPrefix(s.URL(), "https:") }

// Close releases the port of a server that does not serve.
func (s *Server) Close() error { return closeAll(s.listeners) }

// run serves until ctx ends, and then returns nil. Running requests get a second to
// finish.
func (s *Server) run(ctx context.Context) error {
	if s.site == nil {
		s.logins.renew()
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		close(s.ending)
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.http.Shutdown(last) != nil {
			_ = s.http.Close()
		}
	})
	err := s.serve()
	s.connected.close()
	if stop() {
		return err // it ended by itself
	}
	<-ended
	return nil
}

// serve serves all listeners until the first fails.
func (s *Server) serve() error {
	sealed := s.site != nil && s.site.TLS != nil
	if sealed {
		s.http.TLSConfig = s.site.TLS.Clone()
		s.http.TLSConfig.MinVersion = tls.VersionTLS13
	}
	failed := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() {
			if sealed {
				failed <- s.http.ServeTLS(l, "", "")
			} else {
				failed <- s.http.Serve(l)
			}
		}()
	}
	err := <-failed
	if !errors.Is(err, http.ErrServerClosed) { // else requests are being finished
		err = errors.Join(err, s.http.Close())
	}
	for range s.listeners[1:] {
		err = errors.Join(err, <-failed)
	}
	return err
}

// policy lets a page load this server's files, and forbids inline scripts, framing
// and scripts from strings.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range s.routes() {
		mux.HandleFunc(pattern, handle)
	}
	limited := http.MaxBytesHandler(http.NewCrossOriginProtection().Handler(mux), 64<<10)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=(), publickey-credentials-create=(self), publickey-credentials-get=(self)")
		h.Set("Cache-Control", "no-store")
		if s.secure() {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		switch host, get := r.Host, r.Method == http.MethodGet || r.Method == http.MethodHead; {
		case host == s.host():
			limited.ServeHTTP(w, r)
		case s.site == nil && get && (host == "127.0.0.1:"+s.port || host == "[::1]:"+s.port):
			http.Redirect(w, r, s.URL()+r.URL.RequestURI(), http.StatusPermanentRedirect)
		default: // another name that resolves to this machine
			http.Error(w, "this is not the page that you asked for", http.StatusMisdirectedRequest)
		}
	})
}

// routes has what everybody may ask for. All else is behind the gate.
func (s *Server) routes() map[string]http.HandlerFunc {
	inner := http.NewServeMux()
	for pattern, handle := range s.inner() {
		inner.HandleFunc(pattern, within(readTime, handle))
	}
	inner.HandleFunc("GET /events", s.events) // as long as the page is open
	routes := map[string]http.HandlerFunc{
		"GET " + scriptPath: serve("text/javascript; charset=utf-8", script),
		"GET " + stylePath:  serve("text/css; charset=utf-8", style),
		"GET /favicon.ico":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, // browsers request it
		"/{place}/":         s.gate(inner),
		"/{place}":          toLogin,
		"/":                 toLogin,
	}
	if s.site == nil {
		routes["GET /login"], routes["POST /login"] = s.login, s.enter
	} else {
		routes["GET /login"] = func(w http.ResponseWriter, r *http.Request) { s.showPasskeyLogin(w, r, http.StatusOK, "") }
		routes["POST /login"] = s.few(within(readTime, s.enterByPasskey))
		routes["GET /approvals/{item}"] = s.linked
		routes["GET "+enrolPath], routes["POST "+enrolPath] = s.enrol, s.few(within(joinTime, s.enrolled))
	}
	return routes
}

// inner has the pages of a session, by their paths under its place.
func (s *Server) inner() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /logout":                        s.leave,
		"GET /{$}":                            s.overview,
		"GET /agents":                         s.agents,
		"GET /agents/{agent}":                 s.agent,
		"GET /alerts":                         s.alerts,
		"GET /approvals":                      s.approvals,
		"GET " + markedPath:                   s.marked,
		"POST " + markedPath + "/approve":     s.decideMarked(bcp.Approve),
		"POST " + markedPath + "/reject":      s.decideMarked(bcp.RejectItem),
		"GET /approvals/{item}":               s.item,
		"POST /approvals/{item}/approve":      s.decide(s.approve),
		"POST /approvals/{item}/reject":       s.decide(s.reject),
		"POST /approvals/{item}/preview":      s.decide(s.preview),
		"POST /approvals/{item}/edit":         s.decide(s.edit),
		"GET /approvals/{item}/endorse":       s.endorseForm,
		"POST /approvals/{item}/endorse":      s.decide(s.endorse),
		"POST " + endorsedPath + "/revoke":    s.revoke,
		"GET /audit":                          s.audit,
		"GET /channels/{controller}/{reader}": s.channel,
		"GET /decisions/{seq}":                s.decision,
		"GET /ids/{id}":                       s.byID,
		"GET /proof":                          s.proof,
		"GET /sessions":                       s.sessions,
		"GET /sessions/{id}":                  s.byID,
		"GET " + storyPath:                    s.story,
		"/":                                   s.missing,
	}
}

// maxStrangers is how many requests of people who are not logged in may run at a time,
// if they read files or ask the mesh.
const maxStrangers = 8

// few refuses requests beyond maxStrangers.
func (s *Server) few(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.strangers.Add(1) > maxStrangers {
			s.strangers.Add(-1)
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many people log in or enrol at this moment: try again", http.StatusServiceUnavailable)
			return
		}
		defer s.strangers.Add(-1)
		handle(w, r)
	}
}

// within bounds how long a request may ask the mesh.
func within(limit time.Duration, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		handle(w, r.WithContext(ctx))
	}
}

// serve serves a file whose path changes with its content.
func serve(kind string, content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = w.Write(content) // ignore an error: the browser is gone
	}
}
