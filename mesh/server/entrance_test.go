package server

import (
	"bytes"
	"crypto/tls"
	"fmt"
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

// behind is an entrance in front of a server of the test's: serve waits for the next
// connection to it.
func behind(t *testing.T) (e *entrance, address string, serve func() net.Conn) {
	t.Helper()
	return behindTLS(t, nil)
}

const hello = "INFO {}\r\n"

func behindTLS(t *testing.T, config *tls.Config) (e *entrance, address string, serve func() net.Conn) {
	t.Helper()
	outer, inner := listenHere(t), make(chan net.Conn, 8)
	e = newEntrance(config, func() (net.Conn, error) {
		server, client := net.Pipe()
		inner <- server
		return client, nil
	}, func(string) bool { return true })
	e.turns.open()
	e.open(outer)
	t.Cleanup(func() {
		outer.Close()
		e.close()
	})
	return e, outer.Addr().String(), func() net.Conn {
		t.Helper()
		conn := <-inner
		t.Cleanup(func() { conn.Close() })
		noError(t, conn.SetDeadline(time.Now().Add(patience)))
		return conn
	}
}

// greets greets as a server, and reads what it is told of a client before the client.
func greets(t *testing.T, server net.Conn, greeting string) (number uint16) {
	t.Helper()
	must(io.WriteString(server, greeting))
	var line []byte
	for b := make([]byte, 1); !bytes.HasSuffix(line, []byte("\r\n")); line = append(line, b...) {
		must(server.Read(b))
	}
	var same uint16
	_, err := fmt.Sscanf(string(line), "PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\n", &number, &same)
	stopIf(t, err != nil || number != same || number == 0, "the server hears %q", line)
	return number
}

// heard reads what a client hears.
func heard(t *testing.T, client net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	_, err := io.ReadFull(client, b)
	stopIf(t, err != nil || string(b) != want, "%q, %v, not %q", b, err, want)
}

func at(number uint16) net.Addr { return &net.TCPAddr{Port: int(number)} }

// certified is a TLS config for 127.0.0.1.
func certified(t *testing.T) *tls.Config {
	t.Helper()
	authority := must(accounts.OpenAuthority(t.TempDir(), time.Now()))
	config := must(IssuedTLS(func(now time.Time) (tls.Certificate, error) {
		return authority.Issue([]string{"127.0.0.1"}, now)
	}, hclog.NewNullLogger()))
	return config
}

func listenHere(t *testing.T) net.Listener {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	conn := must(net.Dial("tcp", address))
	t.Cleanup(func() { conn.Close() })
	noError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn.(*net.TCPConn)
}

// Everything that was sent before an end arrives before it, on both sides.
func TestPassageCarriesEverything(t *testing.T) {
	t.Parallel()
	body := append([]byte("CONNECT {}\r\n"), bytes.Repeat([]byte("SUB what.is.sent 1\r\n"), 15_000)...)
	for _, clientEnds := range []bool{true, false} {
		_, address, serve := behind(t)
		var client io.ReadWriteCloser = dial(t, address)
		server := serve()
		greets(t, server, hello)
		heard(t, client.(net.Conn), hello)
		from, to := client, io.ReadWriteCloser(server)
		if !clientEnds {
			from, to = to, from
		}
		go func() {
			_, _ = from.Write(body)
			_ = from.Close()
		}()
		got, err := io.ReadAll(to)
		failIf(t, err != nil || !bytes.Equal(got, body), "%d bytes of %d, %v", len(got), len(body), err)
	}
}

// A client that reads nothing keeps the server waiting for nothing, and is disconnected
// when too much waits for it.
//
// covers A-SLOW
func TestServerDoesNotWaitForClients(t *testing.T) {
	t.Parallel()
	e, address, serve := behind(t)
	said := make(chan string, 1)
	e.failed = func(what string) { said <- what }
	dial(t, address)
	server := serve()
	greets(t, server, hello)
	chunk, written := make([]byte, maxChunk), 0
	begun := time.Now()
	for {
		n, err := server.Write(chunk)
		if written += n; err != nil {
			break
		}
	}
	// A socket's buffers hold some megabytes too, and as much may be on its way as waits.
	failIf(t, written < maxPending || written > 2*maxPending+(16<<20) || time.Since(begun) >= writeTime,
		"%d bytes are held, for %s", written, time.Since(begun))
	expect(t, <-said, "Slow Consumer", "said")
}

// Under TLS too a line costs what it costs.
//
// covers A-FLOODRESP, A-FRAME
func TestAgentIsReadAtItsPace(t *testing.T) {
	t.Parallel()
	for name, sealed := range map[string]bool{"nats": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readAtItsPace(t, sealed)
		})
	}
}

