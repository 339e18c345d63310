package fetch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// lyingResolver gives successive answers.
type lyingResolver struct{ answers [][]netip.Addr }

func (l *lyingResolver) Lookup(context.Context, string) ([]netip.Addr, error) {
	answer := l.answers[0]
	if len(l.answers) > 1 {
		l.answers = l.answers[1:]
	}
	return answer, nil
}

// fetchFrom fetches a path of a real server, which the name example.com leads to.
func fetchFrom(t *testing.T, server *httptest.Server, path string, roots *x509.CertPool) (Body, error) {
	t.Helper()
	f, target := clientOf(t, server, "example.com", path, roots)
	return f.Fetch(t.Context(), target)
}

// clientOf is who may fetch from a real server, which a name leads to, and the address of a path there.
func clientOf(t *testing.T, server *httptest.Server, name, path string, roots *x509.CertPool) (Client, guard.Target) {
	t.Helper()
	address := netip.MustParseAddrPort(server.Listener.Addr().String())
	authority, scheme := fmt.Sprintf("%s:%d", name, address.Port()), "http"
	if server.TLS != nil {
		scheme = "https"
	}
	return Client{
		Policy: policyOf(authority), Addresses: loopback, Resolver: &lyingResolver{[][]netip.Addr{{address.Addr()}}}, Transport: NewTransport(loopback, roots),
	}, targetOf(t, scheme+"://"+authority+path)
}

// tlsServer is a server for example.com, and the authority to believe.
func tlsServer(t *testing.T, h http.Handler, change func(*tls.Config)) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{}
	if change != nil {
		change(server.TLS)
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server, roots
}

// covers ALF-86, ALF-91, ALF-94
func TestRealServer(t *testing.T) {
	t.Parallel()
	var seen []*http.Request // by one handler after the other
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r)
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "a page")
	})
	mux.HandleFunc("/chunks", func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			fmt.Fprint(w, "chunk ")
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, "packed")
		z.Close()
	})
	mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Location", "/page?x=1")
		w.WriteHeader(301)
	})
	mux.HandleFunc("/evil", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</x>")
		w.WriteHeader(103)
		fmt.Fprint(w, "late")
	})
	server, roots := tlsServer(t, mux, nil)
	for path, want := range map[string]string{"/page": "a page", "/chunks": "chunk chunk chunk ", "/gzip": "packed", "/empty": "", "/moved": "a page", "/early": "late"} {
		body, err := fetchFrom(t, server, path, roots)
		failIf(t, err != nil || string(body.Bytes) != want, "%s: %q, %v", path, body.Bytes, err)
	}
	for path, want := range map[string]guard.Code{"/none": guard.BadStatus, "/evil": guard.HostDenied} {
		body, err := fetchFrom(t, server, path, roots)
		failIf(t, CodeOf(err) != want || body.Bytes != nil, "%s: %v", path, err)
	}
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for _, r := range seen {
		h := r.Header
		failIf(t, r.Host != "example.com:"+port || r.Method != "GET" || h.Get("Cookie") != "" || h.Get("Referer") != "" || h.Get("User-Agent") != "bcpmesh" || h.Get("Accept-Encoding") != "gzip" || len(h) > 4,
			"the request has %v for %s", h, r.Host)
	}
}

// covers ALF-92
func TestTLSIsProven(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") })
	server, roots := tlsServer(t, page, nil)
	_, err := fetchFrom(t, server, "/", roots)
	failIf(t, err != nil, "the right certificate: %v", err)
	_, err = fetchFrom(t, server, "/", x509.NewCertPool())
	failIf(t, CodeOf(err) != guard.TLSFailed, "an unknown authority: %v", err)
	old, roots := tlsServer(t, page, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11; c.MinVersion = tls.VersionTLS10 })
	_, err = fetchFrom(t, old, "/", roots)
	failIf(t, CodeOf(err) != guard.TLSFailed, "TLS 1.1: %v", err)
	f, target := clientOf(t, server, "other.test", "/", roots)
	_, err = f.Fetch(t.Context(), target)
	failIf(t, CodeOf(err) != guard.TLSFailed, "a certificate for another name: %v", err)
}

