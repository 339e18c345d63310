package mesh

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// tellingBus tells of the connections that it gives.
type tellingBus struct {
	*server.Server
	given chan *nats.Conn
}

func (b tellingBus) Gateway(options ...nats.Option) (*nats.Conn, error) {
	conn, err := b.Server.Gateway(options...)
	b.given <- conn
	return conn, err
}

// checkpointing is a mesh of which nothing runs but the server.
func checkpointing(t *testing.T) (m *Mesh, js natsjs.JetStream, given chan *nats.Conn) {
	t.Helper()
	def, report := definition.Parse(map[string][]byte{"desk.md": []byte("---\nname: desk\n---\n")})
	stopIf(t, def == nil, "%v", report.Errors)
	m = &Mesh{config: Config{Definition: def, State: t.TempDir(), Logger: hclog.NewNullLogger()}}
	m.definition.Store(def)
	store, bundle, err := Keys(m.config.State, def)
	noError(t, err)
	m.store = store
	running := must(server.Start(t.Context(), server.Config{StateDir: m.config.State, Bundle: bundle}))
	m.onStop(func() error { return running.Stop(context.Background()) })
	t.Cleanup(func() {
		err := m.Stop(context.Background())
		failIf(t, err != nil, "%v", err)
	})
	given = make(chan *nats.Conn, 2)
	m.server, m.bus = running, tellingBus{running, given}
	conn, err := m.connect()
	noError(t, err)
	<-given
	if js, err = natsjs.New(conn); err == nil {
		err = m.prepareCheckpoints(nil)
	}
	noError(t, err)
	return m, js, given
}

// A start waits for the journal while a server opens its streams again: where nobody answers who compares it with the
// newest checkpoint, and where it is not there yet.
//
// covers P11.1, P11.2, A-CRASH
func TestStartOfTheCheckpointsWaits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers uint64 // of a few attempts, saying that there is a journal which nobody reads, or that there is none
		away    func(t *testing.T, m *Mesh, js natsjs.JetStream) (back func())
	}{
		"unread": {20, func(t *testing.T, m *Mesh, js natsjs.JetStream) func() {
			noError(t, jetstream.Create(t.Context(), js, newTopology(m.Definition())))
			signBeginning(t, m.checkpoints, js, m.stateConfig(m.Definition()))
			whole := must(js.Stream(t.Context(), jetstream.CommitStream)).CachedInfo().Config
			silent := whole
			silent.AllowDirect = false
			must(js.UpdateStream(t.Context(), silent))
			return func() { must(js.UpdateStream(t.Context(), whole)) }
		}},
		"not there": {3, func(t *testing.T, m *Mesh, js natsjs.JetStream) func() {
			return func() { noError(t, jetstream.Create(t.Context(), js, newTopology(m.Definition()))) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, js, given := checkpointing(t)
			back := tt.away(t, m, js)
			started := make(chan error, 1)
			go func() { started <- m.checkpoints.start(t.Context(), m) }()
			own := <-given
			for end := time.Now().Add(answerPatience); own.Stats().InMsgs < tt.answers; time.Sleep(time.Millisecond) {
				stopIf(t, len(started) > 0 || time.Now().After(end), "it does not ask again")
			}
			back()
			noError(t, <-started)
		})
	}
}

// answerPatience is less than a start waits.
const answerPatience = 20 * time.Second

// signBeginning writes the first record of a journal, and a checkpoint of it.
func signBeginning(t *testing.T, c *checkpoints, js natsjs.JetStream, config state.Config) {
	t.Helper()
	state := must(state.New(config))
	start := state.DecideStart(bcp.Moment{Now: time.Now(), Fresh: "START"}, "test")
	record := must(bcp.EncodeDecision(&start))
	journal, err := jetstream.OpenJournal(t.Context(), js)
	if err == nil {
		err = journal.Replay(t.Context(), func([]byte) error { return nil })
	}
	if err == nil {
		err = journal.Append(t.Context(), [][]byte{record})
	}
	noError(t, err)
	next, err := c.tree.Extend(t.Context(), jetstream.JournalRecords(js, false), jetstream.Position{})
	if err == nil {
		err = c.tree.Sign(next, c.key)
	}
	noError(t, err)
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) T { return bcptest.Must(v, err) }
