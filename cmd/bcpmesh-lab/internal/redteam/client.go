package redteam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Client is a plain NATS connection with somebody's creds, which keeps all that
// it gets. Its user decides what it sends.
type Client struct {
	rig  *Rig
	conn *nats.Conn
	name bcp.AgentName
	role bcp.Role

	msgpack bool

	mu      sync.Mutex
	heard   []*Message
	grown   chan struct{}   // closed and replaced when heard or refused grows
	pushed  map[string]bool // deliveries returned by Pushed, which come again if the acknowledgement is late
	refused []string        // errors of the server

	observing bool
	observed  []Message // while observing
	requests  int       // while observing
	inbox     int       // messages there, while observing
}

// Client connects somebody, once: later calls return the same connection.
// Agents listen to all their subjects; deliveries are acknowledged as they
// come.
func (r *Rig) Client(name bcp.AgentName, role bcp.Role) *Client {
	r.mu.Lock()
	for _, s := range r.clients {
		if s.name == name && s.role == role && s.conn.IsConnected() {
			r.mu.Unlock()
			return s
		}
	}
	r.mu.Unlock()
	s, err := r.Connect(name, role, r.Creds(name, role))
	if err != nil {
		r.abandon("%s as %s: %v", name, role, err)
	}
	return s
}

// Connect connects with given creds.
func (r *Rig) Connect(name bcp.AgentName, role bcp.Role, creds []byte, options ...nats.Option) (*Client, error) {
	s := &Client{rig: r, name: name, role: role, grown: make(chan struct{}), pushed: map[string]bool{}}
	if agent, ok := r.definition.Agent(name); ok {
		s.msgpack = agent.Encoding == bcp.MessagePack
	}
	options = append([]nats.Option{
		nats.UserCredentialBytes(creds), nats.CustomInboxPrefix(subjects.InboxPrefix(name)), nats.SkipSubjectValidation(),
		nats.NoReconnect(), nats.Timeout(patience), nats.ErrorHandler(s.note),
	}, options...)
	conn, err := nats.Connect(r.Mesh().URL(), options...)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	r.mu.Lock()
	r.clients = append(r.clients, s)
	r.mu.Unlock()
	var listens []string
	switch role {
	case bcp.RoleReader:
		listens = []string{subjects.QueriesOf(name), subjects.DeliveriesOf(role, name)}
	case bcp.RoleController:
		listens = []string{subjects.DeliveriesOf(role, name), subjects.InboxesOf(name)}
	case bcp.RolePlanner:
		listens = []string{subjects.PlansOf(name)}
	case bcp.RoleSubplanner:
		listens = []string{subjects.SubplansOf(name)}
	case bcp.RoleTool:
		listens = []string{subjects.CallsOf(name)}
	}
	for _, subject := range listens {
		s.Listen(subject)
	}
	return s, nil
}

func (s *Client) note(_ *nats.Conn, _ *nats.Subscription, err error) {
	s.grow(func() { s.refused = append(s.refused, err.Error()) })
}

func (s *Client) grow(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.grown)
	s.grown = make(chan struct{})
}

// Listen subscribes to a subject.
func (s *Client) Listen(subject string) {
	if _, err := s.conn.Subscribe(subject, s.take); err != nil {
		s.rig.abandon("%s listens to %s: %v", s.name, subject, err)
	}
	s.flush()
}

func (s *Client) take(msg *nats.Msg) {
	m := &Message{Subject: msg.Subject, Reply: msg.Reply, Header: msg.Header, Data: msg.Data}
	if s.msgpack {
		if text, err := wire.JSONFromGateway(nil, msg.Data); err == nil {
			m.Data = text
		}
	}
	if to, err := subjects.Parse(msg.Subject); err == nil && to.Kind == subjects.KindDeliver {
		_ = msg.Respond(nil) // if the connection is lost, the delivery comes again
	}
	if s.observing && strings.HasPrefix(m.Subject, subjects.InboxPrefix(s.name)) {
		s.grow(func() { s.inbox++ }) // the request keeps its own reply
		return
	}
	s.keepMessage(*m)
	s.grow(func() { s.heard = append(s.heard, m) })
}