// rawServer answers each connection with bytes.
func rawServer(t *testing.T, answer func(net.Conn)) *httptest.Server {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(conn).ReadString('\n')
			answer(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return &httptest.Server{Listener: listener}
}

func bomb(t *testing.T, n int) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	must(z.Write(make([]byte, n)))
	z.Close()
	return b.String()
}

// What a hostile server sends ends in a code, and in little memory.
//
// covers ALF-92, ALF-93
func TestHostileServers(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	packed := bomb(t, 60_000)
	for name, c := range map[string]struct {
		answer string
		want   guard.Code
	}{
		"nothing":                            {"", guard.ConnectFailed},
		"no HTTP":                            {"SSH-2.0-x\r\n\r\n", guard.ConnectFailed},
		"a header that does not end":         {"HTTP/1.1 200 OK\r\nX: ", guard.ConnectFailed},
		"a header at the limit":              {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeader-len("HTTP/1.1 200 OK\r\nX: \r\n\r\n")) + "\r\n\r\nok", ""},
		"a header past the limit":            {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeader-len("HTTP/1.1 200 OK\r\nX: \r\n\r\n")+1) + "\r\n\r\nok", guard.TooLarge},
		"many headers":                       {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 10_000) + "\r\n", guard.TooLarge},
		"interim answers without end":        {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10), guard.ConnectFailed},
		"a body at the limit":                {ok + "\r\n" + strings.Repeat("x", maxWire), ""},
		"a body past the limit":              {ok + "\r\n" + strings.Repeat("x", maxWire+1), guard.TooLarge},
		"a body that is cut off":             {ok + "Content-Length: 10\r\n\r\nx", guard.ConnectFailed},
		"chunks that are none":               {ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", guard.ConnectFailed},
		"two lengths":                        {ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", guard.ConnectFailed},
		"gzip that is none":                  {ok + "Content-Encoding: gzip\r\n\r\nplain", guard.ConnectFailed},
		"gzip that is cut off":               {ok + "Content-Encoding: gzip\r\n\r\n" + packed[:len(packed)-4], guard.ConnectFailed},
		"gzip that unpacks to little":        {ok + "Content-Encoding: gzip\r\n\r\n" + packed, ""},
		"gzip that unpacks to too much":      {ok + "Content-Encoding: gzip\r\n\r\n" + bomb(t, 200_000), guard.TooLarge},
		"a bomb":                             {ok + "Content-Encoding: gzip\r\n\r\n" + bomb(t, 20<<20), guard.TooLarge},
		"an encoding that was not asked for": {ok + "Content-Encoding: br\r\n\r\nx", guard.BadContentType},
		"a picture":                          {"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\nx", guard.BadContentType},
		"a status of one digit":              {"HTTP/1.1 9 x\r\n\r\n", guard.ConnectFailed},
		"bytes without a type":               {"HTTP/1.1 200 OK\r\n\r\n\x00\x01", guard.BadContentType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := rawServer(t, func(conn net.Conn) { fmt.Fprint(conn, c.answer) })
			_, err := fetchFrom(t, server, "/", nil)
			failIf(t, CodeOf(err) != c.want, "%q: %v", CodeOf(err), err)
		})
	}
	closed := rawServer(t, func(net.Conn) {})
	closed.Listener.Close()
	_, err := fetchFrom(t, closed, "/", nil)
	failIf(t, CodeOf(err) != guard.ConnectFailed, "a closed port: %v", err)
}

// A server that drips does not hold a fetch for longer than its context.
func TestSlowServers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"header": "HTTP/1.1 200 OK\r\n", "body": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stuck := make(chan struct{})
			server := rawServer(t, func(conn net.Conn) {
				fmt.Fprint(conn, answer)
				<-stuck
			})
			defer close(stuck)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			f, target := clientOf(t, server, "example.com", "/", nil)
			_, err := f.Fetch(ctx, target)
			failIf(t, CodeOf(err) != guard.TimedOut, "%v", err)
		})
	}
}

