package gateway_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// A gateway tries again whose first record is not stored, or whom nobody answers who
// reads the journal, and starts when that is over. It does not where the journal is full.
//
// covers P11.1
func TestStartIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*natsjs.StreamConfig){
		"not stored":   func(c *natsjs.StreamConfig) { c.MaxMsgSize = 1 },
		"not answered": func(c *natsjs.StreamConfig) { c.AllowDirect = false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			triedAgain(t, change)
		})
	}
}

func triedAgain(t *testing.T, change func(*natsjs.StreamConfig)) {
	b := newBench(t)
	b.start(t).Stop()
	stream, err := b.js.Stream(t.Context(), jetstream.CommitStream)
	if err != nil {
		t.Fatal(err)
	}
	whole := stream.CachedInfo().Config
	refusing := whole
	change(&refusing)
	if _, err := b.js.UpdateStream(t.Context(), refusing); err != nil {
		t.Fatal(err)
	}
	type result struct {
		*running
		err error
	}
	started := make(chan result, 1)
	go func() {
		r, err := b.tryStart(t)
		started <- result{r, err}
	}()
	for end := time.Now().Add(meshtest.Patience); !strings.Contains(b.log.String(), "trying again"); time.Sleep(time.Millisecond) {
		if len(started) > 0 || time.Now().After(end) {
			t.Fatal("it does not try again")
		}
	}
	if _, err := b.js.UpdateStream(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	r := <-started
	if r.err != nil {
		t.Fatal(r.err)
	}
	r.wait(t, 1, meshtest.Of(bcp.KindStart))
	if err := r.Stop(); err != nil {
		t.Error(err)
	}

	tries := strings.Count(b.log.String(), "trying again")
	full := whole
	full.MaxBytes = int64(stream.CachedInfo().State.Bytes)
	if _, err := b.js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tryStart(t); !errors.Is(err, jetstream.ErrFull) || !errors.Is(err, jetstream.ErrUncertain) {
		t.Errorf("on a full journal: %v", err)
	}
	if n := strings.Count(b.log.String(), "trying again"); n != tries {
		t.Errorf("on a full journal it has tried again %d times", n-tries)
	}
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
	for end := time.Now().Add(meshtest.Patience); !strings.Contains(b.log.String(), "trying again"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not try again")
		}
		if len(started) > 0 {
			t.Fatal(<-started)
		}
	}
	b.createStreams(t)
	if err := <-started; err != nil {
		t.Error(err)
	}
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
	for end := time.Now().Add(meshtest.Patience); again.Load() < lost.Load()+1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not tried again")
		}
	}
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
}
