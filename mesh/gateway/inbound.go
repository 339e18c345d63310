package gateway

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

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

// receive drops a message unless its subject is exactly one that package
// subjects makes: no credentials of ours permit others.
func (g *Gateway) receive(l *lane, sent *nats.Msg) {
	subject, err := subjects.Parse(sent.Subject)
	if err != nil {
		return
	}
	m := &message{subject: subject, kind: requestOn(&subject), reply: sent.Reply, body: sent.Data, from: readSender(sent)}
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
		p.prepare(g, m)
	}
	if subject.Kind == subjects.KindReply && nobodyListens(sent) {
		m.kind = notHeard
	}
	l.put(&input{message: m})
}

// A preparer is a request whose body is compiled before it is decided about.
type preparer interface {
	prepare(*Gateway, *message)
}

// prepare compiles the conditions that a message has under a key, which takes long, outside
// of the one goroutine that decides: each agent's messages wait for their own. One is
// compiled at a time, so that a processor is left for the rest.
func prepare[T any](g *Gateway, body []byte, key string, compile func(*definitions) *T) (prepared *T) {
	today := g.definitions.Load()
	if today == nil || !bytes.Contains(body, []byte(key)) && !bytes.Contains(body, []byte(`\u`)) {
		return nil
	}
	g.preparing.Lock()
	defer g.preparing.Unlock()
	caught(func() { prepared = compile(today) }) // deciding meets the mistake again
	return prepared
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
		id := m.subject.ID // of a plan request, which is repeated with a backoff
		g.runs.unheard[id]++
		wait := min(firstBackoff<<min(g.runs.unheard[id], 20), maxPlannerBackoff)
		g.runAt(g.clock().Add(wait), func() { g.askPlanner(id) })
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

// subscribe listens to what agents and people may send, each with its own
// subscriptions and queue: one that sends more than the gateway reads loses only its
// own messages. A reload calls it before the server has the new permissions, and
// keeps the subscriptions of removed roles: what an agent may send under either
// definitions is decided and recorded.
func (g *Gateway) subscribe() error {
	mesh := g.config.State.Mesh
	g.definitions.Store(&definitions{g.config.State, g.runState().Kernels()})
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
		if shows[who.Agent] && who.Role == g.rolesOver(who.Agent) { // of an agent with both roles only one counts
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

// prune stops listening to agents and people that are not in the definitions.
func (g *Gateway) prune() {
	known := map[bcp.AgentName]bool{bcp.Operator: true}
	for _, a := range g.config.State.Mesh.Agents {
		known[a.Name] = true
	}
	for _, name := range g.config.State.Mesh.Approvers {
		known[name] = true
	}
	serves := map[agentRole]bool{}
	for _, k := range g.runState().Kernels() {
		for _, who := range servesKernel(k) {
			serves[who] = true
		}
	}
	g.drop(func(who agentRole) bool { return !known[who.Agent] && !serves[who] })
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
