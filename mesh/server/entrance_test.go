package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const patience = 45 * time.Second

// behind is an entrance in front of a listener of the test's.
func behind(t *testing.T) (e *entrance, address string, inner net.Listener) {
	t.Helper()
	return behindGate(t, false, nil)
}

func behindGate(t *testing.T, webSocket bool, config *tls.Config) (e *entrance, address string, inner net.Listener) {
	t.Helper()
	outer, inner := listenHere(t), listenHere(t)
	e = newEntrance(config)
	e.turns.open()
	e.open(&gate{listener: outer, server: inner.Addr().String(), webSocket: webSocket})
	t.Cleanup(func() {
		outer.Close()
		e.close()
	})
	return e, outer.Addr().String(), inner
}

// certified is a TLS config for 127.0.0.1.
func certified(t *testing.T) *tls.Config {
	t.Helper()
	authority, err := accounts.OpenAuthority(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	config, err := IssuedTLS(func(now time.Time) (tls.Certificate, error) {
		return authority.Issue([]string{"127.0.0.1"}, now)
	}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func listenHere(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

func accept(t *testing.T, l net.Listener) *net.TCPConn {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// introduced reads what the server hears of a client before the client.
func introduced(t *testing.T, server *net.TCPConn) *net.TCPConn {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); !bytes.HasSuffix(line, []byte("\r\n")); line = append(line, b...) {
		if _, err := server.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.HasPrefix(line, []byte("PROXY TCP4 127.0.0.1 ")) {
		t.Fatalf("the server hears %q", line)
	}
	return server
}

// wait waits until something holds.
func wait(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come to hold")
		}
	}
}

// Everything that was sent before an end arrives before it, on both sides.
func TestPassageCarriesEverything(t *testing.T) {
	t.Parallel()
	_, address, inner := behind(t)
	client := dial(t, address)
	server := introduced(t, accept(t, inner))
	body := bytes.Repeat([]byte("SUB what.is.sent 1\r\n"), 15_000)
	for _, way := range []struct{ from, to *net.TCPConn }{{client, server}, {server, client}} {
		go func() {
			_, _ = way.from.Write(body)
			_ = way.from.CloseWrite()
		}()
		if got, err := io.ReadAll(way.to); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%d bytes of %d, %v", len(got), len(body), err)
		}
	}
}

// Over WebSocket and TLS too a line costs what it costs.
//
// covers A-FLOODRESP, A-FRAME
func TestAgentIsReadAtItsPace(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct{ sealed, webSocket bool }{"nats": {}, "tls": {sealed: true}, "ws": {webSocket: true}, "wss": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readAtItsPace(t, way.sealed, way.webSocket)
		})
	}
}

