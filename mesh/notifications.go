package mesh

import (
	"context"
	"path/filepath"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/mesh/notify"
)

// newNotices returns a notifier, which has no routes yet.
func (m *Mesh) newNotices() (*notify.Notifier, error) {
	conn, err := m.connect()
	if err != nil {
		return nil, err
	}
	js, err := natsjs.New(conn)
	if err != nil {
		return nil, err
	}
	return notify.New(notify.Config{
		JS: js, Place: notify.Place{Folder: m.config.Folder, Environ: m.config.Environ}, Status: filepath.Join(m.config.State, notify.StatusFile),
		Items: m.items, Told: m.config.OnNotified, Logger: m.config.Logger.Named("notify"),
	}), nil
}

// cursorsInterval is how often the cursors of removed routes are looked for: a route that
// is added again later begins from scratch.
const cursorsInterval = 10 * time.Second

// dropCursors deletes the cursors of removed routes.
func (m *Mesh) dropCursors(ctx context.Context) {
	keep := map[string]bool{}
	for _, route := range m.Definition().Notify {
		keep[route.Name] = true
	}
	if err := notify.DropCursors(ctx, m.js, keep); err != nil && ctx.Err() == nil {
		m.config.Logger.Warn("notification routes that are gone are remembered", "error", err)
	}
}

// items returns the held items.
func (m *Mesh) items(ctx context.Context) (items []bcp.Item, err error) {
	err = m.gateway.Inspect(ctx, func(s *state.State) { items = s.Items() })
	return items, err
}
