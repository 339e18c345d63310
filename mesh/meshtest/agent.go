package meshtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Agent is a stock NATS client with the creds of an agent or a person.
type Agent struct {
	*nats.Conn
	Name bcp.AgentName
	Role bcp.Role

	encoding bcp.Encoding
}

// Connect issues creds and connects with them. role may be zero if the agent
// has one.
func (m *Mesh) Connect(t testing.TB, name bcp.AgentName, role bcp.Role, options ...nats.Option) *Agent {
	t.Helper()
	definition, ok := m.Definition.Agent(name)
	if !ok { // a person
		definition = bcp.Agent{Name: name, Encoding: bcp.JSON}
	}
	a := NewAgent(definition)
	if role != 0 {
		a.Role = role
	}
	a.Dial(t, m.URL(), m.Creds(t, name, role), options...)
	return a
}

// NewAgent returns a disconnected agent; with both roles it is a Controller.
func NewAgent(definition bcp.Agent) *Agent {
	role := bcp.RoleReader
	if definition.Controller {
		role = bcp.RoleController
	}
	return &Agent{Name: definition.Name, Role: role, encoding: definition.Encoding}
}

// Creds returns the text of a fresh creds file.
func (m *Mesh) Creds(t testing.TB, name bcp.AgentName, role bcp.Role) []byte {
	t.Helper()
	creds, err := m.Issue(name, role, time.Hour)
	noError(t, err)
	return creds.Text()
}

