package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Bounds of what waits in front of the gateway for one agent. Beyond the first
// two its messages wait in the client library, beyond the others they are
// dropped and counted as refusals: what it floods is its own place.
const (
	laneMessages    = 256
	laneBytes       = 4 << 20
	pendingMessages = 4096
	pendingBytes    = 8 << 20
)

// inbox is what waits to be decided: a lane for each agent, and they take
// turns.
type inbox struct {
	arrived chan struct{} // has an element where something may wait

	mu     sync.Mutex
	turns  []*lane // those where something waits
	closed bool
}

// lane is the bounded queue of one agent, or of the server's events.
type lane struct {
	inbox   *inbox
	room    sync.Cond // on the inbox's mutex
	waiting []input
	bytes   int
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

func (b *inbox) lane() *lane {
	l := &lane{inbox: b}
	l.room.L = &b.mu
	return l
}

// put waits for room in the lane. A closed inbox takes nothing.
func (l *lane) put(in input) {
	b := l.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.closed && (len(l.waiting) >= laneMessages || l.bytes+len(in.body) > laneBytes && len(l.waiting) > 0) {
		l.room.Wait()
	}
	if b.closed {
		return
	}
	if len(l.waiting) == 0 {
		b.turns = append(b.turns, l)
	}
	l.waiting = append(l.waiting, in)
	l.bytes += len(in.body)
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// take returns what waits, one of each lane in turn, up to a batch.
func (b *inbox) take() (batch []input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for bytes := 0; len(b.turns) > 0 && len(batch) < maxBatch && bytes <= maxBatchBytes; {
		l := b.turns[0]
		b.turns = b.turns[1:]
		in := l.waiting[0]
		l.waiting[0] = input{}
		l.waiting = l.waiting[1:]
		if len(l.waiting) > 0 {
			b.turns = append(b.turns, l)
		}
		batch = append(batch, in)
		bytes += len(in.body)
		l.bytes -= len(in.body)
		l.room.Broadcast()
	}
	return batch
}

// next waits until there is something, or until the time comes.
func (b *inbox) next(ctx context.Context, due <-chan time.Time) []input {
	for {
		if batch := b.take(); len(batch) > 0 {
			return batch
		}
		select {
		case <-b.arrived:
		case <-due:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// close frees whoever waits for room.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, l := range b.turns {
		l.room.Broadcast()
	}
}

// subscribe listens to what agents and people may send, over a connection for
// each agent and role. One that sends more than the gateway reads loses that
// connection, or messages on it, and nobody else does.
func (g *Gateway) subscribe() error {
	mesh := g.config.State.Mesh
	for _, a := range mesh.Agents {
		reader, controller := agentRole{a.Name, bcp.RoleReader}, agentRole{a.Name, bcp.RoleController}
		// What an agent may not send by these definitions, but by those that
		// the server still has, is refused and recorded like the rest.
		if err := g.link(reader); err != nil {
			return err
		}
		if a.Reader && a.Controller {
			if err := g.link(controller); err != nil {
				return err
			}
			continue
		}
		if g.setLink(controller, g.linkOf(reader)) {
			if err := g.listen(controller, g.inbox.lane()); err != nil {
				return err
			}
		}
	}
	people := []agentRole{{bcp.Operator, bcp.RoleOperator}}
	for _, name := range mesh.Approvers {
		people = append(people, agentRole{name, bcp.RoleApprover})
	}
	for _, who := range people {
		if err := g.link(who); err != nil {
			return err
		}
	}
	return nil
}

// link connects for one agent or person in one role, unless it did before.
func (g *Gateway) link(who agentRole) error {
	if g.linkOf(who) != nil {
		return nil
	}
	conn, err := g.config.Connect()
	if err != nil {
		return fmt.Errorf("connecting for the %s %s: %w", who.Role, who.Agent, err)
	}
	g.setLink(who, conn)
	return g.listen(who, g.inbox.lane())
}

func (g *Gateway) linkOf(who agentRole) *nats.Conn {
	g.linked.Lock()
	defer g.linked.Unlock()
	return g.links[who]
}

// setLink reports false where there is a connection already.
func (g *Gateway) setLink(who agentRole, conn *nats.Conn) bool {
	g.linked.Lock()
	defer g.linked.Unlock()
	if g.links[who] != nil {
		return false
	}
	g.links[who] = conn
	return true
}

// connections returns every connection once.
func (g *Gateway) connections() []*nats.Conn {
	g.linked.Lock()
	defer g.linked.Unlock()
	conns := make(map[*nats.Conn]bool, len(g.links))
	for _, conn := range g.links {
		conns[conn] = true
	}
	return slices.Collect(maps.Keys(conns))
}

// publish sends a message to an agent in its encoding, or to a person in JSON.
// What is lost on the way is sent again by whoever waits for its answer. It is
// false for a message that cannot be sent, as one that is too large.
func (g *Gateway) publish(to agentRole, subject, reply string, message any) bool {
	conn, encoding := g.linkOf(to), g.state.Encoding(to.Agent)
	if conn == nil {
		return true
	}
	if encoding == 0 {
		encoding = bcp.JSON
	}
	b, err := bcp.Encode(message, encoding)
	if err == nil && reply == "" {
		err = conn.Publish(subject, b)
	} else if err == nil {
		err = conn.PublishRequest(subject, reply, b)
	}
	if err != nil {
		g.log.Warn("sending a message", "error", err)
	}
	return err == nil
}

// Flush returns when the server has everything that was sent to agents before.
func (g *Gateway) Flush(ctx context.Context) error {
	for _, conn := range g.connections() {
		if err := conn.FlushWithContext(ctx); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return fmt.Errorf("flushing to the agents: %w", err)
		}
	}
	return nil
}

// unlink closes the agents' connections.
func (g *Gateway) unlink() {
	for _, conn := range g.connections() {
		conn.Close()
	}
}

func (g *Gateway) listen(who agentRole, l *lane) error {
	conn := g.linkOf(who)
	for _, pattern := range patterns(who) {
		dropped := 0
		sub, err := conn.Subscribe(pattern, func(m *nats.Msg) {
			if n, err := m.Sub.Dropped(); err == nil && n > dropped {
				g.tell(event{kind: bcp.KindRefusals, agent: who, count: n - dropped})
				dropped = n
			}
			receive(l, m)
		})
		if err == nil {
			err = sub.SetPendingLimits(pendingMessages, pendingBytes)
		}
		if err != nil {
			return fmt.Errorf("subscribing to %s: %w", pattern, err)
		}
	}
	return conn.Flush()
}

func patterns(who agentRole) []string {
	switch who.Role {
	case bcp.RoleReader:
		return []string{subjects.PushesOf(who.Agent), subjects.RepliesOf(who.Role, who.Agent)}
	case bcp.RoleController:
		return []string{subjects.AsksOf(who.Agent), subjects.Session(who.Agent), subjects.RepliesOf(who.Role, who.Agent)}
	case bcp.RoleApprover:
		return []string{subjects.ApprovalsOf(who.Agent)}
	case bcp.RoleOperator:
		return []string{subjects.Controls()}
	}
	return nil
}

// receive drops a message whose subject is not exactly one that package
// subjects makes: no credentials of ours can publish it.
func receive(l *lane, m *nats.Msg) {
	if subject, err := subjects.Parse(m.Subject); err == nil {
		in := input{subject: subject, reply: m.Reply, body: m.Data, unheard: nobodyListens(m)}
		if subject.Kind == subjects.KindApproval {
			in.key = senderKey(m)
		}
		l.put(in)
	}
}

// nobodyListens recognises what the server itself sends to the reply subject of
// a message that no agent was subscribed to: it must not count as an answer or
// an acknowledgement. What a Reader sends bears the sender's identity, which
// the server wrote; a Controller that forges this loses its own
// acknowledgement. The server sends it to the connection that sent the message,
// if that listens to the reply subject: hence what goes to an agent and what
// comes from it share one.
func nobodyListens(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503" && len(m.Header.Values(senderHeader)) == 0
}

// senderHeader is written by the server where an export shares the identity
// of the sender.
const senderHeader = "Nats-Request-Info"

// senderKey is the public key of the creds that a message was sent with. The
// server overwrites what a client says there.
func senderKey(m *nats.Msg) string {
	var sender struct {
		User string `json:"user"`
	}
	if values := m.Header.Values(senderHeader); len(values) != 1 || json.Unmarshal([]byte(values[0]), &sender) != nil {
		return ""
	}
	return sender.User
}
