package jetstream_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Streams that are as they should be are not changed, which would take the leader of the
// whole cluster. Others are.
//
// covers P11.1, P11.4
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	js := streams(t)
	changes := must(js.Conn().SubscribeSync("$JS.API.STREAM.UPDATE.>"))(t)
	expect := func(topology jetstream.Topology, want int) {
		t.Helper()
		noError(t, jetstream.Create(t.Context(), js, topology))
		for ; want > 0; want-- {
			must(changes.NextMsg(patience))(t)
		}
		n, _, err := changes.Pending()
		failIf(t, n > 0 || err != nil, "%d changes too many: %v", n, err)
	}
	expect(jetstream.Topology{Replicas: 1}, 0)
	expect(jetstream.Topology{Replicas: 1, MaxDisk: 16 << 20}, 3) // the keys have no limit
	expect(jetstream.Topology{Replicas: 1, MaxDisk: 16 << 20}, 0)
	commit := must(js.Stream(t.Context(), jetstream.CommitStream))(t)
	for _, change := range []func(*natsjs.StreamConfig){
		func(c *natsjs.StreamConfig) { c.Discard, c.MaxMsgs = natsjs.DiscardOld, 7 },
		func(c *natsjs.StreamConfig) { c.AllowDirect = false },
		func(c *natsjs.StreamConfig) { c.Description = "another" },
	} {
		config := commit.CachedInfo().Config
		change(&config)
		must(js.UpdateStream(t.Context(), config))(t)
		if _, err := changes.NextMsg(patience); err != nil { // our own
			t.Fatal(err)
		}
		expect(jetstream.Topology{Replicas: 1, MaxDisk: 16 << 20}, 1)
	}
}

// closed gives some who ask for a stream the answer of a server that has closed them.
type closed struct {
	natsjs.JetStream
	answers []error
}

func (c *closed) Stream(ctx context.Context, name string) (natsjs.Stream, error) {
	if len(c.answers) == 0 {
		return c.JetStream.Stream(ctx, name)
	}
	err := c.answers[0]
	c.answers = c.answers[1:]
	return nil, err
}

// Streams that a server has closed and opens again are made then.
//
// covers P11.1
func TestCreateWaitsForClosedStreams(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t).ClientURL())
	c := &closed{js, []error{natsjs.ErrJetStreamNotEnabled, nats.ErrNoResponders, context.DeadlineExceeded}}
	err := jetstream.Create(t.Context(), c, jetstream.Topology{Replicas: 1})
	failIf(t, err != nil || len(c.answers) > 0, "%v, and %d answers are left", err, len(c.answers))
	must(js.Stream(t.Context(), jetstream.CommitStream))(t)
}