func readAtItsPace(t *testing.T, sealed, webSocket bool) {
	var config *tls.Config
	if sealed {
		config = certified(t)
	}
	e, address, inner := behindGate(t, webSocket, config)
	// connect begins as a client of the way does.
	connect := func() (client net.Conn, server *net.TCPConn) {
		client, server = dial(t, address), accept(t, inner)
		if sealed && !webSocket {
			if _, err := server.Write([]byte("INFO {}\r\n")); err != nil {
				t.Fatal(err)
			}
			greeting := make([]byte, len(`INFO {"tls_required":true,}`)+2)
			if _, err := io.ReadFull(client, greeting); err != nil || !bytes.Contains(greeting, tlsRequired) {
				t.Fatalf("%q, %v", greeting, err)
			}
		}
		if sealed {
			client = tls.Client(client, &tls.Config{InsecureSkipVerify: true})
		}
		if webSocket {
			if _, err := client.Write([]byte(upgrade)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(server, make([]byte, len(upgrade))); err != nil {
				t.Fatal(err)
			}
		}
		return client, server
	}
	pings, size := bytes.Repeat([]byte("PING\r\n"), 5000), len("PING\r\n")
	if webSocket {
		pings = frame(pings, 0x82, [4]byte{1, 2, 3, 4})
	}
	mailer := Party{Agent: "mailer", Role: bcp.RoleReader}
	var clients []net.Conn
	var servers []*net.TCPConn
	for range 3 {
		client, server := connect()
		clients, servers = append(clients, client), append(servers, server)
		wait(t, func() bool { return e.known(server.RemoteAddr(), mailer) })
	}
	e.slowDown(mailer)
	begin := time.Now()
	for _, client := range clients {
		go func() { // ends with the connection
			for {
				if _, err := client.Write(pings); err != nil {
					return
				}
			}
		}()
	}
	read := make(chan int, len(servers))
	lines := 0
	for lines == 0 && time.Since(begin) < patience {
		for _, server := range servers {
			if err := server.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			go func() {
				n, _ := io.Copy(io.Discard, server)
				read <- int(n)
			}()
		}
		for range servers {
			lines += <-read / size
		}
	}
	// Each may have read one chunk before it was slow, and one more.
	most := int(time.Since(begin).Seconds()*slowRate)/lineBytes + len(servers)*2*maxChunk/size
	if lines == 0 || lines > most {
		t.Errorf("%d lines were read in %s, at most %d", lines, time.Since(begin), most)
	}
	// Nobody else waits for it.
	client, server := connect()
	here := frame([]byte("here"), 0x82, [4]byte{})
	if _, err := client.Write(here); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(server, make([]byte, len(here))); err != nil {
		t.Error(err)
	}
}

// covers A-SLOW
func TestOldestUnknownConnectionIsClosed(t *testing.T) {
	t.Parallel()
	e, address, inner := behind(t)
	first, server := dial(t, address), accept(t, inner)
	wait(t, func() bool { return e.known(server.RemoteAddr(), Party{Agent: "mailer", Role: bcp.RoleReader}) })
	oldest := dial(t, address)
	accept(t, inner)
	wait(t, func() bool { return e.waiting() == 1 })
	e.mu.Lock()
	for range maxUnknown - 2 {
		e.unknown = append(e.unknown, &passage{})
	}
	e.mu.Unlock()
	second := dial(t, address)
	accept(t, inner)
	wait(t, func() bool { return e.waiting() == maxUnknown })
	last := dial(t, address)
	accept(t, inner)
	if _, err := oldest.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the oldest goes on: %v", err)
	}
	if n := e.waiting(); n != maxUnknown {
		t.Errorf("%d wait past the limit", n)
	}
	// The others, known or not, go on.
	for _, conn := range []*net.TCPConn{first, second, last} {
		if err := conn.SetReadDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "timeout") {
			t.Errorf("it is closed: %v", err)
		}
	}
}

func (e *entrance) waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.unknown)
}

// covers A-SLOW
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	for _, most := range []int{maxConnections, leastConnections} { // as the files allow
		e, address, inner := behind(t)
		e.mu.Lock()
		e.most = most
		for i := range most - 1 {
			e.passages[-1-i] = nil
		}
		e.mu.Unlock()
		dial(t, address)
		accept(t, inner) // at the limit
		wait(t, func() bool { return e.waiting() == 1 })
		_, err := nats.Connect("nats://"+address, nats.Timeout(patience))
		if err == nil || !strings.Contains(err.Error(), "maximum connections exceeded") {
			t.Errorf("past the limit of %d: %v", most, err)
		}
		e.mu.Lock()
		maps.DeleteFunc(e.passages, func(_ int, p *passage) bool { return p == nil })
		e.mu.Unlock()
	}
}

