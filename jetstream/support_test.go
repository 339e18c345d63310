package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func TestMain(m *testing.M) {
	bcptest.LeaveOut(
		"TestReadingWhileANodeStandsStill", "TestProjectorIsLateAtMost", "TestLeaseHasOneHolder",
	)
	bcptest.Parallel(8)
	goleak.VerifyTestMain(m)
}

const patience = 45 * time.Second

// streams runs a server without accounts, where a test may do anything, and
// makes the streams on it.
func streams(t testing.TB) natsjs.JetStream {
	t.Helper()
	js := connect(t, startServer(t).ClientURL())
	create(t, js)
	return js
}

// startServer runs one that lets as much wait for a client as a mesh's.
func startServer(t testing.TB) *natsserver.Server {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		NoSigs: true, NoLog: true, MaxPending: 16 << 20})
	noError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	stopIf(t, !s.ReadyForConnections(patience), "the server is not ready")
	return s
}

func connect(t testing.TB, url string, options ...nats.Option) natsjs.JetStream {
	t.Helper()
	conn := must(nats.Connect(url, append([]nats.Option{nats.Timeout(patience)}, options...)...))(t)
	t.Cleanup(conn.Close)
	return must(natsjs.New(conn))(t)
}

func create(t testing.TB, js natsjs.JetStream) {
	t.Helper()
	noError(t, jetstream.Create(t.Context(), js, jetstream.Topology{Replicas: 1}))
	_, err := js.Publish(t.Context(), subjects.Key("main", "mailer", subjects.SealedPayload, makerDay), makerSecret[:], natsjs.WithExpectLastSequencePerSubject(0))
	var api *natsjs.APIError
	if err != nil && !(errors.As(err, &api) && api.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequence) { // made again
		t.Fatal(err)
	}
}

// What makers make is sealed under one key, which the streams have.
var makerSecret = [32]byte{7}

const makerDay = "2026-03-15"

func makerKey(t testing.TB) bcp.SealingKey {
	t.Helper()
	return must(bcp.NewSealingKey(makerSecret))(t)
}

// open opens the journal and replays it into records.
func open(t testing.TB, js natsjs.JetStream) (*jetstream.Journal, [][]byte) {
	t.Helper()
	j := must(jetstream.OpenJournal(t.Context(), js))(t)
	var records [][]byte
	noError(t, j.Replay(t.Context(), func(b []byte) error { records = append(records, b); return nil }))
	return j, records
}

// journaled is a new journal, and who makes its decisions.
func journaled(t testing.TB) (natsjs.JetStream, *jetstream.Journal, *maker) {
	t.Helper()
	js := streams(t)
	j, _ := open(t, js)
	return js, j, newMaker(t)
}

// maker makes the decisions of a mesh without a gateway.
type maker struct {
	t     testing.TB
	state *state.State
	n     int
	now   time.Time
}

// newMaker makes a mesh of main and readers, of mailer alone where none are named.
func newMaker(t testing.TB, readers ...bcp.AgentName) *maker {
	t.Helper()
	if len(readers) == 0 {
		readers = []bcp.AgentName{"mailer"}
	}
	files := map[string]string{"mesh.yaml": "max_refusals: 6000/m\n"}
	var channels strings.Builder
	for _, reader := range readers {
		fmt.Fprintf(&channels, "  - peer: %s\n    role: controller\n    max_category: 2\n    budget_bits: 100000\n"+
			"    subscriptions: [{id: alerts, category: 1, fields: [{name: n, type: integer, min: 0, max: 1023}]}]\n", reader)
		files[string(reader)+".md"] = fmt.Sprintf("---\nname: %s\nbcp_channels: [{peer: main, role: reader}]\n---\n", reader)
	}
	files["main.md"] = "---\nname: main\nbcp_channels:\n" + channels.String() + "---\n"
	definition := meshtest.Parse(t, files)
	state := must(state.New(state.Config{Mesh: definition, Version: "test"}))(t)
	return &maker{t: t, state: state, now: time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)}
}

func (m *maker) moment() bcp.Moment {
	m.n++
	m.now = m.now.Add(time.Millisecond)
	return bcp.Moment{Now: m.now, Fresh: fmt.Sprintf("%026d", m.n), Salt: [16]byte{1, byte(m.n), byte(m.n >> 8)}}
}

// apply encodes a decision and moves on.
func (m *maker) apply(d bcp.Decision) []byte {
	m.t.Helper()
	if d.Says() {
		noError(m.t, d.Seal(makerKey(m.t)))
	}
	b := must(bcp.EncodeDecision(&d))(m.t)
	noError(m.t, m.state.Apply(&d, bcp.RecordDigest(b)))
	return b
}

// push makes an accepted push, and every other time the acknowledgement of its
// delivery, or an ask, or a refusal.
func (m *maker) next() []byte {
	m.t.Helper()
	switch m.n % 4 {
	case 0:
		text := meshtest.PushText("main", "alerts", fmt.Sprintf(`{"n":%d}`, m.n%1024), fmt.Sprintf(`,"push_id":"p%d"`, m.n))
		return m.apply(m.state.DecidePush(m.moment(), "mailer", "main", "alerts", []byte(text)))
	case 1:
		outbox := m.state.Outbox(bcp.ChannelKey{Controller: "main", Reader: "mailer"})
		d, ok := m.state.DecideAcknowledge(m.moment(), "main", bcp.RoleController, outbox[0].DeliveryID)
		stopIf(m.t, !ok, "nothing to acknowledge")
		return m.apply(d)
	case 2:
		text := fmt.Sprintf(`{"category":1,"fields":[{"name":"urgent","type":"boolean"}],"request_id":"r%d"}`, m.n)
		return m.apply(m.state.DecideAsk(m.moment(), "main", "mailer", []byte(text)))
	default:
		return m.apply(m.state.DecideEvent(m.moment(), bcp.Decision{Kind: bcp.KindConnect, Agent: "mailer", Role: bcp.RoleReader}))
	}
}

func (m *maker) some(n int) [][]byte {
	m.t.Helper()
	list := make([][]byte, n)
	for i := range list {
		list[i] = m.next()
	}
	return list
}

// pushes makes accepted pushes alone, of the readers in turns.
func (m *maker) pushes(n int, readers ...bcp.AgentName) [][]byte {
	m.t.Helper()
	list := make([][]byte, n)
	for i := range list {
		text := meshtest.PushText("main", "alerts", fmt.Sprintf(`{"n":%d}`, m.n%1024), fmt.Sprintf(`,"push_id":"p%d"`, m.n))
		reader := readers[m.n%len(readers)]
		d := m.state.DecidePush(m.moment(), reader, "main", "alerts", []byte(text))
		stopIf(m.t, !d.Accepted(), "%v", d.Code)
		list[i] = m.apply(d)
	}
	return list
}

func within(t testing.TB) context.Context { return bcptest.Within(t, patience) }

var noError, failIf, stopIf, fails = bcptest.NoError, bcptest.FailIf, bcptest.StopIf, bcptest.Fails

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }

// errorOf is the error of a call whose value does not matter.
func errorOf[T any](_ T, err error) error { return err }