// encode returns JSON in the client's encoding; text that is not JSON is unchanged.
func (s *Client) encode(text string) []byte {
	if s.msgpack {
		if b, err := wire.MsgpackFromJSON(nil, []byte(text)); err == nil {
			return b
		}
	}
	return []byte(text)
}

// json returns a message in the client's encoding; invalid ones are unchanged.
func (s *Client) json(data []byte) Message {
	if s.msgpack {
		if text, err := wire.JSONFromGateway(nil, data); err == nil {
			data = text
		}
	}
	return Message{Data: data}
}

func (s *Client) flush() {
	if err := s.conn.FlushTimeout(patience); err != nil {
		s.rig.abandon("the connection of %s: %v", s.name, err)
	}
}

// Say publishes a text and waits until the server has it.
func (s *Client) Say(subject, text string) {
	s.SayRaw(&nats.Msg{Subject: subject, Data: s.encode(text)})
}

// SayRaw publishes a message as it is.
func (s *Client) SayRaw(msg *nats.Msg) {
	if err := s.conn.PublishMsg(msg); err != nil {
		s.rig.abandon("%s publishes on %s: %v", s.name, msg.Subject, err)
	}
	s.flush()
}

// Request sends a request and returns the reply, in JSON.
func (s *Client) Request(subject, text string) Message { return s.RequestRaw(subject, s.encode(text)) }

// RequestRaw is Request of bytes as they are.
func (s *Client) RequestRaw(subject string, data []byte) Message {
	reply, err := s.ask(subject, data)
	if err != nil {
		s.rig.abandon("a request of %s on %s: %v", s.name, subject, err)
	}
	m := Message{Subject: reply.Subject, Header: reply.Header, Data: reply.Data}
	if s.msgpack {
		if m.Data, err = wire.JSONFromGateway(nil, reply.Data); err != nil {
			s.rig.Broken("a reply to %s is no MessagePack: %q", s.name, reply.Data)
		}
	}
	s.keepMessage(m)
	if s.observing {
		s.grow(func() { s.requests++ })
	}
	return m
}

// ask is RequestRaw without an oracle.
func (s *Client) ask(subject string, data []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(s.rig.ctx, patience)
	defer cancel()
	return agents.Request(ctx, s.conn, &nats.Msg{Subject: subject, Data: data})
}

// keepMessage keeps a message for the client's observer, otherwise for the oracle.
func (s *Client) keepMessage(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.observing:
		s.observed = append(s.observed, m)
	case s.role == bcp.RoleController:
		s.rig.mu.Lock()
		defer s.rig.mu.Unlock()
		s.rig.controllers = append(s.rig.controllers, m)
	}
}

// Await returns the first message that matches and was not returned yet.
func (s *Client) Await(match func(Message) bool) Message {
	m, ok := s.await(match, patience)
	if !ok {
		s.rig.abandon("%s waited in vain", s.name)
	}
	return m
}

func (s *Client) await(match func(Message) bool, wait time.Duration) (Message, bool) {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		grown := s.grown
		for _, m := range s.heard {
			if !m.taken && match(*m) {
				m.taken = true
				s.mu.Unlock()
				return *m, true
			}
		}
		s.mu.Unlock()
		select {
		case <-grown:
		case <-timeout.C:
			return Message{}, false
		case <-s.rig.ctx.Done():
			s.rig.abandon("%v", s.rig.ctx.Err())
		}
	}
}

// Heard returns all matches so far, whether returned before or not.
func (s *Client) Heard(match func(Message) bool) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Message
	for _, m := range s.heard {
		if match(*m) {
			found = append(found, *m)
		}
	}
	return found
}

