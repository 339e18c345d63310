package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Limits of an agent's queue at the gateway. Beyond the first two its messages
// wait in the client library, beyond the others they are dropped and counted as
// refusals: a flood affects only its sender.
const (
	laneMessages    = 256
	laneBytes       = 4 << 20
	pendingMessages = 4096
	pendingBytes    = 8 << 20
)

// inbox has the waiting messages: a lane for each agent, served in turn.
type inbox struct {
	arrived chan struct{} // has an element if something may wait

	mu     sync.Mutex
	lanes  []*lane
	turns  []*lane // lanes with waiting messages
	closed bool
}

// input waits to be decided about: a message or an event.
type input struct {
	message *message
	event   event
	lane    *lane // where it waits; nil for an event of the gateway's own
	dropped bool  // it found a mistake
}

func (in *input) size() int {
	if in.message == nil {
		return 0
	}
	return len(in.message.body)
}

// message is what an agent or a person sent.
type message struct {
	subject subjects.Subject
	kind    *received // what is done with it
	reply   string
	body    []byte
	from    bcp.Sender // of an approval, and of messages about roles

	shows bool // it has a mark, or says that its sender has none
	mark  string

	prepared *state.Prepared  // an ask's spec, compiled
	rules    *kernel.OwnRules // those of a run, compiled
}

// lane is the bounded queue of one agent, or of the server's events.
type lane struct {
	inbox   *inbox
	room    sync.Cond // on the inbox's mutex
	waiting []*input
	bytes   int
	held    bool  // it has no turn
	hurried bool  // nobody waits for room
	aside   aside // owned by the gateway's goroutine: why an agent's lane is held
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

func (b *inbox) lane() *lane {
	l := &lane{inbox: b}
	l.room.L = &b.mu
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lanes = append(b.lanes, l)
	return l
}

// put waits for room in the lane, unless waiting has ended. A closed inbox accepts
// nothing.
func (l *lane) put(in *input) { l.putUntil(context.Background(), in) }

// putUntil is put, but gives up if ctx ends before there is room.
func (l *lane) putUntil(ctx context.Context, in *input) {
	b := l.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	full := func() bool {
		return len(l.waiting) >= laneMessages || l.bytes+in.size() > laneBytes && len(l.waiting) > 0
	}
	for !b.closed && ctx.Err() == nil && !l.hurried && full() {
		stop := context.AfterFunc(ctx, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			l.room.Broadcast()
		})
		l.room.Wait()
		stop()
	}
	if b.closed || ctx.Err() != nil || full() {
		return
	}
	in.lane = l
	l.waiting = append(l.waiting, in)
	l.bytes += in.size()
	if len(l.waiting) == 1 && !l.held {
		b.turns = append(b.turns, l)
	}
	b.wake()
}

// hold keeps the lane's messages, and senders that wait for room, waiting until it is
// released.
func (l *lane) hold(held bool) {
	b := l.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.held == held {
		return
	}
	if l.held = held; held {
		b.turns = slices.DeleteFunc(b.turns, func(other *lane) bool { return other == l })
	} else if len(l.waiting) > 0 {
		b.turns = append(b.turns, l)
		b.wake()
	}
}

// endWaiting releases senders that wait for room, and makes none wait any more.
func (l *lane) endWaiting() {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	l.hurried = true
	l.room.Broadcast()
}

