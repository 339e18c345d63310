package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// stored is the newest record of the journal.
func (b *bench) stored(t *testing.T) uint64 {
	t.Helper()
	stream := must(b.js.Stream(t.Context(), jetstream.CommitStream))
	return stream.CachedInfo().State.LastSeq
}

// unacknowledged has the record stored that tell makes the gateway write, and not
// acknowledged.
func (b *bench) unacknowledged(t *testing.T, tell func()) {
	t.Helper()
	b.silent(t, true)
	before := b.stored(t)
	tell()
	eventually(t, "something is stored", func() bool { return b.stored(t) > before })
	b.silent(t, false)
}

// What the server tells of agents is recorded once, and what is counted too, also where
// the record was stored and nobody acknowledged it; and then it has its effect, as if it
// had been. So it is where a snapshot has that record already. Three subjects that are denied
// are also one suspicion.
//
// covers P11.1, P4.5, P4.7, P4.6, P16.2
func TestStoredEventsAreRecordedOnce(t *testing.T) {
	t.Parallel()
	for name, snapped := range map[string]bool{"read again": false, "in a snapshot": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			snapshots := jetstream.NewSnapshots(t.TempDir())
			kept := func(c *gateway.Config) { c.Snapshots = snapshots }
			g := b.start(t, kept)
			mailer, operator := b.agent(t, "mailer"), b.operator(t)
			alerts := operator.Listen(t, subjects.Alerts())
			g.wait(t, 2, of(bcp.KindConnect))

			var main *meshtest.Agent
			var recorded atomic.Int32
			for i, tell := range []func(){
				func() { main = b.agent(t, "main") },
				func() { process(g, "mailer", bcp.ProcessEnded, "exit status 1") },
				func() { g.Alert(bcp.AlertDiskLow, nil) },
				func() { g.Denied("mailer", bcp.RoleReader, "publish", "a", 3) },
				func() {
					g.Record(func(s *state.State, m bcp.Moment) bcp.Decision {
						return s.DecideCredential(m, bcp.CredentialRevoked, "mailer", "U", bcp.CredentialChange{})
					}, func() { recorded.Add(1) })
				},
			} {
				b.unacknowledged(t, tell)
				if snapped {
					b.follow(t, snapshots, kept)
				}
				g.Unwritten("the test says so")
				if err := pushUntilAccepted(mailer.Conn, fmt.Sprint("p", i)); err != nil { // behind what is decided again
					t.Fatal(err)
				}
			}
			alerts.NextOf(t, meshtest.With("alert", bcp.AlertDiskLow))
			expect(t, recorded.Load(), 1, "told that the revocation is recorded")
			left := make(chan []string, 1)
			g.Waiting("main", func(ids []string) { left <- ids })
			main.Close()
			next(t, left, "main is not connected any more")
			noError(t, g.Stop())
			j := b.journal(t)
			for kind, want := range map[bcp.DecisionKind]int{bcp.KindConnect: 3, bcp.KindProcess: 1, bcp.KindAlert: 2, bcp.KindViolation: 1, bcp.KindCredential: 1} {
				expect(t, j.Kinds[kind], want, "records of kind %v", kind)
			}
			failIf(t, !slices.IsSortedFunc(g.decisions, func(a, b bcp.Decision) int { return int(a.Seq) - int(b.Seq) }) || len(g.decisions) != j.Decisions,
				"told of %d decisions, of %d", len(g.decisions), j.Decisions)
		})
	}
}

// follow makes a snapshot of the whole journal.
func (b *bench) follow(t *testing.T, snapshots *jetstream.Snapshots, change func(*gateway.Config)) {
	t.Helper()
	before, _, err := snapshots.Newest()
	noError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	config := b.config()
	change(&config)
	go func() { defer close(ended); gateway.Follow(ctx, config) }()
	eventually(t, "there is a snapshot", func() bool { newest, _, err := snapshots.Newest(); return err == nil && newest > before })
	cancel()
	<-ended
}
