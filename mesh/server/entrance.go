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
	// maxConnections bounds the clients of a server, where it may have so many
	// files open.
	maxConnections = 8192
	// maxUnknown bounds the connections that have not shown their creds yet.
	// Beyond it the oldest of them is closed: to connect takes milliseconds,
	// and who holds connections open without a word must not lock others out.
	// It is more than maxTurns, so that those that come back together do not
	// close each other.
	maxUnknown = 1024
	// acceptBurst connections of one host are let in, and one more each acceptTime;
	// those beyond are closed at once. To refuse somebody's creds takes most of a
	// millisecond.
	acceptBurst = 1000
	acceptTime  = 4 * time.Millisecond
	// comeTime is how often a connection of each agent costs its host nothing: all
	// agents of a host come back at once, each with creds of its own.
	comeTime = 10 * time.Second
	// maxHosts bounds the hosts that are told apart.
	maxHosts = 4096
	// acceptPause is how long nobody is let in where the system has no more
	// file descriptors.
	acceptPause = 10 * time.Millisecond
	// refusalTime bounds how long a client is told that there are too many.
	refusalTime = time.Second
)

// tooMany is what a client hears beyond the most. It has to be told of a
// server before it listens to errors.
const tooMany = "INFO {\"server_id\":\"bcpmesh\",\"version\":\"" + natsserver.VERSION + "\",\"proto\":1,\"headers\":true,\"max_payload\":1024}\r\n" +
	"-ERR 'maximum connections exceeded'\r\n"

// entrance listens in place of the server, which cannot be given a listener,
// and carries each connection through to it over loopback, at a pace. TLS ends
// here: lines can be counted behind it. The server tells connections apart by the
// port of that second leg.
type entrance struct {
	tls      *tls.Config // required of clients, where it is set
	unsealed func()      // called where its handshake fails
	most     int         // clients
	running  sync.WaitGroup
	turns    turns

	// moving guards where gates lead to. It is held while the server begins again.
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

// gate is an address by which clients come in.
type gate struct {
	listener  net.Listener
	server    string // where the server takes such clients; nowhere while it is not there
	webSocket bool
}

// open lets clients in by a gate, in their turns, until its listener is closed.
func (e *entrance) open(g *gate) {
	e.running.Go(func() { e.accept(g) })
}

// close ends everything that goes through. The listener is closed already. It
// returns when all of it has ended.
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
		_ = client.SetLinger(0) // nothing of it stays
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
	p.pace.Store(&pace{paid: time.Now().Add(paceBurst)}) // nothing at once
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
	// Goroutines of their own, whose stacks are small.
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

// dialServer dials the server, tells it where the client comes from, and returns the
// port of this leg.
func (e *entrance) dialServer(p *passage, g *gate) (port int, err error) {
	// The system may give connections to two addresses one port. Those that are
	// not wanted are kept meanwhile, or it gives it again.
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

// moved returns when the server is not beginning again.
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

// forget takes a passage from those that nobody has shown creds on.
func (e *entrance) forget(p *passage) {
	if i := slices.Index(e.unknown, p); i >= 0 {
		e.unknown = slices.Delete(e.unknown, i, i+1)
	}
}

// refuse tells a client why it is not let in, where it listens, and closes it.
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
	// What it says meanwhile would have it miss the end of ours.
	_, _ = io.CopyN(io.Discard, client, maxChunk)
}

// known gives a connection the pace of an agent or a person, shared with the
// others of the same role. It is false for one that did not come through here.
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

// clientHost tells where the client comes from that the server sees at an address.
// Over WebSocket the client may say so too, before a slash: that is not looked
// at.
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

// proxyHeader is what the server hears of a client first: its host, by which it
// judges what networks creds are good from, and in place of its port that of the
// second leg, by which the entrance knows it again. Without a host it is not
// valid, and the server closes the connection.
func proxyHeader(from netip.Addr, port int) []byte {
	family, here := "TCP4", "127.0.0.1"
	if from = from.Unmap().WithZone(""); from.Is6() {
		family, here = "TCP6", "::1"
	}
	return fmt.Appendf(nil, "PROXY %s %s %s %d %d\r\n", family, from, here, port, port)
}
