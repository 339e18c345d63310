package gateway_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A gateway tries again whose first record is not stored, or whom nobody answers who
// reads the journal, and starts when that is over. It does not where the journal is full.
//
// covers P11.1
func TestStartIsTriedAgain(t *testing.T) {
	t.Parallel()
	t.Run("not stored", func(t *testing.T) { t.Parallel(); triedAgain(t, func(c *natsjs.StreamConfig) { c.MaxMsgSize = 1 }) })
	t.Run("not answered", func(t *testing.T) {
		t.Parallel()
		triedAgain(t, func(c *natsjs.StreamConfig) { c.AllowDirect = false })
	})
}

func triedAgain(t *testing.T, change func(*natsjs.StreamConfig)) {
	b := newBench(t)
	b.start(t).Stop()
	stream := must(b.js.Stream(t.Context(), jetstream.CommitStream))
	whole := stream.CachedInfo().Config
	refusing := whole
	change(&refusing)
	must(b.js.UpdateStream(t.Context(), refusing))
	type result struct {
		*running
		err error
	}
	started := make(chan result, 1)
	go func() {
		r, err := b.tryStart(t)
		started <- result{r, err}
	}()
	eventually(t, "trying again", func() bool { return len(started) > 0 || strings.Contains(b.log.String(), "trying again") })
	expect(t, len(started), 0, "starts that ended")
	must(b.js.UpdateStream(t.Context(), whole))
	r := <-started
	stopIf(t, r.err != nil, "%v", r.err)
	r.wait(t, 1, meshtest.Of(bcp.KindStart))
	noError(t, r.Stop())

	tries := strings.Count(b.log.String(), "trying again")
	full := whole
	full.MaxBytes = int64(stream.CachedInfo().State.Bytes)
	must(b.js.UpdateStream(t.Context(), full))
	_, err := b.tryStart(t)
	failIf(t, !errors.Is(err, jetstream.ErrFull) || !errors.Is(err, jetstream.ErrUncertain), "on a full journal: %v", err)
	expect(t, strings.Count(b.log.String(), "trying again"), tries, "tries, also on a full journal")
}

// A server that opens its streams again does not have the journal yet: a gateway that
// starts in this moment waits for it.
//
// covers P11.1, A-CRASH
func TestStartAwaitsTheJournal(t *testing.T) {
	t.Parallel()
	b := emptyBench(t)
	started := make(chan error, 1)
	go func() {
		r, err := b.tryStart(t)
		if err == nil {
			err = r.Stop()
		}
		started <- err
	}()
	eventually(t, "trying again", func() bool { return len(started) > 0 || strings.Contains(b.log.String(), "trying again") })
	expect(t, len(started), 0, "starts that ended")
	b.createStreams(t)
	noError(t, <-started)
}

// What a start from a snapshot did not read of the journal is read behind it, and again
// where nobody answered.
//
// covers P11.1, P11.2
func TestJournalIsCheckedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	snapshots := jetstream.NewSnapshots(t.TempDir())
	var lost atomic.Int32 // the connection of which number is
	begin := func() (*running, *atomic.Int32) {
		var connections atomic.Int32
		return b.start(t, func(c *gateway.Config) {
			connect := c.Connect
			c.Cluster = true // else it is checked before
			c.Snapshots, c.Connect = snapshots, func() (*nats.Conn, error) {
				conn, err := connect()
				if err == nil && connections.Add(1) == lost.Load() {
					conn.Close()
				}
				return conn, err
			}
		}), &connections
	}
	first, connections := begin()
	if err := first.Stop(); err != nil { // and leaves a snapshot
		t.Fatal(err)
	}
	lost.Store(connections.Load() + 1) // the one behind those of the agents
	second, again := begin()
	eventually(t, "it is tried again", func() bool { return again.Load() > lost.Load() })
	noError(t, second.Stop())
}

