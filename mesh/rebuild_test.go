package mesh_test

import (
	"bytes"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// The projections are deleted, with whatever somebody wrote into them, and come
// again from the journal, byte for byte, but for how the ledger's lines stand together.
//
// covers P11.1, P4.5
func TestRebuild(t *testing.T) {
	t.Parallel()
	rebuild := false
	m := meshtest.Start(t, pair(1000), func(c *mesh.Config) { c.Rebuild = rebuild })
	main, mailer := controller(t, m, "main"), reader(t, m, "mailer")
	for range 5 {
		main.Accepted(t, "mailer", askUrgent)
		mailer.Answer(t, mailer.queries.Next(t), isUrgent)
		mailer.result(t)
	}
	ctx := within(t, 4*meshtest.Patience)
	shown := func() (uint64, map[string][]natsjs.RawStreamMsg) {
		t.Helper()
		decisions := m.Decisions()
		last := decisions[len(decisions)-1].Seq
		noError(t, m.Projected(ctx, last))
		m.Stop(t)
		js, end := m.Streams(t)
		defer end()
		messages := map[string][]natsjs.RawStreamMsg{}
		for _, name := range append(jetstream.Projections(), jetstream.CommitStream) {
			messages[name] = meshtest.ReadStream(t, js, name)
		}
		return last, messages
	}
	_, before := shown()
	js, end := m.Streams(t)
	must(js.Publish(ctx, before[jetstream.LedgerStream][0].Subject, []byte("a lie"), natsjs.WithMsgID("x")))
	end()
	rebuild = true
	m.Start(t)
	_, after := shown()
	// Which lines of the ledger are one message depends on how the journal grew.
	lines := func(messages []natsjs.RawStreamMsg) (all []natsjs.RawStreamMsg) {
		for _, msg := range messages {
			of := must(bcp.DecodeLedgerLines(msg.Data))
			for _, line := range of {
				all = append(all, natsjs.RawStreamMsg{Subject: msg.Subject, Data: bcp.EncodeLedgerLine(&line)})
			}
		}
		return all
	}
	before[jetstream.LedgerStream], after[jetstream.LedgerStream] = lines(before[jetstream.LedgerStream]), lines(after[jetstream.LedgerStream])
	for name, messages := range before {
		stopIf(t, len(messages) == 0 || len(after[name]) < len(messages),
			"%s has %d messages, and had %d", name, len(after[name]), len(messages))
		for i, msg := range messages {
			if got := after[name][i]; got.Subject != msg.Subject || !bytes.Equal(got.Data, msg.Data) {
				t.Errorf("message %d of %s is %q, was %q", i+1, name, got.Data, msg.Data)
			}
		}
	}
}
