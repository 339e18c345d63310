package mesh

import (
	"context"
	"path/filepath"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/mesh/notify"
)

// newNotices returns a notifier, which has no routes before [Mesh.useNotices].
func (m *Mesh) newNotices() (*notify.Notifier, error) {
	conn, err := m.connect()
	if err != nil {
		return nil, err
	}
	js, err := natsjs.New(conn)
	if err != nil {
		return nil, err
	}
	m.tidy = make(chan struct{}, 1)
	return notify.New(notify.Config{
		JS: js, Place: notify.Place{Folder: m.config.Folder, Environ: m.config.Environ}, Status: filepath.Join(m.config.State, notify.StatusFile),
		Items: m.items, Told: m.config.OnNotified, Logger: m.config.Logger.Named("notify"),
	}), nil
}

// useNotices switches to the routes of definitions once the gateway runs.
func (m *Mesh) useNotices(def *bcp.Mesh) {
	m.notices.Use(def)
	select {
	case m.tidy <- struct{}{}:
	default:
	}
}

// dropCursors deletes the cursors of removed routes: a route that is added again begins
// from scratch.
func (m *Mesh) dropCursors(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.tidy:
		}
		for {
			keep := map[string]bool{}
			for _, route := range m.Definition().Notify {
				keep[route.Name] = true
			}
			err := notify.DropCursors(ctx, m.js, keep)
			if err == nil || ctx.Err() != nil {
				break
			}
			m.config.Logger.Warn("notification routes that are gone are remembered", "error", err)
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