// covers A-RECONN, A-SLOW
func TestHostsThatComeTooOften(t *testing.T) {
	t.Parallel()
	var d hostLimiter
	for i := range acceptBurst {
		if !d.admit("192.0.2.7", monday) {
			t.Fatalf("%d is too often", i+1)
		}
	}
	if d.admit("192.0.2.7", monday) {
		t.Error("it comes in past the limit")
	}
	if !d.admit("192.0.2.8", monday) {
		t.Error("another host pays for it")
	}
	if later := monday.Add(acceptTime); !d.admit("192.0.2.7", later) || d.admit("192.0.2.7", later) {
		t.Error("it does not come in once more")
	}
	for i := range 2 * maxHosts {
		d.admit(strconv.Itoa(i), monday)
	}
	if len(d) > maxHosts {
		t.Errorf("%d hosts are told apart", len(d))
	}
}

// covers A-SLOW, A-FWD
func TestWhereAClientComesFrom(t *testing.T) {
	t.Parallel()
	e := newEntrance(nil)
	e.passages[4222] = &passage{host: "192.0.2.7"}
	for address, want := range map[string]string{
		"127.0.0.1:4222": "192.0.2.7", "127.0.0.1:4223": "127.0.0.1", "pipe": "pipe",
		"198.51.100.9/127.0.0.1:4222": "192.0.2.7", "198.51.100.9/127.0.0.1:4223": "127.0.0.1",
	} {
		if got := e.clientHost(address); got != want {
			t.Errorf("%s is %s, not %s", address, got, want)
		}
	}
}

// Two connections that the system gives one port, to two addresses, are told
// apart.
//
// covers A-SLOW
func TestPortOfAnotherPassageIsNotTaken(t *testing.T) {
	t.Parallel()
	e := newEntrance(nil)
	inner := listenHere(t)
	first := &passage{socket: dial(t, inner.Addr().String()), turnEnds: func() {}, closed: make(chan struct{})}
	port, err := e.dialServer(first, &gate{server: inner.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.register(&passage{}, port); !errors.Is(err, errTaken) {
		t.Errorf("the port is taken: %v", err)
	}
	second := &passage{socket: dial(t, inner.Addr().String()), turnEnds: func() {}, closed: make(chan struct{})}
	if other, err := e.dialServer(second, &gate{server: inner.Addr().String()}); err != nil || other == port || e.passages[port] != first {
		t.Errorf("it has port %d, %v", other, err)
	}
	first.close()
	second.close()
}

// What the server hears of a client has the port of the second leg, and a host
// that a list of networks can be compared with.
//
// covers BCP-19
func TestHeaderSaysWhereAClientComesFrom(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"192.0.2.7":        "PROXY TCP4 192.0.2.7 127.0.0.1 4222 4222\r\n",
		"::ffff:192.0.2.7": "PROXY TCP4 192.0.2.7 127.0.0.1 4222 4222\r\n",
		"2001:db8::7":      "PROXY TCP6 2001:db8::7 ::1 4222 4222\r\n",
		"fe80::1%eth0":     "PROXY TCP6 fe80::1 ::1 4222 4222\r\n",
	} {
		if got := string(proxyHeader(netip.MustParseAddr(from), 4222)); got != want {
			t.Errorf("%s: %q", from, got)
		}
	}
}

// Who begins no handshake is not kept, and nothing of it reaches the server.
//
// covers A-SLOW, A-STRIP
func TestClientWithoutTLSIsClosed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ greeting, says string }{
		"it speaks in the clear":      {"INFO {}\r\n", "CONNECT {}\r\nPING\r\n"},
		"the server says no greeting": {"-ERR 'no'\r\n", ""},
		"a greeting without end":      {strings.Repeat("x", maxGreeting+1), ""},
		"more than a greeting":        {"INFO {}\r\nPING\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, address, inner := behindGate(t, false, certified(t))
			client, server := dial(t, address), introduced(t, accept(t, inner))
			if _, err := server.Write([]byte(tt.greeting)); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Write([]byte(tt.says)); err != nil {
				t.Fatal(err)
			}
			if got, _ := io.ReadAll(server); len(got) > 0 {
				t.Errorf("the server hears %q", got)
			}
			wait(t, func() bool { return e.waiting() == 0 })
		})
	}
}
