package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

const (
	// maxConnections bounds the clients of a server, if it may have that many
	// files open.
	maxConnections = 8192
	// maxUnknown bounds the connections that have not shown their creds yet.
	// Beyond it the oldest of them is closed: connecting takes milliseconds,
	// and silent connections must not lock others out. It is more than
	// maxTurns, so that clients that reconnect together do not close each
	// other.
	maxUnknown = 1024
	// acceptBurst connections of one host are accepted, and one more each
	// acceptTime; more are closed at once. Refusing somebody's creds takes most of
	// a millisecond.
	acceptBurst = 1000
	acceptTime  = 4 * time.Millisecond
	// comeTime is how often one connection of each agent is free for its host: all
	// agents of a host reconnect at once, each with its own creds.
	comeTime = 10 * time.Second
	// maxHosts bounds the hosts that are distinguished.
	maxHosts = 4096
	// acceptPause is how long no connection is accepted after the system ran
	// out of file descriptors.
	acceptPause = 10 * time.Millisecond
	// refusalTime is the timeout for telling a client that there are too many.
	refusalTime = time.Second
)

// tooMany is the reply to clients beyond the limit. A client must get a
// server's INFO before it reads errors.
const tooMany = "INFO {\"server_id\":\"bcpmesh\",\"version\":\"" + natsserver.VERSION + "\",\"proto\":1,\"headers\":true,\"max_payload\":1024}\r\n" +
	"-ERR 'maximum connections exceeded'\r\n"

// entrance is the proxy: it listens in place of the server, which cannot be given
// a listener, and forwards each connection to it over loopback, at a limited
// pace. It terminates TLS, so that it can count lines. The server distinguishes
// connections by the port of that second leg.
type entrance struct {
	tls      *tls.Config // required of clients, if set
	unsealed func()      // called after a failed handshake
	most     int         // clients
	running  sync.WaitGroup
	turns    turns

	// moving guards the gates' server addresses. It is held while the server restarts.
	moving sync.RWMutex

	mu       sync.Mutex
	closed   bool
	passages map[int]*passage // by the port that the server sees
	unknown  []*passage       // the oldest first
	paces    map[Party]*pace  // as many as there were agents and roles
	came     map[Party]time.Time
}

func newEntrance(config *tls.Config) *entrance {
	return &entrance{tls: config, unsealed: func() {}, most: maxConnections, passages: map[int]*passage{}, paces: map[Party]*pace{}, came: map[Party]time.Time{}}
}

// gate is a listen address for clients.
type gate struct {
	listener  net.Listener
	server    string // the server's address for such clients; empty while it is down
	webSocket bool
}

// open lets clients in by a gate, in their turns, until its listener is closed.
func (e *entrance) open(g *gate) {
	e.running.Go(func() { e.accept(g) })
}

// close ends all connections. The listener is already closed. It returns when
// all of them have ended.
func (e *entrance) close() {
	e.mu.Lock()
	e.closed = true
	for _, p := range e.passages {
		p.close()
	}
	e.mu.Unlock()
	e.turns.close()
	e.running.Wait()
}

func (e *entrance) accept(g *gate) {
	for {
		conn, err := g.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		e.running.Go(func() { e.let(conn.(*net.TCPConn), g) })
	}
}

// let lets a client through to the server, when it is its turn.
func (e *entrance) let(client *net.TCPConn, g *gate) {
	host := cutPort(client.RemoteAddr().String())
	full := e.full()
	if full && e.turns.admit(host) {
		e.refuse(client, g)
		return
	}
	var turnEnds func()
	ok := false
	if !full {
		turnEnds, ok = e.turns.takeTurn(host)
	}
	if !ok {
		_ = client.SetLinger(0) // discard unsent data
		client.Close()
		return
	}
	_ = client.SetReadBuffer(socketBuffer)
	_ = client.SetWriteBuffer(socketBuffer)
	p := &passage{
		socket: client, client: client, meter: meter{sealed: e.tls != nil},
		host: host, from: client.RemoteAddr().(*net.TCPAddr).AddrPort().Addr(), turnEnds: turnEnds, closed: make(chan struct{}),
	}
	if e.tls != nil {
		p.client = tls.Server(client, e.tls)
	}
	if g.webSocket {
		p.meter.frames = &frames{}
	}
	p.pace.Store(&pace{paid: time.Now().Add(paceBurst)}) // no burst
	port, err := e.dialServer(p, g)
	if err != nil {
		if errors.Is(err, errFull) {
			e.refuse(client, g)
		}
		p.close()
		return
	}
	if e.tls != nil && !p.seal(!g.webSocket) {
		e.unsealed()
		p.close()
		e.endPassage(p, port)
		return
	}
	// Separate goroutines, with small stacks.
	e.running.Go(p.copyIn)
	e.running.Go(func() {
		p.out()
		e.endPassage(p, port)
	})
}