// damaged writes a journal whose first decision is not the one that a snapshot, and all
// behind it, were made of.
func (b *bench) damaged(t *testing.T, snapshots *jetstream.Snapshots) {
	t.Helper()
	state := must(state.New(b.config().State))
	start := func(fresh string) (bcp.Decision, []byte) {
		t.Helper()
		d := state.DecideStart(bcp.Moment{Now: time.Now(), Fresh: fresh, Salt: [16]byte{1}}, fresh)
		record := must(bcp.EncodeDecision(&d))
		return d, record
	}
	_, other := start("OTHER")
	var records [][]byte
	for _, fresh := range []string{"FIRST", "SECOND"} {
		d, record := start(fresh)
		noError(t, state.Apply(&d, bcp.RecordDigest(record)))
		records = append(records, record)
	}
	journal := must(jetstream.OpenJournal(t.Context(), b.js))
	for _, record := range [][]byte{other, records[1]} {
		noError(t, journal.Append(t.Context(), [][]byte{record}))
	}
	checkpoint := must(state.Checkpoint())
	position := jetstream.Position{Sequence: 2, Decision: 2, Head: state.Head()}
	noError(t, snapshots.Write(jetstream.Snapshot{Position: position, Checkpoint: checkpoint}))
}

// A journal that is damaged in front of a snapshot is refused before anybody is served, and
// nothing is written to it.
//
// covers P11.1, P11.2, A-CHAIN
func TestDamageInFrontOfASnapshotIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	snapshots := jetstream.NewSnapshots(t.TempDir())
	b.damaged(t, snapshots)
	_, err := b.tryStart(t, func(c *gateway.Config) { c.Snapshots = snapshots })
	failIf(t, !errors.Is(err, jetstream.ErrRecord) || !strings.Contains(err.Error(), "decision 2 does not follow decision 1"),
		"it starts: %v", err)
	expect(t, b.stored(t), 2, "records")
}

// Where that is found only while the gateway serves, it ends at once and says which
// decisions it has released, to people too; nobody starts from that snapshot again.
//
// covers P11.1, P11.2, P4.6, A-CHAIN
func TestDamageThatIsFoundLate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	snapshots := jetstream.NewSnapshots(t.TempDir())
	b.damaged(t, snapshots)
	var connections atomic.Int32
	look := make(chan struct{})
	g := b.start(t, func(c *gateway.Config) {
		connect := c.Connect
		c.Cluster, c.Snapshots, c.Connect = true, snapshots, func() (*nats.Conn, error) {
			if connections.Add(1) > int32(3+len(b.definition.Approvers)) { // behind those of main, mailer and people
				<-look
			}
			return connect()
		}
	})
	mailer, operator := b.agent(t, "mailer"), b.operator(t)
	alerts := operator.Listen(t, subjects.Alerts())
	g.wait(t, 2, of(bcp.KindConnect))
	for range 3 {
		succeeded(t, mailer.Request(t, pushAlert, alert("")))
	}
	close(look)
	next(t, g.Done(), "it ends")
	err := g.Stop()
	last := g.decisions[len(g.decisions)-1].Seq
	if want := fmt.Sprintf("decisions 4 to %d were released since it began to serve at ", last); !errors.Is(err, jetstream.ErrRecord) || !strings.Contains(err.Error(), want) {
		t.Errorf("it ends with %v, and not with %s", err, want)
	}
	told := alerts.NextOf(t, meshtest.With("alert", bcp.AlertDamaged))
	failIf(t, told.Fields["seq"] != float64(last) || told.Fields["count"] != float64(last-3), "people hear %s", told.JSON)
	names, err := snapshots.List()
	failIf(t, err != nil || len(names) > 0, "snapshots are left: %v, %v", names, err)
	_, err = b.tryStart(t, func(c *gateway.Config) { c.Cluster, c.Snapshots = true, snapshots })
	failIf(t, !errors.Is(err, state.ErrReplay), "the next one starts: %v", err)
}