// Ask asks a Reader and returns the id of the accepted query.
func (s *Client) Ask(reader bcp.AgentName, spec string) string {
	receipt := s.Request(subjects.Ask(s.name, reader), spec)
	id := receipt.Text("query_id")
	if id == "" {
		s.rig.abandon("the ask was not accepted: %s", receipt.Data)
	}
	return id
}

// Query waits for a query with an id.
func (s *Client) Query(id string) Message {
	return s.Await(func(m Message) bool { return m.Text("type") == "bcp_query" && m.Text("query_id") == id })
}

// Answer answers a query; members are those after its id.
func (s *Client) Answer(query Message, members string) {
	s.Say(query.Reply, fmt.Sprintf(`{"type":"bcp_response","query_id":%q,%s}`, query.Text("query_id"), members))
}

// Push pushes an answer and returns the validation result. more are further
// members, each with a comma before it.
func (s *Client) Push(controller bcp.AgentName, id, response, more string) Message {
	return s.Request(subjects.Push(s.name, controller, bcp.SubscriptionID(id)),
		fmt.Sprintf(`{"type":"bcp_response","subscription_id":%q,"controller":%q,"response":%s%s}`, id, controller, response, more))
}

// Result waits for the Reader's next result of an answer to a query.
func (s *Client) Result(id string) Message {
	return s.Await(func(m Message) bool { return m.Text("type") == "bcp_validation_result" && m.Text("query_id") == id })
}

// Delivery waits for the last delivery of a query, not for the report that it is held.
func (s *Client) Delivery(id string) Delivery {
	return s.read(s.Await(func(m Message) bool {
		return m.Text("type") == "bcp_response_delivery" && m.Text("query_id") == id && m.Text("outcome") != "held"
	}))
}

// Pushed waits for the next delivery of a push.
func (s *Client) Pushed() Delivery {
	m := s.Await(func(m Message) bool {
		return m.Text("type") == "bcp_response_delivery" && m.Text("subscription_id") != "" && !s.pushed[m.Text("delivery_id")]
	})
	s.mu.Lock()
	s.pushed[m.Text("delivery_id")] = true
	s.mu.Unlock()
	return s.read(m)
}

// Delivery is a Controller's delivery, according to the wire's documentation.
type Delivery struct {
	Message

	Response  json.RawMessage `json:"response"`
	Outcome   string          `json:"outcome"`
	Anomalies []string        `json:"anomalies"`
	Nominal   float64         `json:"bandwidth_bits"`
	Capacity  float64         `json:"capacity_bits"`
	Taint     string          `json:"taint"`
}

func (s *Client) read(m Message) Delivery {
	d := Delivery{Message: m}
	if err := json.Unmarshal(m.Data, &d); err != nil {
		s.rig.Broken("a delivery is no JSON: %v in %q", err, m.Data)
	}
	return d
}

// errNotRefused says that the server allowed something.
var errNotRefused = errors.New("the server allowed it")

// Refused does something that the server must refuse, and returns nil if it does: by
// a permission error that names the subject, or by closing the connection.
func (s *Client) Refused(subject string, try func() error) error {
	s.mu.Lock()
	before := len(s.refused)
	s.mu.Unlock()
	if err := try(); err != nil {
		return nil // the client itself, or the server by closing
	}
	if err := s.conn.FlushTimeout(patience); err != nil {
		return nil
	}
	// The permission error comes before the pong of the flush, but is handled by
	// another goroutine.
	for deadline := time.Now().Add(2 * time.Second); ; {
		s.mu.Lock()
		grown := s.grown
		for _, err := range s.refused[before:] {
			if strings.Contains(strings.ToLower(err), "permissions violation") && strings.Contains(err, subject) {
				s.mu.Unlock()
				return nil
			}
		}
		s.mu.Unlock()
		wait := time.Until(deadline)
		if wait <= 0 {
			return errNotRefused
		}
		select {
		case <-grown:
		case <-time.After(wait):
		}
	}
}