// wake must be called with the mutex held.
func (b *inbox) wake() {
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// take fills an empty batch with waiting messages, one of each lane in turn.
func (b *inbox) take(batch []*input) []*input {
	b.mu.Lock()
	defer b.mu.Unlock()
	for bytes := 0; len(b.turns) > 0 && len(batch) < maxBatch && bytes <= maxBatchBytes; {
		l := b.turns[0]
		b.turns = b.turns[1:]
		in := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		if len(l.waiting) > 0 {
			b.turns = append(b.turns, l)
		}
		batch = append(batch, in)
		bytes += in.size()
		l.bytes -= in.size()
		l.room.Broadcast()
	}
	return batch
}

// putBack has messages of a batch that was too long wait again, each in front of its lane's.
// It returns those of no lane.
func (b *inbox) putBack(batch []*input) (rest []*input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, in := range slices.Backward(batch) {
		l := in.lane
		if l == nil {
			rest = append(rest, in)
			continue
		}
		l.waiting = slices.Insert(l.waiting, 0, in)
		l.bytes += in.size()
		if len(l.waiting) == 1 && !l.held {
			b.turns = append(b.turns, l)
		}
	}
	if len(b.turns) > 0 {
		b.wake()
	}
	return rest
}

// next waits until there are messages for an empty batch, or until the time comes.
func (b *inbox) next(ctx context.Context, batch []*input, due <-chan time.Time) []*input {
	for {
		if batch = b.take(batch); len(batch) > 0 {
			return batch
		}
		select {
		case <-b.arrived:
		case <-due:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
}

// close releases senders that wait for room.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, l := range b.lanes {
		l.room.Broadcast()
	}
}

// subscribe listens to what agents and people may send, each with its own
// subscriptions and queue: one that sends more than the gateway reads loses only its
// own messages. A reload calls it before the server has the new permissions, and
// keeps the subscriptions of removed roles: what an agent may send under either
// definitions is decided and recorded.
func (g *Gateway) subscribe() error {
	mesh := g.config.State.Mesh
	definitions := g.config.State
	g.definitions.Store(&definitions)
	everybody := []agentRole{{bcp.Operator, bcp.RoleOperator}}
	for _, a := range mesh.Agents {
		if a.Reader {
			everybody = append(everybody, agentRole{a.Name, bcp.RoleReader})
		}
		if a.Controller {
			everybody = append(everybody, agentRole{a.Name, bcp.RoleController})
		}
		if a.Kept() {
			everybody = append(everybody, agentRole{a.Name, bcp.RoleKeeper})
		}
	}
	for _, name := range mesh.Approvers {
		everybody = append(everybody, agentRole{name, bcp.RoleApprover})
	}
	runs, shows := requesters(mesh), mesh.RolesRequired()
	for _, who := range everybody {
		patterns := agentPatterns(who)
		if who.Role == bcp.RoleController && runs[who.Agent] {
			patterns = append(patterns, subjects.RunsOf(who.Agent))
		}
		if shows[who.Agent] && g.showsRoles(who) {
			patterns = append(patterns, subjects.RolesOf(who.Agent))
		}
		if err := g.link(who, patterns); err != nil {
			return err
		}
	}
	return g.listening()
}

// requesters returns the Controllers that may start runs. Only they have a subject for
// it.
func requesters(mesh *bcp.Mesh) map[bcp.AgentName]bool {
	all := map[bcp.AgentName]bool{}
	for i := range mesh.Kernels {
		for _, r := range mesh.Kernels[i].Runs {
			all[r.Requester] = true
		}
	}
	return all
}

// poolSize is how many connections agents and people share, if the server's proxy
// limits each agent's rate. On a cluster nothing does: there each has its own (ADR
// 0124).
const poolSize = 16

// pooled is a connection of the pool.
type pooled struct {
	*nats.Conn
	shares int
	grown  bool // the server may not have its newest subscriptions yet
}

// link is the share of an agent or a person, in one role, of a connection.
type link struct {
	conn *pooled
	lane *lane
	subs map[string]*nats.Subscription // by pattern
}

// link listens to one agent or person in one role, to each pattern once, from the moment
// that [Gateway.listening] returns. Messages to it use the same connection.
func (g *Gateway) link(who agentRole, patterns []string) error {
	of, err := g.linkFor(who)
	if err != nil {
		return fmt.Errorf("connecting for the %s %s: %w", who.Role, who.Agent, err)
	}
	for _, pattern := range patterns {
		if of.subs[pattern] != nil {
			continue
		}
		if of.subs[pattern], err = g.listen(of.conn.Conn, who, of.lane, pattern); err != nil {
			return fmt.Errorf("subscribing to %s: %w", pattern, err)
		}
		of.conn.grown = true
	}
	return nil
}

// listening returns when the server has all subscriptions.
func (g *Gateway) listening() error {
	g.linked.Lock()
	pool := slices.Clone(g.pool)
	g.linked.Unlock()
	for _, conn := range pool {
		if !conn.grown {
			continue
		}
		if err := conn.Flush(); err != nil {
			return err
		}
		conn.grown = false
	}
	return nil
}

// linkFor returns the shared connection of an agent, and assigns one if necessary.
func (g *Gateway) linkFor(who agentRole) (link, error) {
	g.linked.Lock()
	defer g.linked.Unlock()
	if of, ok := g.links[who]; ok {
		return of, nil
	}
	conn, err := g.share()
	if err != nil {
		return link{}, err
	}
	conn.shares++
	of := link{conn, g.inbox.lane(), map[string]*nats.Subscription{}}
	g.links[who] = of
	return of, nil
}

// drop stops listening to removed parties. A connection without users is closed.
func (g *Gateway) drop(gone func(agentRole) bool) {
	g.linked.Lock()
	defer g.linked.Unlock()
	for who, of := range g.links {
		if !gone(who) {
			continue
		}
		for _, sub := range of.subs {
			_ = sub.Unsubscribe() // a lost connection comes back without it
		}
		of.conn.shares--
		delete(g.links, who)
	}
	g.pool = slices.DeleteFunc(g.pool, func(conn *pooled) bool {
		if conn.shares == 0 {
			conn.Close()
		}
		return conn.shares == 0
	})
}

// share returns the connection with the fewest users.
func (g *Gateway) share() (*pooled, error) {
	if len(g.pool) >= poolSize && !g.config.Cluster {
		return slices.MinFunc(g.pool, func(a, b *pooled) int { return a.shares - b.shares }), nil
	}
	conn, err := g.config.Connect()
	if err != nil {
		return nil, err
	}
	before := conn.ReconnectHandler()
	conn.SetReconnectHandler(func(conn *nats.Conn) {
		if before != nil {
			before(conn)
		}
		// Answers were lost with the connection, and nobody else repeats a query.
		g.tell(call(func() {
			for who, c := range g.agents {
				if g.agentLink(who) == conn {
					g.guard("a connection", func() { g.sendWaiting(who, c) })
				}
			}
		}))
	})
	of := &pooled{Conn: conn}
	g.pool = append(g.pool, of)
	return of, nil
}

func (g *Gateway) agentLink(who agentRole) *nats.Conn {
	g.linked.Lock()
	defer g.linked.Unlock()
	if of, ok := g.links[who]; ok {
		return of.conn.Conn
	}
	return nil
}

// connections returns those of the pool.
func (g *Gateway) connections() []*nats.Conn {
	g.linked.Lock()
	defer g.linked.Unlock()
	all := make([]*nats.Conn, 0, len(g.pool))
	for _, conn := range g.pool {
		all = append(all, conn.Conn)
	}
	return all
}

// publish sends a message to an agent in its encoding, or to a person or a keeper in
// JSON. Whoever waits for the reply repeats lost messages. It returns false for a message
// that cannot be sent, for example because it is too large.
func (g *Gateway) publish(to agentRole, subject, reply string, message any) bool {
	conn, encoding := g.agentLink(to), bcp.JSON
	if conn == nil {
		return true
	}
	if to.Role == bcp.RoleController || to.Role == bcp.RoleReader {
		encoding = cmp.Or(g.state.Encoding(to.Agent), encoding)
	}
	b, err := bcp.Encode(message, encoding)
	if err != nil {
		g.log.Warn("spelling a message", "error", err)
		return false
	}
	header := g.markFor(to, reply != "" && to.Role == bcp.RoleController)
	if err = conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: b, Header: header}); err != nil {
		g.log.Warn("sending a message", "error", err)
	}
	return !errors.Is(err, nats.ErrMaxPayload)
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

