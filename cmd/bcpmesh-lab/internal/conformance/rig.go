package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Names of the others in the mesh of a rig.
const (
	peer      bcp.AgentName = "conformance" // the other end of the channel
	bystander bcp.AgentName = "bystander"   // has nothing to do with it
)

// Config configures a test. Role and State are required; every other zero value
// is a default.
type Config struct {
	Role     bcp.Role      // RoleReader or RoleController
	Agent    bcp.AgentName // the agent's name; default "candidate"
	Encoding bcp.Encoding  // its encoding; default JSON
	// Categories are those of the questions to a Reader; default 1, 2 and 3.
	Categories []bcp.Category
	// State is an empty folder for keys and the server.
	State  string
	Listen string // loopback; default any free port
	// Arrival is how long the agent may take to connect; default 5 minutes.
	Arrival time.Duration
	// Patience is how long it may take to answer or acknowledge; default 30 s.
	Patience time.Duration
	// Quiet is how long to wait for messages that should not come; default 1 s.
	Quiet time.Duration
	// OnCheck, if not nil, is called with each check as it is decided.
	OnCheck func(Check)
}

func (c Config) filled() (Config, error) {
	if Rules(c.Role) == nil {
		return c, errors.New("the role is neither reader nor controller")
	}
	c.Agent = cmp.Or(c.Agent, "candidate")
	if _, err := bcp.ParseAgentName(string(c.Agent)); err != nil || c.Agent == peer || c.Agent == bystander {
		return c, fmt.Errorf("%q is no name for the agent under test", c.Agent)
	}
	c.Encoding = cmp.Or(c.Encoding, bcp.JSON)
	if c.Categories == nil {
		c.Categories = []bcp.Category{1, 2, 3}
	}
	for _, category := range c.Categories {
		if category < 1 || category > 3 {
			return c, fmt.Errorf("%d is no category", category)
		}
	}
	if c.Arrival < 0 || c.Patience < 0 || c.Quiet < 0 {
		return c, errors.New("times are not negative")
	}
	c.Arrival, c.Patience, c.Quiet = cmp.Or(c.Arrival, 5*time.Minute), cmp.Or(c.Patience, 30*time.Second), cmp.Or(c.Quiet, time.Second)
	if c.OnCheck == nil {
		c.OnCheck = func(Check) {}
	}
	return c, nil
}

// Rig is a server with one agent under test, and this package as its gateway.
type Rig struct {
	config Config
	server *server.Server
	nc     *nats.Conn
	creds  accounts.Creds
	watch  func()
	mesh   *bcp.Mesh
	checklist

	mu       sync.Mutex
	grown    chan struct{} // closed and replaced when anything below grows
	heard    []heard
	denials  []server.Denial
	client   server.ClientID // the newest connection of the agent; zero is none
	arrivals int
}

// heard is one message of the agent.
type heard struct {
	to   subjects.Subject
	at   time.Time
	data []byte
}

// Start makes the mesh and serves it. The rig is the caller's to stop.
func Start(ctx context.Context, config Config) (*Rig, error) {
	config, err := config.filled()
	if err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	r := &Rig{config: config, checklist: newChecklist(config.Role, config.OnCheck), grown: make(chan struct{})}
	if err := r.start(ctx); err != nil {
		return nil, fmt.Errorf("conformance: %w", errors.Join(err, r.Stop(context.WithoutCancel(ctx))))
	}
	return r, nil
}

func (r *Rig) start(ctx context.Context) error {
	var report definition.Report
	if r.mesh, report = definition.Parse(definitions(r.config)); r.mesh == nil {
		return fmt.Errorf("its own definitions: %v", report.Errors)
	}
	store, err := accounts.Create(r.config.State)
	if err != nil {
		return err
	}
	bundle, err := accounts.Compile(store, subjects.Permissions(r.mesh), time.Now())
	if err != nil {
		return err
	}
	if r.creds, err = store.Issue(r.config.Agent, r.config.Role, 0); err != nil {
		return err
	}
	r.server, err = server.Start(ctx, server.Config{Listen: r.config.Listen, StateDir: r.config.State, Bundle: bundle, Denials: r.denied})
	if err != nil {
		return err
	}
	if r.nc, err = r.server.Gateway(); err != nil {
		return err
	}
	for _, kind := range []subjects.Kind{subjects.KindReply, subjects.KindPush, subjects.KindAsk, subjects.KindSession} {
		if _, err := r.nc.Subscribe(subjects.All(kind), r.receive); err != nil {
			return err
		}
	}
	if err := r.nc.Flush(); err != nil {
		return err
	}
	r.watch, err = r.server.Watch(r.connected)
	return err
}

