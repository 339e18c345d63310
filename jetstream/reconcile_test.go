package jetstream_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Journal, ledger and state of a mesh agree; whichever of them says something
// else is named.
//
// covers P4.5, P11.1, BCP-92
func TestReconcile(t *testing.T) {
	t.Parallel()
	write := func(form func(*bcp.LedgerLine) []byte) func(*testing.T, natsjs.JetStream, *maker) {
		return func(t *testing.T, js natsjs.JetStream, _ *maker) { // of the last line, as a message in its place
			stream := must(js.Stream(within(t), jetstream.LedgerStream))(t)
			last := must(stream.GetLastMsgForSubject(within(t), subjects.Ledger("main", "mailer")))(t)
			line := must(bcp.DecodeLedgerLine(last.Data))(t)
			noError(t, stream.DeleteMsg(within(t), last.Sequence))
			publish(t, js, form(&line), last.Header)
		}
	}
	rewrite := func(edit func(*bcp.LedgerLine)) func(*testing.T, natsjs.JetStream, *maker) {
		return write(func(l *bcp.LedgerLine) []byte { edit(l); return bcp.EncodeLedgerLine(l) })
	}
	for _, tt := range []struct {
		name  string
		plant func(*testing.T, natsjs.JetStream, *maker)
		want  []string // where, of the differences
	}{
		{"nothing", func(*testing.T, natsjs.JetStream, *maker) {}, nil},
		{"a line in the form of older versions", write(func(l *bcp.LedgerLine) []byte {
			var members map[string]any
			noError(t, msgpack.Unmarshal(bcp.EncodeLedgerLine(l), &members))
			return must(msgpack.Marshal(members))(t)
		}), nil},
		{"another amount", rewrite(func(l *bcp.LedgerLine) { l.Nominal++ }), []string{"ledger"}},
		{"another balance", rewrite(func(l *bcp.LedgerLine) { l.Balance.SettledCapacity-- }), []string{"ledger"}},
		{"another epoch", rewrite(func(l *bcp.LedgerLine) { l.Epoch++ }), []string{"ledger"}},
		{"a line of another decision", rewrite(func(l *bcp.LedgerLine) { l.Seq-- }), []string{"ledger", "ledger"}},
		{"a line of no decision", rewrite(func(l *bcp.LedgerLine) { l.Seq += 1000 }), []string{"ledger", "ledger"}},
		{"a line twice", func(t *testing.T, js natsjs.JetStream, m *maker) {
			rewrite(func(*bcp.LedgerLine) {})(t, js, m)
			stream := must(js.Stream(within(t), jetstream.LedgerStream))(t)
			last := must(stream.GetLastMsgForSubject(within(t), subjects.Ledger("main", "mailer")))(t)
			publish(t, js, last.Data, last.Header)
		}, []string{"ledger"}},
		{"no last line", func(t *testing.T, js natsjs.JetStream, _ *maker) {
			stream := must(js.Stream(within(t), jetstream.LedgerStream))(t)
			noError(t, stream.DeleteMsg(within(t), stream.CachedInfo().State.LastSeq))
		}, []string{"ledger"}},
		{"no ledger", func(t *testing.T, js natsjs.JetStream, _ *maker) {
			stream := must(js.Stream(within(t), jetstream.LedgerStream))(t)
			noError(t, stream.Purge(within(t)))
		}, []string{"ledger"}},
		{"what is no line", func(t *testing.T, js natsjs.JetStream, _ *maker) { publish(t, js, []byte("junk"), nil) }, []string{"ledger"}},
		{"another state", func(_ *testing.T, _ natsjs.JetStream, m *maker) { m.next(); m.next(); m.next() }, []string{"state"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			js, j, m := journaled(t)
			noError(t, j.Append(within(t), m.some(41)))
			project(t, js, 41)
			tt.plant(t, js, m)
			r := must(jetstream.Reconcile(within(t), js, nil, 0, m.state.Pools()))(t)
			var where []string
			for _, d := range r.Differences {
				where = append(where, string(d.Where))
			}
			failIf(t, strings.Join(where, " ") != strings.Join(tt.want, " ") || r.Decisions != 41 || r.Behind != 0 || len(r.Pools) != 1,
				"got %+v", r)
		})
	}
}

func publish(t *testing.T, js natsjs.JetStream, data []byte, header nats.Header) {
	t.Helper()
	h := nats.Header{}
	if seq := header.Get("Bcp-Decision"); seq != "" {
		h.Set("Bcp-Decision", seq)
	}
	must(js.PublishMsg(within(t), &nats.Msg{Subject: subjects.Ledger("main", "mailer"), Data: data, Header: h}))(t)
}

// What the journal has gained meanwhile, and what the ledger does not show yet,
// is no difference; a journal that records what it does not charge is one.
//
// covers P4.5
func TestReconcileUpToADecision(t *testing.T) {
	t.Parallel()
	js, j, m := journaled(t)
	noError(t, j.Append(within(t), m.some(20)))
	project(t, js, 20)
	pools := m.state.Pools()
	noError(t, j.Append(within(t), m.some(20)))
	r, err := jetstream.Reconcile(within(t), js, nil, 20, pools)
	failIf(t, err != nil || len(r.Differences) > 0 || r.Decisions != 20 || r.Behind != 0, "up to 20: %+v, %v", r, err)
	r, err = jetstream.Reconcile(within(t), js, nil, 0, m.state.Pools())
	failIf(t, err != nil || len(r.Differences) > 0 || r.Decisions != 40 || r.Behind != 20, "all: %+v, %v", r, err)
	d := must(bcp.DecodeDecision(m.some(1)[0]))(t)
	d.Balance.Settled += bcp.Bit
	lie := must(bcp.EncodeDecision(&d))(t)
	noError(t, j.Append(within(t), [][]byte{lie}))
	r, err = jetstream.Reconcile(within(t), js, nil, 0, m.state.Pools())
	failIf(t, err != nil || len(r.Differences) != 1 || r.Differences[0].Where != status.BookJournal || r.Differences[0].Seq != 41,
		"a journal that lies: %+v, %v", r, err)
}