var errFull = errors.New("too many connections")

// full reports whether there are as many clients as may be, with those who wait.
func (e *entrance) full() bool {
	waiting := e.turns.waiting()
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.passages)+waiting >= e.most
}

// dialServer dials the server, sends it the client's address, and returns the port
// of this leg.
func (e *entrance) dialServer(p *passage, g *gate) (port int, err error) {
	// The system may give connections to two addresses the same port. Unwanted
	// ones stay open meanwhile, so that it does not give it again.
	for {
		e.moving.RLock()
		conn, err := net.Dial("tcp", g.server)
		e.moving.RUnlock()
		if err != nil {
			return 0, err
		}
		p.server, port = conn.(*net.TCPConn), portNumber(conn.LocalAddr())
		if err := e.register(p, port); !errors.Is(err, errTaken) {
			if err == nil && !g.webSocket {
				if _, err = conn.Write(proxyHeader(p.from, port)); err != nil {
					e.endPassage(p, port)
				}
			}
			return port, err
		}
		defer conn.Close()
	}
}

// moved returns when the server is not restarting.
func (e *entrance) moved() {
	e.moving.RLock()
	defer e.moving.RUnlock()
}

var errTaken = errors.New("the port has a passage")

func (e *entrance) register(p *passage, port int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch _, taken := e.passages[port]; {
	case e.closed:
		return net.ErrClosed
	case len(e.passages) >= e.most:
		return errFull
	case taken:
		return errTaken
	}
	e.passages[port] = p
	e.unknown = append(e.unknown, p)
	if len(e.unknown) > maxUnknown {
		e.unknown[0].close()
		e.unknown = slices.Delete(e.unknown, 0, 1)
	}
	return nil
}

func (e *entrance) endPassage(p *passage, port int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.passages, port)
	e.forget(p)
}

// forget removes a passage from those without creds.
func (e *entrance) forget(p *passage) {
	if i := slices.Index(e.unknown, p); i >= 0 {
		e.unknown = slices.Delete(e.unknown, i, i+1)
	}
}

// refuse tells a client why it is not accepted, if it listens, and closes it.
func (e *entrance) refuse(client *net.TCPConn, g *gate) {
	defer client.Close()
	if e.tls != nil || g.webSocket {
		return
	}
	_ = client.SetDeadline(time.Now().Add(refusalTime))
	if _, err := client.Write([]byte(tooMany)); err != nil {
		return
	}
	_ = client.CloseWrite()
	// If it sends meanwhile, it could miss the end of our message.
	_, _ = io.CopyN(io.Discard, client, maxChunk)
}

// known gives a connection the pace of an agent or a person, shared with the
// others of the same role. It returns false for one that did not come through
// here.
func (e *entrance) known(address net.Addr, who Party) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.passages[portNumber(address)]
	if p == nil {
		return false
	}
	e.forget(p)
	p.pace.Store(e.partyPace(who))
	p.turnEnds()
	if now := time.Now(); who != (Party{}) && now.Sub(e.came[who]) >= comeTime {
		e.came[who] = now
		e.turns.repay(p.host)
	}
	return true
}

// slowDown has the server read an agent slowly for a while.
func (e *entrance) slowDown(who Party) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.partyPace(who).slowUntil(time.Now().Add(slowTime))
}

func (e *entrance) partyPace(who Party) *pace {
	if e.paces[who] == nil {
		e.paces[who] = &pace{}
	}
	return e.paces[who]
}

// clientHost returns the host of the client that the server sees at an address.
// Over WebSocket the client may also give one, before a slash: that is ignored.
func (e *entrance) clientHost(address string) string {
	address = address[strings.LastIndexByte(address, '/')+1:]
	if _, port, err := splitAddress(address); err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if p := e.passages[port]; p != nil {
			return p.host
		}
	}
	return cutPort(address)
}

func portNumber(address net.Addr) int {
	_, port, _ := splitAddress(address.String())
	return port
}

// proxyHeader is the first thing that the server gets about a client: its host,
// for the networks from which creds are valid, and in place of its port that of
// the second leg, by which the proxy recognises it. Without a host it is
// invalid, and the server closes the connection.
func proxyHeader(from netip.Addr, port int) []byte {
	family, here := "TCP4", "127.0.0.1"
	if from = from.Unmap().WithZone(""); from.Is6() {
		family, here = "TCP6", "::1"
	}
	return fmt.Appendf(nil, "PROXY %s %s %s %d %d\r\n", family, from, here, port, port)
}