// definitions returns those of a mesh in which the agent under test has one channel.
func definitions(c Config) map[string][]byte {
	encoding := "json"
	if c.Encoding == bcp.MessagePack {
		encoding = "msgpack"
	}
	controls := func(reader bcp.AgentName) string {
		return fmt.Sprintf(`
  - peer: %s
    role: controller
    max_category: 3
    budget_bits: 1000000
    subscriptions:
      - {id: status, category: 1, fields: [{name: changed, type: boolean}]}`, reader)
	}
	reads := func(controller bcp.AgentName) string {
		return fmt.Sprintf("\n  - {peer: %s, role: reader}", controller)
	}
	file := func(name bcp.AgentName, encoding, channels string) []byte {
		return fmt.Appendf(nil, "---\nname: %s\nencoding: %s\nbcp_channels:%s\n---\n", name, encoding, channels)
	}
	controller, reader, of, to := peer, c.Agent, "json", encoding
	if c.Role == bcp.RoleController {
		controller, reader, of, to = c.Agent, peer, encoding, "json"
	}
	return map[string][]byte{
		"controller.md": file(controller, of, controls(reader)),
		"reader.md":     file(reader, to, reads(controller)),
	}
}

// URL returns the URL for the agent.
func (r *Rig) URL() string { return r.server.URL() }

// Creds returns the agent's creds.
func (r *Rig) Creds() accounts.Creds { return r.creds }

// Stop ends the server. It may be called twice.
func (r *Rig) Stop(ctx context.Context) error {
	if r.watch != nil {
		r.watch()
		r.watch = nil
	}
	if r.nc != nil {
		r.nc.Close()
	}
	if r.server == nil {
		return nil
	}
	return r.server.Stop(ctx)
}

// Check runs the whole test and returns the checklist. When ctx ends, or the
// agent does not come, undecided checks fail.
func (r *Rig) Check(ctx context.Context) Report {
	arrived := r.arrive(ctx)
	if arrived {
		if r.config.Role == bcp.RoleReader {
			r.checkReader(ctx)
		} else {
			r.checkController(ctx)
		}
	}
	return r.report(arrived, func(rule Rule) Check { return Check{Rule: rule, Detail: "it did not come to that"} })
}

func (r *Rig) update(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.grown)
	r.grown = make(chan struct{})
}

func (r *Rig) denied(d server.Denial) {
	if d.Agent == r.config.Agent {
		r.update(func() { r.denials = append(r.denials, d) })
	}
}

func (r *Rig) connected(c server.Connection) {
	if c.Agent != r.config.Agent {
		return
	}
	r.update(func() {
		switch {
		case c.Connected:
			r.client = c.ClientID
			r.arrivals++
		case r.client == c.ClientID:
			r.client = server.ClientID{}
		}
	})
}

func (r *Rig) receive(m *nats.Msg) {
	to, err := subjects.Parse(m.Subject)
	if err != nil || m.Header.Get("Status") != "" {
		return
	}
	r.update(func() { r.heard = append(r.heard, heard{to, time.Now(), m.Data}) })
	r.respond(to, m)
}

// waitUntil waits until f, called under the lock, returns true, for at most wait.
// It returns whether it did.
func (r *Rig) waitUntil(ctx context.Context, wait time.Duration, f func() bool) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		r.mu.Lock()
		ok, grown := f(), r.grown
		r.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-grown:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// arrive waits for the agent to connect.
func (r *Rig) arrive(ctx context.Context) bool {
	return r.waitUntil(ctx, r.config.Arrival, func() bool { return r.client != (server.ClientID{}) })
}

// quiet waits for messages that should not come.
func (r *Rig) quiet(ctx context.Context) {
	r.waitUntil(ctx, r.config.Quiet, func() bool { return false })
}

// messagesOn returns the messages on a reply subject of the agent.
func (r *Rig) messagesOn(subject string) []heard {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.messagesOnLocked(subject)
}

