package mesh

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/notify"
)

// notifications are the routes of the definitions while a mesh runs. The notifier is made
// with the first route: a mesh without routes has no connection for them.
type notifications struct {
	mesh *Mesh
	log  hclog.Logger

	mu       sync.Mutex
	notifier *notify.Notifier
	ended    bool
	tidy     chan struct{} // capacity 1: routes may have been removed
}

func newNotifications(m *Mesh) *notifications {
	return &notifications{mesh: m, log: m.config.Logger.Named("notify"), tidy: make(chan struct{}, 1)}
}

// start begins to notify once the gateway runs.
func (n *notifications) start(def *bcp.Mesh) error {
	n.mesh.inBackground(n.dropCursors)
	n.mesh.onStop(func() error { n.stop(); return nil })
	return n.use(def)
}

// use switches to other definitions.
func (n *notifications) use(def *bcp.Mesh) error {
	defer func() {
		select {
		case n.tidy <- struct{}{}:
		default:
		}
	}()
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.ended || n.notifier == nil && len(def.Notify) == 0:
		return nil
	case n.notifier != nil:
		n.notifier.Use(def)
		return nil
	}
	m := n.mesh
	conn, err := m.connect()
	if err != nil {
		return err
	}
	js, err := natsjs.New(conn)
	if err != nil {
		return err
	}
	n.notifier = notify.Start(notify.Config{
		JS: js, Definition: def, Place: notify.Place{Folder: m.config.Folder, Environ: m.config.Environ}, Status: filepath.Join(m.config.State, notify.StatusFile),
		Items: m.items, Told: m.config.OnNotified, Logger: n.log,
	})
	return nil
}

func (n *notifications) stop() {
	n.mu.Lock()
	notifier := n.notifier
	n.notifier, n.ended = nil, true
	n.mu.Unlock()
	if notifier != nil {
		notifier.Stop()
	}
}

func (n *notifications) current() *notify.Notifier {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.notifier
}

// observe gets each decision. It does not block.
func (n *notifications) observe(d *bcp.Decision) {
	if notifier := n.current(); notifier != nil {
		notifier.Observe(d)
	}
}

// unrecorded gets an alert that is not in the journal. It does not block.
func (n *notifications) unrecorded(a bcp.Alert) {
	if notifier := n.current(); notifier != nil {
		notifier.Unrecorded(a)
	}
}

// seen notes that a person has looked at a held item.
func (n *notifications) seen(person bcp.AgentName, item bcp.ItemID) {
	if notifier := n.current(); notifier != nil {
		notifier.Seen(person, item)
	}
}

// dropCursors deletes the cursors of removed routes: a route that is added again begins
// from scratch.
func (n *notifications) dropCursors(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.tidy:
		}
		for {
			keep := map[string]bool{}
			for _, route := range n.mesh.Definition().Notify {
				keep[route.Name] = true
			}
			err := jetstream.DropCursors(ctx, n.mesh.js, keep)
			if err == nil || ctx.Err() != nil {
				break
			}
			n.log.Warn("routes that are gone are remembered", "error", err)
			if !sleep(ctx, termPause) {
				return
			}
		}
	}
}

// items returns the held items.
func (m *Mesh) items(ctx context.Context) (items []bcp.Item, err error) {
	err = m.gateway.Inspect(ctx, func(s *state.State) { items = s.Items() })
	return items, err
}
