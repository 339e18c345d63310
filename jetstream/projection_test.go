package jetstream_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// run runs a projector until the returned function ends it.
func run(t testing.TB, js natsjs.JetStream) (stop func()) {
	t.Helper()
	return runAsking(t, js, new(jetstream.Interrupter))
}

func runAsking(t testing.TB, js natsjs.JetStream, asking *jetstream.Interrupter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		jetstream.NewProjector(js, jetstream.Topology{Replicas: 1}, asking, nil).Run(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func projected(t testing.TB, js natsjs.JetStream, seq uint64) {
	t.Helper()
	noError(t, jetstream.Projected(within(t), js, seq))
}

// project runs a projector until a decision shows.
func project(t testing.TB, js natsjs.JetStream, seq uint64) {
	t.Helper()
	stop := run(t, js)
	projected(t, js, seq)
	stop()
}

// contents are the messages of the audit and the lines of the ledger, in short.
func contents(t *testing.T, js natsjs.JetStream) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, m := range meshtest.ReadStream(t, js, jetstream.AuditStream) {
		all[jetstream.AuditStream] = append(all[jetstream.AuditStream], fmt.Sprintf("%s %s %x", m.Header.Get("Bcp-Decision"), m.Subject, m.Data))
	}
	for _, line := range ledgerLines(t, js) {
		all[jetstream.LedgerStream] = append(all[jetstream.LedgerStream], fmt.Sprintf("%+v", line))
	}
	return all
}

// ledgerLines are all lines, message by message.
func ledgerLines(t *testing.T, js natsjs.JetStream) (lines []bcp.LedgerLine) {
	t.Helper()
	for _, m := range meshtest.ReadStream(t, js, jetstream.LedgerStream) {
		of := must(bcp.DecodeLedgerLines(m.Data))(t)
		for _, line := range of {
			want := subjects.Ledger(line.Controller, line.Reader)
			stopIf(t, m.Subject != want, "%s has a line of %s", m.Subject, want)
		}
		lines = append(lines, of...)
	}
	return lines
}

// Whatever happens to a projection, the journal fills it again, with each
// message once and in order.
//
// covers P11.1, P4.5, BCP-145, BCP-170, BCP-171, BCP-172
func TestProjectionsFollowTheJournal(t *testing.T) {
	t.Parallel()
	whole := streams(t)
	m := newMaker(t)
	j, _ := open(t, whole)
	var records [][]byte
	for range 20 {
		batch := m.some(20)
		records = append(records, batch...)
		noError(t, j.Append(within(t), batch))
	}
	last := uint64(len(records))
	run(t, whole)
	projected(t, whole, last)
	want := contents(t, whole)
	stopIf(t, len(want[jetstream.AuditStream]) != len(records) || len(want[jetstream.LedgerStream]) != 200,
		"%d and %d messages", len(want[jetstream.AuditStream]), len(want[jetstream.LedgerStream]))
	audit := meshtest.ReadStream(t, whole, jetstream.AuditStream)
	for i, message := range audit {
		d, err := bcp.DecodeDecision(message.Data)
		stopIf(t, err != nil || d.Seq != uint64(i+1) || d.Spec != nil || d.Payload != nil || d.Client != "" || d.Salt != [16]byte{},
			"audit record %d: %+v, %v", i+1, d, err)
	}
	ledger := ledgerLines(t, whole)
	line := ledger[len(ledger)-1]
	_, balance, _ := m.state.Balance(bcp.ChannelKey{Controller: "main", Reader: "mailer"})
	failIf(t, line.Balance != balance, "the ledger ends with %+v, the state with %+v", line.Balance, balance)

	for _, c := range []struct {
		name   string
		damage func(t *testing.T, js natsjs.JetStream, stop func())
	}{
		{"nothing", func(*testing.T, natsjs.JetStream, func()) {}},
		{"newest messages deleted", func(t *testing.T, js natsjs.JetStream, stop func()) {
			for _, name := range []string{jetstream.AuditStream, jetstream.LedgerStream} {
				stream := must(js.Stream(t.Context(), name))(t)
				end := stream.CachedInfo().State.LastSeq
				for seq := end; seq > end-7; seq-- {
					noError(t, stream.DeleteMsg(t.Context(), seq))
				}
			}
		}},
		{"everything deleted", func(t *testing.T, js natsjs.JetStream, stop func()) {
			for _, name := range []string{jetstream.AuditStream, jetstream.LedgerStream} {
				stream := must(js.Stream(t.Context(), name))(t)
				noError(t, stream.Purge(t.Context()))
			}
		}},
		{"one stream lost", func(t *testing.T, js natsjs.JetStream, stop func()) {
			noError(t, js.DeleteStream(t.Context(), jetstream.LedgerStream))
			create(t, js)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			js := streams(t)
			j, _ := open(t, js)
			stop := run(t, js)
			for i := range 10 {
				noError(t, j.Append(within(t), records[i*20:(i+1)*20]))
			}
			projected(t, js, last/2)
			stop()
			c.damage(t, js, stop)
			// Committed, and the projector is not there.
			for i := range 10 {
				noError(t, j.Append(within(t), records[200+i*20:200+(i+1)*20]))
			}
			run(t, js)
			projected(t, js, last)
			got := contents(t, js)
			for name := range want {
				failIf(t, fmt.Sprint(got[name]) != fmt.Sprint(want[name]),
					"%s has %d messages, not the %d", name, len(got[name]), len(want[name]))
			}
		})
	}
}

// Two projectors, as after a retry whose first try was stored after all, leave
// each decision once and in its order.
//
// covers P11.1, A-CHAIN
func TestProjectionsHaveNoDoubles(t *testing.T) {
	t.Parallel()
	js, j, m := journaled(t)
	run(t, js)
	run(t, js)
	const decisions = 40
	for range decisions / 2 {
		noError(t, j.Append(within(t), m.some(2)))
	}
	projected(t, js, decisions)
	messages := meshtest.ReadStream(t, js, jetstream.AuditStream)
	stopIf(t, len(messages) != decisions, "%d records of %d decisions", len(messages), decisions)
	for i, message := range messages {
		d, err := bcp.DecodeDecision(message.Data)
		failIf(t, err != nil || d.Seq != uint64(i+1), "record %d is of decision %d, %v", i, d.Seq, err)
	}
}

// A projector waits for a stream that is not there, and goes on.
//
// covers P11.1
func TestProjectorRetries(t *testing.T) {
	t.Parallel()
	js := streams(t)
	noError(t, js.DeleteStream(t.Context(), jetstream.AuditStream))
	j, _ := open(t, js)
	run(t, js)
	noError(t, j.Append(within(t), newMaker(t).some(4)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fails(t, jetstream.Projected(ctx, js, 4), nil, "the audit is there")
	create(t, js)
	projected(t, js, 4)
	messages := meshtest.ReadStream(t, js, jetstream.AuditStream)
	failIf(t, len(messages) != 4 || messages[0].Subject != subjects.Audit("main", "mailer", "push") || messages[3].Subject != subjects.Audit("", "", "connect"),
		"%d messages, %v", len(messages), messages)
}

// lagging shows the journal for some looks as it was before what is on its way to it
// was stored.
type lagging struct {
	natsjs.JetStream
	before natsjs.Stream
	looks  atomic.Int32
}

func (l *lagging) Stream(ctx context.Context, name string) (natsjs.Stream, error) {
	if name == jetstream.CommitStream && l.looks.Add(-1) >= 0 {
		return l.before, nil
	}
	return l.JetStream.Stream(ctx, name)
}

// A record that was published before the projector listens, and is stored after it has
// looked, is not left until the next one.
//
// covers P11.1
func TestProjectorMissesNothingOnItsWay(t *testing.T) {
	t.Parallel()
	js := streams(t)
	before := must(js.Stream(t.Context(), jetstream.CommitStream))(t)
	j, _ := open(t, js)
	noError(t, j.Append(within(t), newMaker(t).some(4)))
	late := &lagging{JetStream: js, before: before}
	late.looks.Store(4) // at where it stands, and thrice at whether there is something
	run(t, late)
	projected(t, js, 4)
}

// looking waits until somebody knows of each look at the journal that was taken.
type looking struct {
	natsjs.JetStream
	looked chan struct{}
}

func (l *looking) Stream(ctx context.Context, name string) (natsjs.Stream, error) {
	stream, err := l.JetStream.Stream(ctx, name)
	if name == jetstream.CommitStream {
		select {
		case l.looked <- struct{}{}:
		case <-ctx.Done():
		}
	}
	return stream, err
}

// A projector whose connection was lost looks at the journal when that is back: of what
// came meanwhile it has not heard. Left to itself, it looks ever more seldom: the
// dozenth time after a minute and more.
//
// covers P11.1
func TestProjectorLooksWhenItsConnectionIsBack(t *testing.T) {
	t.Parallel()
	js := streams(t)
	lost := &looking{
		connect(t, js.Conn().ConnectedUrl(), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0)), make(chan struct{}),
	}
	back := lost.Conn().StatusChanged(nats.CONNECTED)
	run(t, lost)
	ctx := within(t)
	<-lost.looked // at where it stands
	for n := range 12 {
		select {
		case <-lost.looked:
		case <-ctx.Done():
			t.Fatalf("it has not looked when its connection was back for the %dth time", n)
		}
		noError(t, lost.Conn().ForceReconnect())
		<-back
	}
}

// silent lets some publishes go unanswered, as a server does that closes its streams.
type silent struct {
	natsjs.JetStream
	left    atomic.Int32
	dropped chan struct{}
}

type unanswered struct{ natsjs.PubAckFuture }

func (unanswered) Ok() <-chan *natsjs.PubAck { return nil }
func (unanswered) Err() <-chan error         { return nil }

func (s *silent) PublishMsgAsync(m *nats.Msg, options ...natsjs.PublishOpt) (natsjs.PubAckFuture, error) {
	if s.left.Add(-1) < 0 {
		return s.JetStream.PublishMsgAsync(m, options...)
	}
	s.dropped <- struct{}{}
	return unanswered{}, nil
}

// A projector that is told that no answer will come asks again at once. Each answer
// that it waits for to the end is waited for ten seconds.
//
// covers P11.1
func TestProjectorIsToldOfNoAnswer(t *testing.T) {
	t.Parallel()
	js := streams(t)
	j, _ := open(t, js)
	noError(t, j.Append(within(t), newMaker(t).some(4)))
	const times = 5
	closed := &silent{JetStream: js, dropped: make(chan struct{}, times)}
	closed.left.Store(times)
	var asking jetstream.Interrupter
	runAsking(t, closed, &asking)
	ctx := within(t)
	for n := range times {
		select {
		case <-closed.dropped:
			asking.Interrupt("the streams are closed")
		case <-ctx.Done():
			t.Fatalf("asked %d times", n)
		}
	}
	noError(t, jetstream.Projected(ctx, js, 4))
}

// A projector begins where the audit stands, and reads nothing in front of it;
// where another projection has lost what the audit says that it had, it reads
// everything.
//
// covers P11.1
func TestProjectorBeginsWhereItStands(t *testing.T) {
	t.Parallel()
	js, j, m := journaled(t)
	for range 200 {
		noError(t, j.Append(within(t), m.some(4)))
	}
	own := connect(t, js.Conn().ConnectedUrl()) // on which nothing else is received
	project(t, own, 800)
	received := func() uint64 { return own.Conn().Stats().InMsgs }
	last := uint64(800)
	for _, c := range []struct {
		name  string
		lost  string
		reads bool
	}{{"nothing", "", false}, {"the newest line of the ledger", jetstream.LedgerStream, true}, {"the newest of the audit", jetstream.AuditStream, true}} {
		want := contents(t, js)
		if c.lost != "" {
			stream := must(js.Stream(t.Context(), c.lost))(t)
			noError(t, stream.DeleteMsg(t.Context(), stream.CachedInfo().State.LastSeq))
		}
		more := m.some(4)
		noError(t, j.Append(within(t), more))
		before := received()
		stop := run(t, own)
		last += uint64(len(more))
		projected(t, js, last)
		n := received() - before
		failIf(t, (n >= 200) != c.reads, "without %s it received %d messages of a journal of 200", c.name, n)
		stop()
		got := contents(t, js)
		for name := range want {
			if n := len(want[name]); len(got[name]) <= n || fmt.Sprint(got[name][:n]) != fmt.Sprint(want[name]) {
				t.Errorf("without %s, %s is another", c.name, name)
			}
		}
	}
}

// A journal that never rests is projected all the same, late; what is there when
// the projector is told to end is projected first.
//
// covers P11.1
func TestProjectorIsLateAtMost(t *testing.T) {
	t.Parallel()
	js, j, m := journaled(t)
	stop := run(t, js)
	begin := time.Now()
	var first atomic.Int64 // when the audit began
	var looking sync.WaitGroup
	looking.Go(func() {
		_ = jetstream.Projected(t.Context(), js, 1)
		first.Store(int64(time.Since(begin)))
	})
	var last uint64
	// On a busy machine it may have looked as if it rested: this is how long it can have
	// been at most between two that were stored.
	var rested time.Duration
	var asked time.Time
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for ; first.Load() == 0; <-tick.C {
		decisions, before := m.some(20), asked
		asked = time.Now()
		noError(t, j.Append(within(t), decisions))
		last += 20
		if !before.IsZero() {
			rested = max(rested, time.Since(before))
		}
	}
	looking.Wait()
	if took := time.Duration(first.Load()); took > 20*time.Second || took < 2*time.Second && rested < 8*time.Millisecond {
		t.Errorf("the first decision shows after %s; between two records were %s at most", took, rested)
	}
	// Little is left for the moment that it has at its end.
	projected(t, js, last)
	noError(t, j.Append(within(t), m.some(20)))
	last += 20
	stop()
	n := len(contents(t, js)[jetstream.AuditStream])
	failIf(t, uint64(n) != last, "at its end %d of %d decisions show", n, last)
}
