//go:build unix

package clustertest_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// BenchmarkPublish is the rate of a stream with three replicas for one writer that
// says which sequence each message follows: one at a time, 16 in one message, and
// 16 messages in flight.
func BenchmarkPublish(b *testing.B) {
	const size = 300
	c := clustertest.Start(b, clustertest.Config{})
	leader := func() natsjs.JetStream { return connect(b, c.NodeURL(c.Leader(b, clustertest.Floor))) }
	clustertest.CreateFloor(b, connect(b, c.URL()))
	for _, at := range []struct {
		name string
		js   natsjs.JetStream
	}{{"at the leader", leader()}, {"elsewhere", connect(b, c.NodeURL((c.Leader(b, clustertest.Floor)+1)%c.Size()))}} {
		run := func(name string, each int, publish func(last *uint64, n int)) {
			b.Run(at.name+"/"+name, func(b *testing.B) {
				s, err := at.js.Stream(b.Context(), clustertest.Floor)
				if err != nil {
					b.Fatal(err)
				}
				last := s.CachedInfo().State.LastSeq
				b.ResetTimer()
				for n := 0; n < b.N; n += each {
					publish(&last, each)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
			})
		}
		one := func(size int) func(*uint64, int) {
			data := make([]byte, size)
			return func(last *uint64, _ int) {
				ack, err := at.js.Publish(b.Context(), "floor", data, natsjs.WithExpectLastSequence(*last))
				if err != nil {
					b.Fatal(err)
				}
				*last = ack.Sequence
			}
		}
		run("one", 1, one(size))
		run("16 in one", 16, one(16*size))
		data := make([]byte, size)
		run("16 in flight", 16, func(last *uint64, n int) {
			acks := make([]natsjs.PubAckFuture, n)
			for i := range acks {
				ack, err := at.js.PublishMsgAsync(&nats.Msg{Subject: "floor", Data: data}, natsjs.WithExpectLastSequence(*last+uint64(i)))
				if err != nil {
					b.Fatal(err)
				}
				acks[i] = ack
			}
			for _, ack := range acks {
				select {
				case <-ack.Ok():
				case err := <-ack.Err():
					b.Fatal(err)
				}
			}
			*last += uint64(n)
		})
	}
}