// Dial connects a to a mesh until the test ends.
func (a *Agent) Dial(t testing.TB, url string, creds []byte, options ...nats.Option) {
	t.Helper()
	options = append([]nats.Option{
		nats.UserCredentialBytes(creds), nats.CustomInboxPrefix(subjects.InboxPrefix(a.Name)),
		nats.SkipSubjectValidation(), nats.NoReconnect(), nats.Timeout(Patience),
		// The default prints refusals.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)
	conn, err := nats.Connect(url, options...)
	bcptest.StopIf(t, err != nil, "%s as %s: %v", a.Name, a.Role, err)
	a.Conn = conn
	t.Cleanup(conn.Close)
}

// Message is a message in JSON, from any encoding.
type Message struct {
	*nats.Msg
	JSON string
	// Fields are its keys; numbers are float64.
	Fields map[string]any
}

// Text returns the text under a key, or the empty string.
func (m Message) Text(key string) string {
	text, _ := m.Fields[key].(string)
	return text
}

// Encode returns JSON in the agent's encoding; text that is not JSON is sent
// verbatim.
func (a *Agent) Encode(text string) []byte {
	if a.encoding == bcp.MessagePack {
		if b, err := wire.MsgpackFromJSON(nil, []byte(text)); err == nil {
			return b
		}
	}
	return []byte(text)
}

func (a *Agent) decode(msg *nats.Msg) (Message, error) {
	b := msg.Data
	if a.encoding == bcp.MessagePack {
		var tree any
		if err := msgpack.Unmarshal(b, &tree); err != nil {
			return Message{}, err
		}
		var err error
		if b, err = json.Marshal(tree, json.Deterministic(true)); err != nil {
			return Message{}, err
		}
	}
	m := Message{Msg: msg, JSON: string(b)}
	if err := json.Unmarshal(b, &m.Fields); err != nil {
		return Message{}, fmt.Errorf("%w in %q", err, b)
	}
	return m, nil
}

// Request sends a request and returns the reply.
func (a *Agent) Request(t testing.TB, subject, text string) Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	reply, err := agents.Request(ctx, a.Conn, &nats.Msg{Subject: subject, Data: a.Encode(text)})
	bcptest.StopIf(t, err != nil, "%s: a request: %v", a.Name, err)
	return a.read(t, reply)
}

// read decodes a message to the agent.
func (a *Agent) read(t testing.TB, msg *nats.Msg) Message {
	t.Helper()
	m, err := a.decode(msg)
	bcptest.StopIf(t, err != nil, "%s: a message: %v", a.Name, err)
	return m
}

// Ask asks about a Reader and returns the receipt.
func (a *Agent) Ask(t testing.TB, reader bcp.AgentName, text string) Message {
	t.Helper()
	return a.Request(t, subjects.Ask(a.Name, reader), text)
}

// Accepted asks, expects a receipt, and returns the query's id.
func (a *Agent) Accepted(t testing.TB, reader bcp.AgentName, text string) bcp.QueryID {
	t.Helper()
	receipt := a.Ask(t, reader, text)
	bcptest.StopIf(t, receipt.Text("query_id") == "", "the ask was not accepted: %s", receipt.JSON)
	return bcp.QueryID(receipt.Text("query_id"))
}

// Push pushes an answer against a subscription and returns the validation
// result. Response is the answer's JSON; more are further members, each with a
// comma in front.
func (a *Agent) Push(t testing.TB, controller bcp.AgentName, id bcp.SubscriptionID, response, more string) Message {
	t.Helper()
	return a.Request(t, subjects.Push(a.Name, controller, id), PushText(controller, id, response, more))
}

// PushText is the message of a push.
func PushText(controller bcp.AgentName, id bcp.SubscriptionID, response, more string) string {
	return fmt.Sprintf(`{"type":"bcp_response","subscription_id":%q,"controller":%q,"response":%s%s}`, id, controller, response, more)
}

// Answer answers a query; members are those after its id, such as
// "response":{…}.
func (a *Agent) Answer(t testing.TB, query Message, members string) {
	t.Helper()
	text := fmt.Sprintf(`{"type":"bcp_response","query_id":%q,%s}`, query.Text("query_id"), members)
	a.Say(t, query.Reply, text)
}

// Say publishes and waits until the server has it.
func (a *Agent) Say(t testing.TB, subject, text string) {
	t.Helper()
	noError(t, a.Publish(subject, a.Encode(text)))
	a.Sync(t)
}

// Acknowledge acknowledges a delivery.
func (a *Agent) Acknowledge(t testing.TB, delivery Message) {
	t.Helper()
	a.Say(t, delivery.Reply, "")
}

// Sync waits until the server has everything that a sent, and a everything that
// the server had for it.
func (a *Agent) Sync(t testing.TB) {
	t.Helper()
	err := a.FlushTimeout(Patience)
	bcptest.StopIf(t, err != nil, "%s: %v", a.Name, err)
}

// Inbox holds the messages of a subscription.
type Inbox struct {
	agent    *Agent
	messages chan *nats.Msg
}

// Listen subscribes to a subject.
func (a *Agent) Listen(t testing.TB, subject string) *Inbox {
	t.Helper()
	i := &Inbox{agent: a, messages: make(chan *nats.Msg, 1<<16)}
	i.Join(t, subject)
	return i
}

// Queries subscribes to all queries to a.
func (a *Agent) Queries(t testing.TB) *Inbox {
	t.Helper()
	return a.Listen(t, subjects.QueriesOf(a.Name))
}

// Deliveries subscribes to all deliveries to a.
func (a *Agent) Deliveries(t testing.TB) *Inbox {
	t.Helper()
	return a.Listen(t, subjects.DeliveriesOf(a.Role, a.Name))
}

// Next returns the next message.
func (i *Inbox) Next(t testing.TB) Message {
	t.Helper()
	return i.NextOf(t, func(Message) bool { return true })
}

// NextOf returns the next message that matches and drops earlier ones.
func (i *Inbox) NextOf(t testing.TB, match func(Message) bool) Message {
	t.Helper()
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	for {
		select {
		case msg := <-i.messages:
			if m := i.agent.read(t, msg); match(m) {
				return m
			}
		case <-timeout.C:
			t.Fatalf("%s: no such message", i.agent.Name)
		}
	}
}

// Taken returns what has arrived, waiting only for what the server already has.
func (i *Inbox) Taken(t testing.TB) []Message {
	t.Helper()
	i.agent.Sync(t)
	var taken []Message
	for {
		select {
		case msg := <-i.messages:
			taken = append(taken, i.agent.read(t, msg))
		default:
			return taken
		}
	}
}

// With matches messages with a text under a key.
func With[T ~string](key string, text T) func(Message) bool {
	return func(m Message) bool { return m.Text(key) == string(text) }
}

// Items returns the items that wait for a person, as an approver sees them.
func (m *Mesh) Items(t testing.TB) string {
	t.Helper()
	m.Settle(t)
	return m.settler.Request(t, subjects.Approval(settler, subjects.VerbList), "").JSON
}

// Join makes the inbox also get the messages of another subject, in the order
// in which they arrive.
func (i *Inbox) Join(t testing.TB, subject string) {
	t.Helper()
	_, err := i.agent.ChanSubscribe(subject, i.messages)
	noError(t, err)
	i.agent.Sync(t)
}