func readAtItsPace(t *testing.T, sealed bool) {
	var config *tls.Config
	if sealed {
		config = certified(t)
	}
	e, address, serve := behindTLS(t, config)
	// connect begins as a client of the way does.
	connect := func() (client, server net.Conn, number uint16) {
		client, server = dial(t, address), serve()
		number = greets(t, server, hello)
		if sealed {
			heard(t, client, `INFO {"tls_required":true,}`+"\r\n")
			client = tls.Client(client, &tls.Config{InsecureSkipVerify: true})
		}
		if !sealed {
			heard(t, client, hello)
		}
		must(client.Write([]byte("CONNECT {}\r\n")))
		heard(t, server, "CONNECT {}\r\n")
		return client, server, number
	}
	pings, size := []byte(strings.Repeat("PING\r\n", 5000)), len("PING\r\n")
	mailer := Party{Agent: "mailer", Role: bcp.RoleReader}
	var clients, servers []net.Conn
	for range 3 {
		client, server, number := connect()
		clients, servers = append(clients, client), append(servers, server)
		e.known(at(number), mailer, "")
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
			noError(t, server.SetReadDeadline(time.Now().Add(time.Second)))
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
	failIf(t, lines == 0 || lines > most, "%d lines were read in %s, at most %d", lines, time.Since(begin), most)
	// Nobody else waits for it.
	client, server, _ := connect()
	must(client.Write([]byte("PING\r\n")))
	heard(t, server, "PING\r\n")
}

// covers A-SLOW
func TestOldestUnknownConnectionIsClosed(t *testing.T) {
	t.Parallel()
	e, address, serve := behind(t)
	connect := func() (client *net.TCPConn, number uint16) {
		client = dial(t, address)
		number = greets(t, serve(), hello)
		heard(t, client, hello)
		return client, number
	}
	first, number := connect()
	e.known(at(number), Party{Agent: "mailer", Role: bcp.RoleReader}, "")
	oldest, _ := connect()
	e.mu.Lock()
	for range maxUnknown - 2 {
		e.unknown = append(e.unknown, &passage{})
	}
	e.mu.Unlock()
	second, _ := connect()
	expect(t, e.waiting(), maxUnknown, "wait at the limit")
	last, _ := connect()
	_, err := oldest.Read(make([]byte, 1))
	failIf(t, err == nil || strings.Contains(err.Error(), "timeout"), "the oldest goes on: %v", err)
	expect(t, e.waiting(), maxUnknown, "wait past the limit")
	// The others, known or not, go on.
	for _, conn := range []*net.TCPConn{first, second, last} {
		noError(t, conn.SetReadDeadline(time.Now()))
		_, err := conn.Read(make([]byte, 1))
		failIf(t, err == nil || !strings.Contains(err.Error(), "timeout"), "it is closed: %v", err)
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
		e, address, serve := behind(t)
		e.mu.Lock()
		e.most = most
		for i := range most - 1 {
			e.passages[uint16(1000+i)] = nil
		}
		e.mu.Unlock()
		dial(t, address)
		greets(t, serve(), hello) // at the limit
		_, err := nats.Connect("nats://"+address, nats.Timeout(patience))
		failIf(t, err == nil || !strings.Contains(err.Error(), "maximum connections exceeded"),
			"past the limit of %d: %v", most, err)
		e.mu.Lock()
		maps.DeleteFunc(e.passages, func(_ uint16, p *passage) bool { return p == nil })
		e.mu.Unlock()
	}
}

// covers A-RECONN, A-SLOW
func TestHostsThatComeTooOften(t *testing.T) {
	t.Parallel()
	var d hostLimiter
	for i := range acceptBurst {
		stopIf(t, !d.admit("192.0.2.7", monday), "%d is too often", i+1)
	}
	failIf(t, d.admit("192.0.2.7", monday), "it comes in past the limit")
	failIf(t, !d.admit("192.0.2.8", monday), "another host pays for it")
	later := monday.Add(acceptTime)
	failIf(t, !d.admit("192.0.2.7", later) || d.admit("192.0.2.7", later), "it does not come in once more")
}

// Whoever has many addresses makes nobody's count be forgotten: beyond the hosts that are
// told apart all are one, until others owe nothing.
//
// covers A-RECONN, A-SLOW
func TestManyHostsForgetNobody(t *testing.T) {
	t.Parallel()
	var d hostLimiter
	for range acceptBurst {
		d.admit("192.0.2.7", monday)
	}
	for i := range maxHosts - 1 {
		stopIf(t, !d.admit(strconv.Itoa(i), monday), "host %d is too often", i)
	}
	in := 0
	for i := range 2 * maxHosts {
		if d.admit("another "+strconv.Itoa(i), monday) {
			in++
		}
	}
	failIf(t, in != acceptBurst || len(d.paid) != maxHosts+1,
		"%d of the hosts beyond the limit come in, %d are told apart", in, len(d.paid))
	failIf(t, d.admit("192.0.2.7", monday), "what a host owes is forgotten")
	if later := monday.Add(acceptTime); !d.admit("198.51.100.1", later) || d.paid["198.51.100.1"].IsZero() || d.paid["192.0.2.7"].IsZero() {
		t.Error("hosts that owe nothing are not forgotten")
	}
}

// An address of IPv4 is one host, and a /64 of IPv6.
//
// covers A-SLOW
func TestHostsOfAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8::1": "2001:db8::/64", "2001:db8::ffff:1": "2001:db8::/64",
		"2001:db8:0:1::1": "2001:db8:0:1::/64", "fe80::1%eth0": "fe80::/64", "::1": "::/64",
	} {
		expect(t, hostOf(netip.MustParseAddr(address)), want, "%s is of", address)
	}
}

