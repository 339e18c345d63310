package gateway

import (
	"bytes"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"

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

// definitions are what messages are prepared under.
type definitions struct {
	state.Config
	kernels map[bcp.AgentName]*kernel.Kernel
}

// A preparer is a request that takes more of a message than its subject and its body.
type preparer interface {
	prepare(*Gateway, *message, *nats.Msg)
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