func (r *Rig) messagesOnLocked(subject string) []heard {
	var list []heard
	for _, h := range r.heard {
		if h.to.String() == subject {
			list = append(list, h)
		}
	}
	return list
}

// answered waits for a message on a reply subject.
func (r *Rig) answered(ctx context.Context, subject string) bool {
	return r.waitUntil(ctx, r.config.Patience, func() bool { return len(r.messagesOnLocked(subject)) > 0 })
}

// attempt returns the reply subject of one sending of a delivery.
func (r *Rig) attempt(id bcp.DeliveryID, n int) string {
	return subjects.Reply(r.config.Role, r.config.Agent, id, n)
}

// persist sends a delivery repeatedly, each time with a new reply subject, until one is
// answered, as a gateway does. It returns how often it sent.
func (r *Rig) persist(ctx context.Context, from bcp.AgentName, id bcp.DeliveryID, body []byte) (sent int, ok bool) {
	const pause = 200 * time.Millisecond
	var replies []string
	for begin := time.Now(); time.Since(begin) < r.config.Patience && ctx.Err() == nil; {
		replies = append(replies, r.attempt(id, len(replies)))
		r.publish(subjects.Deliver(r.config.Role, r.config.Agent, from), replies[len(replies)-1], body)
		if r.waitUntil(ctx, pause, func() bool {
			return slices.ContainsFunc(replies, func(reply string) bool { return len(r.messagesOnLocked(reply)) > 0 })
		}) {
			return len(replies), true
		}
	}
	return len(replies), false
}

// publish publishes raw bytes to the agent.
func (r *Rig) publish(subject, reply string, data []byte) {
	// Where the connection of this process is lost, nothing is answered.
	_ = r.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data})
	_ = r.nc.Flush()
}

func (r *Rig) encode(message any) []byte {
	b, err := bcp.Encode(message, r.config.Encoding)
	if err != nil {
		panic(fmt.Sprintf("conformance: a message of its own: %v", err))
	}
	return b
}

// extended encodes a message with members that no gateway sends today: after its
// own, and before those of each field and subscription.
func (r *Rig) extended(message any) []byte {
	b, err := bcp.Encode(message, bcp.JSON)
	if err != nil {
		panic(fmt.Sprintf("conformance: a message of its own: %v", err))
	}
	text := strings.TrimSuffix(string(b), "}") + `,"later":{"of":["a newer gateway",1,true]}}`
	for _, first := range []string{`{"name":`, `{"id":`, `{"subscription_id":`} {
		text = strings.ReplaceAll(text, first, `{"later":1,`+first[1:])
	}
	return r.encode(jsontext.Value(text))
}

// rejoin disconnects the agent and waits until it is back.
func (r *Rig) rejoin(ctx context.Context) bool {
	r.mu.Lock()
	client, arrivals := r.client, r.arrivals
	r.mu.Unlock()
	if client != (server.ClientID{}) && r.server.Kick(client) != nil {
		return false
	}
	return r.waitUntil(ctx, r.config.Patience, func() bool { return r.client != (server.ClientID{}) && r.arrivals > arrivals })
}

// permitted decides the check of permissions. Denials on reply subjects are checkOnce's.
func (r *Rig) permitted(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.denials {
		if d.Operation != server.Connect && !strings.HasPrefix(d.Subject, replies) {
			r.decide(id, Failed, "the server refused to "+string(d.Operation))
			return
		}
	}
	r.decide(id, Passed, "")
}

// checkOnce decides whether each sending was answered once: the server allows
// one message for each, and refuses the rest.
func (r *Rig) checkOnce(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ok := true
	for _, d := range r.denials {
		ok = ok && (d.Operation != server.Publish || !strings.HasPrefix(d.Subject, replies))
	}
	count := map[subjects.Subject]int{}
	for _, h := range r.heard {
		if h.to.Kind == subjects.KindReply {
			count[h.to]++
			ok = ok && count[h.to] == 1
		}
	}
	if ok {
		r.decide(id, Passed, "")
	} else {
		r.decide(id, Failed, "something was answered twice")
	}
}

var replies = strings.TrimSuffix(subjects.All(subjects.KindReply), "*.*.>")

func fresh() string { return "c" + rand.Text() }