// A number is of one passage at a time, and no passage has the number of connections of
// this process.
//
// covers A-SLOW
func TestNumbersOfPassages(t *testing.T) {
	t.Parallel()
	e := newEntrance(nil, nil, nil)
	e.last = 1<<16 - 2
	e.passages[1] = &passage{}
	for _, want := range []uint16{1<<16 - 1, 2, 3} {
		p := &passage{}
		err := e.register(p)
		failIf(t, err != nil || p.number != want || e.passages[want] != p, "number %d, not %d, %v", p.number, want, err)
	}
}

// What the server hears of a client has the number of its passage, and a host that a list of networks can be compared with.
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
		expect(t, string(proxyHeader(netip.MustParseAddr(from), 4222)), want, "%s", from)
	}
}

// Who begins no handshake is not kept, and nothing of it reaches the server.
//
// covers A-SLOW, A-STRIP
func TestClientWithoutTLSIsClosed(t *testing.T) {
	t.Parallel()
	e, address, serve := behindTLS(t, certified(t))
	client, server := dial(t, address), serve()
	greets(t, server, hello)
	must(client.Write([]byte("CONNECT {}\r\nPING\r\n")))
	got, _ := io.ReadAll(server)
	failIf(t, len(got) > 0, "the server hears %q", got)
	eventually(t, "nobody waits", func() bool { return e.waiting() == 0 })
}

// A client of a server that does not greet as one is closed.
//
// covers A-SLOW
func TestServerThatDoesNotGreet(t *testing.T) {
	t.Parallel()
	for name, greeting := range map[string]string{
		"no greeting":            "-ERR 'no'\r\n",
		"a greeting without end": strings.Repeat("x", maxGreeting+1),
		"more than a greeting":   "INFO {}\r\nPING\r\n",
	} {
		e, address, serve := behind(t)
		client, server := dial(t, address), serve()
		go func() { _, _ = io.WriteString(server, greeting) }()
		got, _ := io.ReadAll(client)
		failIf(t, len(got) > 0, "%s: the client hears %q", name, got)
		eventually(t, "nobody waits", func() bool { return e.waiting() == 0 })
	}
}