// The transport itself refuses an address that the fetcher did not look up, and one that is not public: a resolver that lies
// between the check and the dial gains nothing.
//
// covers ALF-30, ALF-85
func TestDialIsCheckedOnceMore(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 8)
	server := rawServer(t, func(net.Conn) { reached <- struct{}{} })
	address := netip.MustParseAddrPort(server.Listener.Addr().String())
	target := targetOf(t, fmt.Sprintf("http://example.com:%d/", address.Port()))
	strict := NewTransport(nil, nil)
	_, err := strict.Get(t.Context(), target, []netip.Addr{address.Addr()})
	failIf(t, CodeOf(err) != guard.PrivateAddress, "a private address: %v", err)
	_, err = strict.Get(t.Context(), target, nil)
	failIf(t, CodeOf(err) != guard.DNSFailed, "no address: %v", err)
	control := NewTransport(loopback, nil).control(target, addressesOf("127.0.0.1"))
	for text, want := range map[string]bool{"127.0.0.1:80": false, "127.0.0.2:" + fmt.Sprint(address.Port()): false, "x": false, address.String(): true} {
		err := control("tcp4", text, nil)
		failIf(t, (err == nil) != want, "%s: %v", text, err)
	}
	// A mixed answer dials nothing at all.
	f := Client{Policy: policyOf(fmt.Sprintf("example.com:%d", address.Port())), Resolver: &lyingResolver{[][]netip.Addr{addressesOf("93.184.216.34", "127.0.0.1")}}, Transport: strict}
	_, err = f.Fetch(t.Context(), target)
	failIf(t, CodeOf(err) != guard.PrivateAddress, "a mixed answer: %v", err)
	select {
	case <-reached:
		t.Error("a connection was made")
	default:
	}
	literal := targetOf(t, fmt.Sprintf("http://127.0.0.1:%d/", address.Port()))
	if _, err := strict.Get(t.Context(), literal, []netip.Addr{address.Addr()}); CodeOf(err) != guard.ConnectFailed {
		t.Errorf("a literal that the list has: %v", err) // it is reached, and answers nothing
	}
	<-reached
}

// Bytes are counted on the wire, also of a connection that failed.
func TestBytesAreCounted(t *testing.T) {
	t.Parallel()
	server, roots := tlsServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 1000)) }), nil)
	address := netip.MustParseAddrPort(server.Listener.Addr().String())
	target := targetOf(t, fmt.Sprintf("https://example.com:%d/", address.Port()))
	response, err := NewTransport(loopback, roots).Get(t.Context(), target, []netip.Addr{address.Addr()})
	failIf(t, err != nil || response.Sent < 300 || response.Received < 1500 || response.Received > 10_000,
		"%+v, %v", response, err)
	response, err = NewTransport(loopback, x509.NewCertPool()).Get(t.Context(), target, []netip.Addr{address.Addr()})
	failIf(t, CodeOf(err) != guard.TLSFailed || response.Sent == 0 || response.Received == 0, "%+v, %v", response, err)
}

// A name of one label is looked up in the hosts file, which every system has with localhost. A name that is in no file is
// asked for as it is: the search list is not added (.invalid is nowhere, RFC 6761).
// covers ALF-85
func TestNamesOfTheHostsFile(t *testing.T) {
	t.Parallel()
	found, err := NewResolver().Lookup(t.Context(), "localhost")
	stopIf(t, err != nil || len(found) == 0, "localhost: %v, %v", found, err)
	for _, a := range found {
		failIf(t, !a.IsLoopback(), "localhost: %v", a)
	}
	found, err = hostsFile.LookupNetIP(t.Context(), "ip", "bcpmesh-nowhere.invalid")
	failIf(t, err == nil, "a name that is in no file: %v", found)
}
