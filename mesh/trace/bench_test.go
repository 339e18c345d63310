package trace_test

import (
	"fmt"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/trace"
)

// BenchmarkPush makes the spans of a push and its acknowledgement.
func BenchmarkPush(b *testing.B) {
	p := trace.New(key, meshtest.Parse(b, office))
	push := bcp.Decision{Kind: bcp.KindPush, Agent: "mailer", Controller: "main", Reader: "mailer", Subscription: "alerts", Verdict: bcp.Accept, Nominal: bcp.Bit}
	ack := bcp.Decision{Kind: bcp.KindAcknowledge, Agent: "main", Controller: "main", Reader: "mailer"}
	b.ReportAllocs()
	for b.Loop() {
		push.Seq += 2
		push.Delivery = bcp.DeliveryID(fmt.Sprint("d", push.Seq))
		ack.Seq, ack.Delivery = push.Seq+1, push.Delivery
		p.Add(trace.FactOf(&push, push.At()))
		p.Add(trace.FactOf(&ack, ack.At()))
	}
}
