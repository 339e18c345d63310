package notify

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Config configures a notifier.
type Config struct {
	// JS accesses the journal, over a different connection than the gateway's: nobody
	// waits for a notifier. It is required, like Items.
	JS natsjs.JetStream
	// Items returns the held items.
	Items func(context.Context) ([]bcp.Item, error)
	// Place is where to find secrets and commands.
	Place Place
	// Status is a file for the status of the routes ([ReadStatus]); empty for none.
	Status string
	// Told, if set, is called after each attempt to send a message; err says why it was
	// not taken. It must not block.
	Told func(route string, err error)
	// Logger, nil discards.
	Logger hclog.Logger
}

// Notifier notifies people, by the routes of the definitions in use, until Stop. Its
// methods may be used concurrently, and never wait for a route.
type Notifier struct {
	config Config
	status *statusFile

	mu      sync.Mutex
	def     *bcp.Mesh
	routes  map[string]*sender
	seen    map[bcp.ItemID]map[bcp.AgentName]bool // who has viewed which held item
	stopped bool
}

// New returns a notifier without definitions.
func New(config Config) *Notifier {
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	return &Notifier{config: config, status: newStatusFile(config.Status, config.Logger), routes: map[string]*sender{}, seen: map[bcp.ItemID]map[bcp.AgentName]bool{}}
}

// Use switches to other definitions. A removed route ends at once, even in the middle of
// a message.
func (n *Notifier) Use(def *bcp.Mesh) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return
	}
	n.def = def
	keep := map[string]bool{}
	for i := range def.Notify {
		route := def.Notify[i]
		keep[route.Name] = true
		before := n.routes[route.Name]
		if before != nil && reflect.DeepEqual(*before.route, route) {
			continue
		}
		n.routes[route.Name] = n.begin(&route, before)
	}
	for name, r := range n.routes {
		if !keep[name] {
			r.cancel()
			delete(n.routes, name)
			n.status.forget(name)
		}
	}
}

// begin runs a route once the sender before it, if any, has ended.
func (n *Notifier) begin(route *bcp.Route, before *sender) *sender {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sender{notifier: n, route: route, wake: make(chan struct{}, 1), urgent: make(chan bcp.Alert, maxUrgent), cancel: cancel, done: make(chan struct{}),
		log: n.config.Logger.With("route", route.Name), told: map[uint64]bool{}}
	go func() {
		defer close(s.done)
		if before != nil {
			before.cancel()
			<-before.done
		}
		s.run(ctx)
	}()
	return s
}

// Observe gets each stored decision.
func (n *Notifier) Observe(d *bcp.Decision) {
	if _, ok := d.Alert(); !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.routes {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// Unrecorded gets an alert that is not in the journal: it is retried as long as this
// process runs, and once more when it ends.
func (n *Notifier) Unrecorded(a bcp.Alert) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.routes {
		select {
		case r.urgent <- a:
		default: // there is enough to wake somebody
		}
	}
}

// Seen says that a person has viewed a held item: it is not repeated to that person, nor
// on routes without a person.
func (n *Notifier) Seen(person bcp.AgentName, item bcp.ItemID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.routes) == 0 {
		return
	}
	if len(n.seen) >= maxSeen {
		clear(n.seen)
	}
	if n.seen[item] == nil {
		n.seen[item] = map[bcp.AgentName]bool{}
	}
	n.seen[item][person] = true
}

// hasSeen reports whether a route need not repeat an item.
func (n *Notifier) hasSeen(person bcp.AgentName, item bcp.ItemID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	by := n.seen[item]
	return by[person] || person == "" && len(by) > 0
}

func (n *Notifier) definition() *bcp.Mesh {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.def
}

// Stop ends it. What is not sent by then is sent at the next start.
func (n *Notifier) Stop() {
	n.mu.Lock()
	n.stopped = true
	routes := n.routes
	n.routes = map[string]*sender{}
	n.mu.Unlock()
	for _, r := range routes {
		r.cancel()
	}
	for _, r := range routes {
		<-r.done
	}
}

// Send sends one message by a route, once. The logger gets the output of a command;
// nil discards it.
func Send(ctx context.Context, route *bcp.Route, place Place, m *Message, logger hclog.Logger) error {
	switch {
	case !route.Webhook.IsZero():
		return post(ctx, route, place, m)
	case route.MailServer != "":
		return mail(ctx, route, place, m, time.Now())
	case len(route.Command) > 0:
		if logger == nil {
			logger = hclog.NewNullLogger()
		}
		return run(ctx, route, place, m, logger)
	}
	return failure("the route has no way out")
}

// Test returns a message for testing a route.
func Test(def *bcp.Mesh, route *bcp.Route, now time.Time) Message {
	return newMessage(def, route, []Notice{{
		ID: fmt.Sprintf("%s.test.%d", def.Name, now.UnixNano()), Kind: "test", Severity: bcp.SeverityInfo, Time: now.UTC(),
		Says: "this is a test of the notification route " + route.Name,
	}})
}

// Reason is why a message was not taken, in our words.
func Reason(err error) string {
	var f failure
	if errors.As(err, &f) {
		return string(f)
	}
	return "it failed"
}
