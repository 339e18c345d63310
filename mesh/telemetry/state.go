package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// Source is the source of a scrape, such as [github.com/bcpmesh/bcpmesh/mesh.Mesh].
type Source interface {
	// Inspect has f called with the gateway's state, between two steps.
	Inspect(ctx context.Context, f func(*state.State)) error
	// Connected counts who is connected, by role.
	Connected() map[bcp.Role]int
	// Storage returns how full the disk is, and what the projections show.
	Storage() status.Storage
}

// readSnapshot asks the gateway; the error says why it does not answer.
func readSnapshot(ctx context.Context, source Source) (state.Snapshot, error) {
	var snapshot state.Snapshot
	err := source.Inspect(ctx, func(s *state.State) { snapshot = s.Snapshot(time.Now()) })
	if err != nil {
		return state.Snapshot{}, err // it may be written yet
	}
	return snapshot, nil
}

// reading is the data of one scrape.
type reading struct {
	now       time.Time
	up        bool
	snapshot  state.Snapshot
	connected map[bcp.Role]int
	storage   status.Storage
}

// Describe implements [prometheus.Collector].
func (r *reading) Describe(to chan<- *prometheus.Desc) {
	for _, f := range families {
		if f.Type == Gauge {
			to <- f.desc
		}
	}
}

// Collect implements [prometheus.Collector].
func (r *reading) Collect(to chan<- prometheus.Metric) {
	put := func(f *Family, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, value, labels...)
	}
	put(gatewayUp, oneIf(r.up))
	for _, role := range roles {
		put(connected, float64(r.connected[role]), role.String())
	}
	r.putStorage(put)
	if !r.up {
		return
	}
	s := &r.snapshot
	put(journal, float64(s.Decisions), "decisions")
	put(journal, float64(r.storage.Shown), "projected")
	if !s.Last.IsZero() {
		put(timestamps, seconds(s.Last.UnixNano()), "last_decision")
	}
	for i := range s.Channels {
		r.putChannel(put, &s.Channels[i])
	}
	for _, name := range s.Kernels {
		r.putHeld(put, bcp.ChannelKey{Controller: name}, bcp.RunItemKinds())
	}
	for controller, open := range s.Sessions {
		put(sessionOpen, oneIf(open), string(controller))
	}
	for agent, m := range s.Models {
		since := 0.0
		if m.Fault != "" {
			since = seconds(m.Since.UnixNano())
		}
		put(modelFails, since, string(agent), string(m.Fault))
	}
	for agent, away := range s.Unavailable {
		put(unavailable, oneIf(away), string(agent))
	}
}

func (r *reading) putStorage(put func(*Family, float64, ...string)) {
	s := &r.storage
	for kind, bytes := range map[string]int64{"used": s.Used, "limit": s.Limit, "journal": s.Journal, "journal_limit": s.JournalLimit, "disk_free": s.DiskFree, "disk_size": s.DiskSize} {
		put(storageBytes, float64(bytes), kind)
	}
	put(journal, float64(s.Records), "records")
	put(journal, float64(s.Begins), "begins_behind")
	made := 0.0
	if !s.SnapshotMade.IsZero() {
		made = seconds(s.SnapshotMade.UnixNano())
	}
	put(timestamps, made, "snapshot")
}

func (r *reading) putChannel(put func(*Family, float64, ...string), c *state.ChannelSnapshot) {
	controller, reader := string(c.Controller), string(c.Reader)
	for _, b := range []struct {
		budget      string
		has         bool
		limit, left bcp.Bits
	}{{"nominal", true, c.Budget, c.Left}, {"push", true, c.PushBudget, c.PushBudget - c.Pushed},
		{"window", c.WindowBudget > 0, c.WindowBudget, c.WindowLeft}, {"capacity", c.CapacityBudget > 0, c.CapacityBudget, c.CapacityLeft}} {
		if b.has {
			put(channelBits, inBits(b.limit), controller, reader, b.budget, "limit")
			put(channelBits, inBits(b.left), controller, reader, b.budget, "left")
		}
	}
	put(channelEpoch, float64(c.Epoch), controller, reader)
	put(channelOpen, float64(c.OpenQueries), controller, reader, "queries")
	put(channelOpen, float64(c.Undelivered), controller, reader, "deliveries")
	r.putHeld(put, c.ChannelKey, bcp.ChannelItemKinds())
}

func (r *reading) putHeld(put func(*Family, float64, ...string), key bcp.ChannelKey, kinds []bcp.ItemKind) {
	for _, kind := range kinds {
		held, age := r.snapshot.Held[state.HeldKey{ChannelKey: key, Kind: kind}], 0.0
		if held.Items > 0 {
			age = max(0, r.now.Sub(held.Oldest).Seconds())
		}
		put(heldItems, float64(held.Items), string(key.Controller), string(key.Reader), string(kind))
		put(heldAge, age, string(key.Controller), string(key.Reader), string(kind))
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
