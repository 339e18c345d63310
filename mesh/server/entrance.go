package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
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
	// maxHosts bounds the hosts that are distinguished; the others are one.
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

// entrance is the proxy: it listens in place of the server, which has no port, and
// forwards each connection to it inside of this process, at a limited pace. It
// terminates TLS, so that it can count lines. It tells the server where a client comes
// from, with a number in place of the port.
type entrance struct {
	tls *tls.Config // required of clients, if set
	// inside connects to the server.
	inside func() (net.Conn, error)
	// admits reports whether the users of an issuer key may come from outside.
	admits  func(issuer string) bool
	failed  func(what string) // called when a client's connection could not begin
	most    int               // clients
	running sync.WaitGroup
	turns   turns

	mu       sync.Mutex
	closed   bool
	passages map[uint16]*passage // by the number that the server sees
	last     uint16              // number
	unknown  []*passage          // the oldest first
	paces    map[Party]*pace     // as many as there were agents and roles
	came     map[Party]time.Time
}

func newEntrance(config *tls.Config, inside func() (net.Conn, error), admits func(issuer string) bool) *entrance {
	return &entrance{
		tls: config, inside: inside, admits: admits, failed: func(string) {}, most: maxConnections,
		passages: map[uint16]*passage{}, paces: map[Party]*pace{}, came: map[Party]time.Time{},
	}
}

// open lets clients in, in their turns, until the listener is closed.
func (e *entrance) open(listener net.Listener) {
	e.running.Go(func() { e.accept(listener) })
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

func (e *entrance) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		e.running.Go(func() { e.let(conn.(*net.TCPConn)) })
	}
}

// let lets a client through to the server, when it is its turn.
func (e *entrance) let(client *net.TCPConn) {
	from := client.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	host := hostOf(from)
	full := e.full()
	if full && e.turns.hostLimiter.admit(host, time.Now()) {
		e.refuse(client)
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
		socket: client, client: client, said: speech{sealed: e.tls != nil, admits: e.admits}, host: host,
		from: from, turnEnds: turnEnds, closed: make(chan struct{}),
	}
	p.outbox = &outbox{full: func() { e.failed(slowConsumer) }}
	p.outbox.changed.L = &p.outbox.mu
	if e.tls != nil {
		p.client = tls.Server(client, e.tls)
	}
	p.pace.Store(&pace{paid: time.Now().Add(paceBurst)}) // no burst
	var err error
	if p.server, err = e.inside(); err != nil {
		turnEnds()
		client.Close()
		return
	}
	if err := e.register(p); err != nil {
		if errors.Is(err, errFull) {
			e.refuse(client)
		}
		p.close()
		return
	}
	if err := p.begin(); err != nil {
		if errors.Is(err, errTLS) {
			e.failed(tlsFailed)
		}
		p.close()
		e.endPassage(p)
		return
	}
	// Separate goroutines, with small stacks.
	e.running.Go(p.copyIn)
	e.running.Go(p.copyOut)
	e.running.Go(func() {
		p.deliver()
		e.endPassage(p)
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

// register gives a passage a number.
func (e *entrance) register(p *passage) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return net.ErrClosed
	case len(e.passages) >= e.most:
		return errFull
	}
	for e.last++; e.last == 0 || e.passages[e.last] != nil; e.last++ {
	}
	p.number = e.last
	e.passages[p.number] = p
	e.unknown = append(e.unknown, p)
	if len(e.unknown) > maxUnknown {
		e.unknown[0].close()
		e.unknown = slices.Delete(e.unknown, 0, 1)
	}
	return nil
}

func (e *entrance) endPassage(p *passage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.passages, p.number)
	e.forget(p)
}

// forget removes a passage from those without creds.
func (e *entrance) forget(p *passage) {
	if i := slices.Index(e.unknown, p); i >= 0 {
		e.unknown = slices.Delete(e.unknown, i, i+1)
	}
}

// refuse tells a client why it is not accepted, if it listens, and closes it.
func (e *entrance) refuse(client *net.TCPConn) {
	defer client.Close()
	if e.tls != nil {
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
// others of the same role, or ends it if the issuer's users may not come from outside. It
// does nothing for one that has ended, or is of this process.
func (e *entrance) known(address net.Addr, who Party, issuer string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, number, _ := splitAddress(address.String())
	p := e.passages[uint16(number)]
	if p == nil {
		return
	}
	if !e.admits(issuer) {
		p.close()
		return
	}
	e.forget(p)
	p.pace.Store(e.partyPace(who))
	p.turnEnds()
	if now := time.Now(); who != (Party{}) && now.Sub(e.came[who]) >= comeTime {
		e.came[who] = now
		e.turns.hostLimiter.repay(p.host)
	}
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

// proxyHeader is the first thing that the server gets from a client: the PROXY
// protocol, with the client's host, for the networks from which creds are valid, and in
// place of its port the number by which the entrance recognises it.
func proxyHeader(from netip.Addr, number uint16) []byte {
	family, here := "TCP4", "127.0.0.1"
	if from = from.Unmap().WithZone(""); from.Is6() {
		family, here = "TCP6", "::1"
	}
	return fmt.Appendf(nil, "PROXY %s %s %s %d %d\r\n", family, from, here, number, number)
}
