package jetstream

import (
	"context"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// The streams of a mesh. Agents hold no permission on any of them.
const (
	CommitStream    = "BCP_COMMIT"
	RawStream       = "BCP_RAW"
	AuditStream     = "BCP_AUDIT"
	LedgerStream    = "BCP_LEDGER"
	ValidatedStream = "BCP_VALIDATED"
)

// Topology is what the streams of a mesh depend on.
type Topology struct {
	Replicas     int           // 1, or 3 on a cluster
	RawRetention time.Duration // how long raw answers are kept
}

// Create makes the streams, or brings them to this topology. It is safe to
// call at every start; it never deletes a message.
func Create(ctx context.Context, js natsjs.JetStream, t Topology) error {
	for _, c := range t.streams() {
		if _, err := js.CreateOrUpdateStream(ctx, c); err != nil {
			return fmt.Errorf("making stream %s: %w", c.Name, err)
		}
	}
	return nil
}

func (t Topology) streams() []natsjs.StreamConfig {
	stream := func(name, filter string) natsjs.StreamConfig {
		return natsjs.StreamConfig{
			Name: name, Subjects: []string{filter}, Storage: natsjs.FileStorage, Replicas: t.Replicas,
			Retention: natsjs.LimitsPolicy, Discard: natsjs.DiscardNew, AllowDirect: true,
		}
	}
	commit := stream(CommitStream, subjects.All(subjects.KindCommit))
	commit.DenyDelete, commit.DenyPurge = true, true
	raw := stream(RawStream, subjects.All(subjects.KindRaw))
	raw.MaxAge, raw.AllowDirect = t.RawRetention, false
	streams := []natsjs.StreamConfig{commit, raw}
	for _, p := range projections {
		c := stream(p.stream, p.filter())
		if t.Replicas <= 1 {
			// A projection that loses its newest messages in a crash is
			// filled again from the journal.
			c.PersistMode = natsjs.AsyncPersistMode
		}
		streams = append(streams, c)
	}
	return streams
}
