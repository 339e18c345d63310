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
	// Storage returns how full the disk is.
	Storage() status.Storage
	// Shown is the newest decision that the projections show.
	Shown() uint64
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
	shown     uint64
}

// Describe implements [prometheus.Collector].
func (r *reading) Describe(to chan<- *prometheus.Desc) {
	for _, f := range families {
		if f.Type == Gauge && f != processRunning {
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
		put(connectedAgents, float64(r.connected[role]), role.String())
	}
	r.putStorage(put)
	if !r.up {
		return
	}
	s := &r.snapshot
	put(journalDecisions, float64(s.Decisions))
	put(projectedDecisions, float64(r.shown))
	if !s.Last.IsZero() {
		put(lastDecision, float64(s.Last.UnixNano())/float64(time.Second))
	}
	for i := range s.Channels {
		r.putChannel(put, &s.Channels[i])
	}
	for _, name := range s.Kernels {
		r.putHeld(put, bcp.ChannelKey{Controller: name}, bcp.RunItemKinds())
	}
	for _, c := range s.Controllers {
		put(sessionOpen, oneIf(c.Open), string(c.Controller))
	}
	for _, m := range s.Models {
		since := 0.0
		if m.Fault != "" {
			since = float64(m.Since.UnixNano()) / float64(time.Second)
		}
		put(modelFails, since, string(m.Agent), string(m.Fault))
	}
	for _, c := range s.Commands {
		put(agentUnavailable, oneIf(c.Unavailable), string(c.Agent))
	}
}

func (r *reading) putStorage(put func(*Family, float64, ...string)) {
	s := &r.storage
	put(storageUsed, float64(s.Used))
	put(storageLimit, float64(s.Limit))
	put(journalBytes, float64(s.Journal))
	put(journalLimit, float64(s.JournalLimit))
	put(journalRecords, float64(s.Records))
	put(journalBegins, float64(s.Begins))
	put(diskFree, float64(s.DiskFree))
	put(diskSize, float64(s.DiskSize))
	made := 0.0
	if !s.SnapshotMade.IsZero() {
		made = float64(s.SnapshotMade.UnixNano()) / float64(time.Second)
	}
	put(snapshotMade, made)
}

func (r *reading) putChannel(put func(*Family, float64, ...string), c *state.ChannelSnapshot) {
	controller, reader := string(c.Controller), string(c.Reader)
	show := func(f *Family, value float64) { put(f, value, controller, reader) }
	show(channelEpoch, float64(c.Epoch))
	show(channelBudget, inBits(c.Budget))
	show(channelLeft, inBits(c.Left))
	show(channelPushBudget, inBits(c.PushBudget))
	show(channelPushed, inBits(c.Pushed))
	if c.WindowBudget > 0 {
		show(channelWindow, inBits(c.WindowBudget))
		show(channelWindowLeft, inBits(c.WindowLeft))
	}
	if c.CapacityBudget > 0 {
		show(channelCapacity, inBits(c.CapacityBudget))
		show(channelCapacityLeft, inBits(c.CapacityLeft))
	}
	show(channelOpen, float64(c.OpenQueries))
	show(channelUndelivered, float64(c.Undelivered))
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
