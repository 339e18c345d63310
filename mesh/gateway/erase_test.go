package gateway_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// An erasure is decided and recorded with the batch that it came in, like any message: no
// part of that batch is released in front of its record.
//
// covers P4.5, P11.1, P11.5
func TestErasureIsRecordedWithItsBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.start(t)
	mailer, operator := b.agent(t, "mailer"), b.operator(t)
	g.wait(t, 2, of(bcp.KindConnect))
	const attempts = 50 // until both come together
	for n := range attempts {
		deciding, goOn := make(chan struct{}), make(chan struct{})
		inspected := make(chan error, 1)
		go func() {
			inspected <- g.Inspect(t.Context(), func(*state.State) { close(deciding); <-goOn })
		}()
		<-deciding
		noError(t, mailer.Conn.Publish(pushAlert, []byte(alert(""))))
		erase := []byte(`{"erase":{"controller":"main","reader":"mailer","before":"2020-01-01"}}`)
		noError(t, operator.Conn.Publish(subjects.Control(bcp.ControlErase), erase))
		for _, conn := range slices.Concat([]*nats.Conn{mailer.Conn, operator.Conn}, g.conns[1:]) {
			noError(t, conn.Flush())
		}
		close(goOn)
		noError(t, <-inspected)
		g.wait(t, n+1, of(bcp.KindPush))
		g.wait(t, n+1, of(bcp.KindErase))
		for _, m := range meshtest.ReadStream(t, b.js, jetstream.CommitStream) {
			decisions := must(jetstream.DecodeRecord(m.Data))
			kinds := map[bcp.DecisionKind]bool{}
			for _, record := range decisions {
				d := must(bcp.DecodeDecision(record))
				kinds[d.Kind] = true
			}
			if kinds[bcp.KindPush] && kinds[bcp.KindErase] {
				return
			}
		}
	}
	t.Error("erasures have records of their own")
}