// unlink closes the connections of the pool.
func (g *Gateway) unlink() {
	for _, conn := range g.connections() {
		conn.Close()
	}
}

func (g *Gateway) listen(conn *nats.Conn, who agentRole, l *lane, pattern string) (*nats.Subscription, error) {
	dropped := 0
	sub, err := conn.Subscribe(pattern, func(m *nats.Msg) {
		if n, err := m.Sub.Dropped(); err == nil && n > dropped {
			g.tell(counts{counted: counted{kind: bcp.KindRefusals, agent: who}, n: n - dropped})
			dropped = n
		}
		g.receive(l, m)
	})
	if err == nil {
		err = sub.SetPendingLimits(pendingMessages, pendingBytes)
	}
	return sub, err
}

func agentPatterns(who agentRole) []string {
	switch who.Role {
	case bcp.RoleReader:
		return []string{subjects.PushesOf(who.Agent), subjects.RepliesOf(who.Role, who.Agent)}
	case bcp.RoleController:
		return []string{subjects.AsksOf(who.Agent), subjects.Session(who.Agent), subjects.RepliesOf(who.Role, who.Agent)}
	case bcp.RoleKeeper:
		return []string{subjects.Egress(who.Agent), subjects.Usage(who.Agent)}
	case bcp.RolePlanner, bcp.RoleSubplanner, bcp.RoleTool:
		return []string{subjects.RepliesOf(who.Role, who.Agent)}
	case bcp.RoleApprover:
		return []string{subjects.ApprovalsOf(who.Agent)}
	case bcp.RoleOperator:
		return []string{subjects.Controls()}
	}
	return nil
}

