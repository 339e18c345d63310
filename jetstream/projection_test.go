package jetstream_test

import (
	"context"
	"fmt"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// run runs a projector until the returned function ends it.
func run(t *testing.T, js natsjs.JetStream) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		jetstream.NewProjector(js, nil).Run(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func projected(t *testing.T, js natsjs.JetStream, seq uint64) {
	t.Helper()
	if err := jetstream.Projected(within(t), js, seq); err != nil {
		t.Fatal(err)
	}
}

// contents are the messages of the projections, in short.
func contents(t *testing.T, js natsjs.JetStream) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, name := range []string{jetstream.AuditStream, jetstream.LedgerStream, jetstream.ValidatedStream} {
		for _, m := range meshtest.ReadStream(t, js, name) {
			all[name] = append(all[name], fmt.Sprintf("%s %s %x", m.Header.Get("Bcp-Decision"), m.Subject, m.Data))
		}
	}
	return all
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
		if err := j.Append(within(t), batch); err != nil {
			t.Fatal(err)
		}
	}
	last := uint64(len(records))
	run(t, whole)
	projected(t, whole, last)
	want := contents(t, whole)
	if len(want[jetstream.AuditStream]) != len(records) || len(want[jetstream.LedgerStream]) != 200 || len(want[jetstream.ValidatedStream]) != 100 {
		t.Fatalf("%d, %d and %d messages", len(want[jetstream.AuditStream]), len(want[jetstream.LedgerStream]), len(want[jetstream.ValidatedStream]))
	}
	audit := meshtest.ReadStream(t, whole, jetstream.AuditStream)
	for i, message := range audit {
		d, err := bcp.DecodeDecision(message.Data)
		if err != nil || d.Seq != uint64(i+1) || d.Spec != nil || d.Payload != nil || d.Client != "" || d.Salt != [16]byte{} {
			t.Fatalf("audit record %d: %+v, %v", i+1, d, err)
		}
	}
	ledger := meshtest.ReadStream(t, whole, jetstream.LedgerStream)
	line, err := bcp.DecodeLedgerLine(ledger[len(ledger)-1].Data)
	if err != nil {
		t.Fatal(err)
	}
	if _, balance, _ := m.state.Balance(bcp.ChannelKey{Controller: "main", Reader: "mailer"}); line.Balance != balance {
		t.Errorf("the ledger ends with %+v, the state with %+v", line.Balance, balance)
	}

	for _, c := range []struct {
		name   string
		damage func(t *testing.T, js natsjs.JetStream, stop func())
	}{
		{"nothing", func(*testing.T, natsjs.JetStream, func()) {}},
		{"newest messages deleted", func(t *testing.T, js natsjs.JetStream, stop func()) {
			for _, name := range []string{jetstream.AuditStream, jetstream.LedgerStream, jetstream.ValidatedStream} {
				stream, err := js.Stream(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				end := stream.CachedInfo().State.LastSeq
				for seq := end; seq > end-7; seq-- {
					if err := stream.DeleteMsg(t.Context(), seq); err != nil {
						t.Fatal(err)
					}
				}
			}
		}},
		{"everything deleted", func(t *testing.T, js natsjs.JetStream, stop func()) {
			for _, name := range []string{jetstream.AuditStream, jetstream.LedgerStream, jetstream.ValidatedStream} {
				stream, err := js.Stream(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				if err := stream.Purge(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"one stream lost", func(t *testing.T, js natsjs.JetStream, stop func()) {
			if err := js.DeleteStream(t.Context(), jetstream.LedgerStream); err != nil {
				t.Fatal(err)
			}
			create(t, js)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			js := streams(t)
			j, _ := open(t, js)
			stop := run(t, js)
			for i := range 10 {
				if err := j.Append(within(t), records[i*20:(i+1)*20]); err != nil {
					t.Fatal(err)
				}
			}
			projected(t, js, last/2)
			stop()
			c.damage(t, js, stop)
			// Committed, and the projector is not there.
			for i := range 10 {
				if err := j.Append(within(t), records[200+i*20:200+(i+1)*20]); err != nil {
					t.Fatal(err)
				}
			}
			run(t, js)
			projected(t, js, last)
			got := contents(t, js)
			for name := range want {
				if fmt.Sprint(got[name]) != fmt.Sprint(want[name]) {
					t.Errorf("%s has %d messages, not the %d", name, len(got[name]), len(want[name]))
				}
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
	js := streams(t)
	j, _ := open(t, js)
	m := newMaker(t)
	run(t, js)
	run(t, js)
	const decisions = 40
	for range decisions / 2 {
		if err := j.Append(within(t), m.some(2)); err != nil {
			t.Fatal(err)
		}
	}
	projected(t, js, decisions)
	messages := meshtest.ReadStream(t, js, jetstream.AuditStream)
	if len(messages) != decisions {
		t.Fatalf("%d records of %d decisions", len(messages), decisions)
	}
	for i, message := range messages {
		if d, err := bcp.DecodeDecision(message.Data); err != nil || d.Seq != uint64(i+1) {
			t.Errorf("record %d is of decision %d, %v", i, d.Seq, err)
		}
	}
}

// A projector waits for a stream that is not there, and goes on.
//
// covers P11.1
func TestProjectorRetries(t *testing.T) {
	t.Parallel()
	js := streams(t)
	if err := js.DeleteStream(t.Context(), jetstream.AuditStream); err != nil {
		t.Fatal(err)
	}
	j, _ := open(t, js)
	run(t, js)
	if err := j.Append(within(t), newMaker(t).some(4)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := jetstream.Projected(ctx, js, 4); err == nil {
		t.Error("the audit is there")
	}
	create(t, js)
	projected(t, js, 4)
	messages := meshtest.ReadStream(t, js, jetstream.AuditStream)
	if len(messages) != 4 || messages[0].Subject != subjects.Audit("main", "mailer", "push") || messages[3].Subject != subjects.Audit("", "", "connect") {
		t.Errorf("%d messages, %v", len(messages), messages)
	}
}
