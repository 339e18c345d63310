package mesh

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

const (
	// measureInterval is how old the figures of [Mesh.Storage] may be.
	measureInterval = 10 * time.Second
	// measureTimeout bounds one look at the streams.
	measureTimeout = 5 * time.Second
)

// Storage returns how full the disk is, at most a few seconds old.
func (m *Mesh) Storage() status.Storage {
	s := status.Storage{Limit: m.config.Definition.MaxDisk}
	if measured := m.storage.Load(); measured != nil {
		s = *measured
	}
	s.Shown = m.Shown()
	return s
}

// storageNow is Storage, measured now if the streams respond.
func (m *Mesh) storageNow(ctx context.Context) status.Storage {
	if err := m.measure(ctx); err != nil && ctx.Err() == nil {
		m.config.Logger.Warn("measuring the disk", "error", err)
	}
	return m.Storage()
}

// tellStorage is storageNow on the operator's request.
func (m *Mesh) tellStorage(ctx context.Context, _ []byte) (any, error) {
	s := m.storageNow(ctx)
	s.Closed = m.gateway.ClosedBy()
	return s, m.gateway.Inspect(ctx, func(now *state.State) { s.Decisions = now.Last() })
}

func (m *Mesh) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	s, err := jetstream.Measure(ctx, m.js)
	if err != nil {
		return err
	}
	s.Limit = m.config.Definition.MaxDisk
	var disk, snapshot error
	s.DiskFree, s.DiskSize, disk = m.disk()
	s.Snapshot, s.SnapshotMade, snapshot = openSnapshots(m.config.State).Newest()
	m.storage.Store(&s)
	return errors.Join(disk, snapshot)
}

// watchStorage measures until the mesh stops, and has the gateway record an alert
// each time the disk is fuller than at the last alert.
func (m *Mesh) watchStorage() {
	var told bcp.AlertKind
	look := func(ctx context.Context) {
		now := m.storageNow(ctx).Alert()
		if isWorse(told, now) {
			m.gateway.Alert(now, nil)
		}
		told = now
	}
	if m.clustered() { // nobody waits for the first
		m.nowAndEvery(measureInterval, look)
		return
	}
	look(context.Background())
	m.runEvery(measureInterval, look)
}

// isWorse reports whether now is an alert that before did not cover.
func isWorse(before, now bcp.AlertKind) bool {
	return now != "" && now != before && before != bcp.AlertDiskCritical
}