// receive drops a message unless its subject is exactly one that package
// subjects makes: no credentials of ours permit others.
func (g *Gateway) receive(l *lane, sent *nats.Msg) {
	subject, err := subjects.Parse(sent.Subject)
	if err != nil {
		return
	}
	m := &message{subject: subject, kind: requestOn(&subject), reply: sent.Reply, body: sent.Data}
	if subjects.Identified(sent.Subject) { // the server replaced the reply subject
		m.reply = sent.Header.Get(bcp.ReplyHeader)
	}
	if values := sent.Header[bcp.MarkHeader]; len(values) == 1 {
		m.shows, m.mark = true, values[0]
	}
	if m.kind == nil {
		return
	}
	if p, ok := m.kind.request.(preparer); ok {
		p.prepare(g, m, sent)
	}
	if subject.Kind == subjects.KindReply && nobodyListens(sent) {
		m.kind = notHeard
	}
	l.put(&input{message: m})
}

// A preparer is a request that takes more of a message than its subject and its body.
type preparer interface {
	prepare(*Gateway, *message, *nats.Msg)
}

// prepare compiles the conditions that a message has under a key, which takes long, outside
// of the one goroutine that decides: each agent's messages wait for their own. One is
// compiled at a time, so that a processor is left for the rest.
func prepare[T any](g *Gateway, body []byte, key string, compile func(*state.Config) *T) (prepared *T) {
	definitions := g.definitions.Load()
	if definitions == nil || !bytes.Contains(body, []byte(key)) && !bytes.Contains(body, []byte(`\u`)) {
		return nil
	}
	g.preparing.Lock()
	defer g.preparing.Unlock()
	_ = safely(func() error { // deciding meets the mistake again
		prepared = compile(definitions)
		return nil
	})
	return prepared
}

// kernelOf returns a kernel of definitions, or nil.
func kernelOf(c *state.Config, name bcp.AgentName) *kernel.Kernel {
	if c.Runs == nil {
		return nil
	}
	runs, err := c.Runs(nil)
	if err != nil {
		return nil
	}
	return runs.Kernels()[name]
}

// nobodyListens recognises the server's own message to a reply subject when no
// agent was subscribed: it must not count as an answer or an acknowledgement. An
// agent that forges it only loses its one answer to that sending: a Controller
// gets its delivery again, and a Reader its open queries, with a backoff. The
// server sends it to the connection that sent the message, if that listens to
// the reply subject: so messages to and from an agent share a connection.
func nobodyListens(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503"
}

// unheard is a message with which the server says that nobody listened to one with this
// reply subject.
type unheard struct{ undecided }

var notHeard = &received{request: unheard{}}

func (unheard) answer(g *Gateway, o *outcome) {
	if m := o.message; m.isOnceOnly() {
		g.unheardPlan(m.subject.ID)
	} else {
		g.noteUnheard(m.subject)
	}
}

// senderHeader is added by the server if an export shares the sender's
// identity.
const senderHeader = "Nats-Request-Info"

// readSender returns whose creds a message was sent with. The server overwrites the
// client's own header. A sender bound to an unreadable passkey is nobody.
func readSender(m *nats.Msg) bcp.Sender {
	var said struct {
		User string   `json:"user"`
		Tags []string `json:"tags"`
	}
	if values := m.Header.Values(senderHeader); len(values) != 1 || json.Unmarshal([]byte(values[0]), &said) != nil {
		return bcp.Sender{}
	}
	from := bcp.Sender{Key: said.User}
	for _, tag := range said.Tags {
		hash, bound := strings.CutPrefix(tag, bcp.PasskeyTag)
		if !bound {
			continue
		}
		if !from.Passkey.IsZero() || from.Passkey.UnmarshalText([]byte(hash)) != nil || from.Passkey.IsZero() {
			return bcp.Sender{}
		}
	}
	return from
}
