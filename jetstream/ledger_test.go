package jetstream_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// linesByChannel are all lines, and fail the test where a channel's are not in order.
func linesByChannel(t *testing.T, js natsjs.JetStream) (lines map[string][]uint64, messages int) {
	t.Helper()
	lines = map[string][]uint64{}
	for _, line := range ledgerLines(t, js) {
		of := string(line.Reader)
		if n := len(lines[of]); n > 0 && lines[of][n-1] >= line.Seq {
			t.Fatalf("the line of decision %d of %s comes behind that of %d", line.Seq, of, lines[of][n-1])
		}
		lines[of] = append(lines[of], line.Seq)
	}
	return lines, len(meshtest.ReadStream(t, js, jetstream.LedgerStream))
}

// Decisions that are projected together are one message of each channel. Wherever a crash
// stops that, and stops what goes on behind it again, each line is there once, and in the
// order of its channel. The books are reconciled.
//
// covers P11.1, P4.5, A-CHAIN
func TestLedgerGoesOnAnywhere(t *testing.T) {
	t.Parallel()
	readers := []bcp.AgentName{"mailer", "clerk", "guide"}
	m := newMaker(t, readers...)
	first, more := m.pushes(10, readers...), m.pushes(7, readers...)
	want := map[string][]uint64{}
	for i := range 17 {
		of := string(readers[i%3])
		want[of] = append(want[of], uint64(i+1))
	}
	journaled := func(t *testing.T) (natsjs.JetStream, *jetstream.Journal) {
		js := streams(t)
		j, _ := open(t, js)
		noError(t, j.Append(within(t), first))
		return js, j
	}
	store := func(t *testing.T, js natsjs.JetStream, messages []natsjs.RawStreamMsg) {
		for _, m := range messages {
			header := nats.Header{"Bcp-Decision": m.Header["Bcp-Decision"]}
			must(js.PublishMsg(within(t), &nats.Msg{Subject: m.Subject, Data: m.Data, Header: header}))(t)
		}
	}
	js, _ := journaled(t)
	project(t, js, 10)
	whole := meshtest.ReadStream(t, js, jetstream.LedgerStream)
	stopIf(t, len(whole) != 3, "%d messages of 10 decisions on 3 channels", len(whole))
	for n := range len(whole) + 1 {
		t.Run(fmt.Sprintf("behind %d messages", n), func(t *testing.T) {
			t.Parallel()
			js, j := journaled(t)
			store(t, js, whole[:n])
			noError(t, j.Append(within(t), more))
			project(t, js, 17)
			check := func(t *testing.T, js natsjs.JetStream) {
				lines, _ := linesByChannel(t, js)
				failIf(t, fmt.Sprint(lines) != fmt.Sprint(want), "the ledger has lines of %v", lines)
				r, err := jetstream.Reconcile(within(t), js, nil, 0, m.state.Pools())
				failIf(t, err != nil || len(r.Differences) > 0 || r.Lines != 17, "%+v, %v", r, err)
			}
			check(t, js)
			again := meshtest.ReadStream(t, js, jetstream.LedgerStream)
			for k := n; k <= len(again); k++ {
				js, j := journaled(t)
				store(t, js, again[:k])
				noError(t, j.Append(within(t), more))
				project(t, js, 17)
				check(t, js)
			}
		})
	}
}

// A message has as many lines as it may, and the next one the rest.
//
// covers P11.1
func TestLedgerMessageIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ pushes, messages int }{{256, 1}, {257, 2}} {
		js := streams(t)
		j, _ := open(t, js)
		noError(t, j.Append(within(t), newMaker(t).pushes(tt.pushes, "mailer")))
		project(t, js, uint64(tt.pushes))
		if lines, messages := linesByChannel(t, js); len(lines["mailer"]) != tt.pushes || messages != tt.messages {
			t.Errorf("%d lines in %d messages", len(lines["mailer"]), messages)
		}
	}
}

// Who knows nothing of earlier lines reads the newest one: the library does. What is no message of the ledger is an error.
//
// covers P11.1
func TestDecodeLedgerLines(t *testing.T) {
	t.Parallel()
	lines := []bcp.LedgerLine{
		{Seq: 3, Controller: "main", Reader: "mailer", Nominal: bcp.Bit}, {Seq: 5, Controller: "main", Reader: "mailer"},
		{Seq: 9, Controller: "main", Reader: "mailer", Balance: bcp.Balance{Settled: 2 * bcp.Bit}},
	}
	for n := 1; n <= len(lines); n++ {
		b := bcp.EncodeLedgerLine(&lines[n-1], lines[:n-1]...)
		got, err := bcp.DecodeLedgerLines(b)
		same := func(a, b bcp.LedgerLine) bool { a.Time = b.Time; return a == b }
		failIf(t, err != nil || !slices.EqualFunc(got, lines[:n], same), "%+v is read as %+v, %v", lines[:n], got, err)
		var members map[string]any
		err = msgpack.Unmarshal(b, &members)
		failIf(t, err != nil || fmt.Sprint(members["n"]) != fmt.Sprint(lines[n-1].Seq), "%v, %v", members, err)
		earlier, _ := members["m"].([]any)
		failIf(t, len(earlier) != n-1, "%d lines from before of %d", len(earlier), n-1)
		for cut := range b {
			fails(t, errorOf(bcp.DecodeLedgerLines(b[:cut])), nil, "%d of %d bytes are read", cut, len(b))
		}
	}
}
