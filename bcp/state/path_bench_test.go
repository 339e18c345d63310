package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What the gateway does with a push, and with a question from ask to
// acknowledgement, apart from sending and storing.
func BenchmarkPath(b *testing.B) {
	raw := `{"type":"bcp_response","subscription_id":"alarm","controller":"planner","push_id":"%s","response":{"ok":true}}`
	decided := func(b *testing.B, w *world, d bcp.Decision, body []byte) *bcp.Decision {
		if d.Verdict == bcp.Reject {
			b.Fatalf("refused: %s", d.Code)
		}
		if d.Says() {
			if err := d.Seal(testKey); err != nil {
				b.Fatal(err)
			}
			if err := d.SealRaw(testKey, body); len(body) > 0 && err != nil {
				b.Fatal(err)
			}
		}
		record, err := bcp.EncodeDecision(&d)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.state.Apply(&d, bcp.RecordDigest(record)); err != nil {
			b.Fatal(err)
		}
		return &d
	}
	moment := func(w *world) bcp.Moment {
		m := w.moment()
		m.Fresh = fmt.Sprintf("ABCDEFGHIJKLMNOPQRST%06d", w.moments)
		w.now = w.now.Add(time.Millisecond)
		return m
	}
	tell := func(b *testing.B, message any) {
		if _, err := bcp.Encode(message, bcp.JSON); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("push", func(b *testing.B) {
		b.ReportAllocs()
		w := newWorld(b, edited(func(c *bcp.Channel) { c.Budget, c.PushBudget, c.CapacityBudget = 1<<60, 1<<60, 0 }))
		for b.Loop() {
			m := moment(w)
			body := fmt.Appendf(nil, raw, m.Fresh)
			d := decided(b, w, w.state.DecidePush(m, "mail", "planner", "alarm", body), body)
			tell(b, d.Result())
			if d, ok := w.state.DecideAcknowledge(moment(w), "planner", bcp.RoleController, d.Delivery); ok {
				decided(b, w, d, nil)
			}
		}
	})
	b.Run("flow", func(b *testing.B) {
		b.ReportAllocs()
		w := newWorld(b, edited(func(c *bcp.Channel) { c.Budget, c.CapacityBudget = 1<<60, 0 }))
		ask := askBytes("yes", "", "")
		for b.Loop() {
			asked := decided(b, w, w.state.DecideAsk(moment(w), "planner", "mail", ask), ask)
			tell(b, bcp.Accepted{QueryID: asked.Query, NominalBits: asked.Nominal, CapacityBits: asked.Capacity})
			query, _, _, _ := w.state.Open(asked.Query)
			tell(b, query)
			body := answerBytes(asked.Query, `{"ok":true}`)
			answered := decided(b, w, w.state.DecideAnswer(moment(w), "mail", asked.Query, 0, body), body)
			tell(b, answered.Result())
			message, _ := answered.Message()
			tell(b, message)
			d, _ := w.state.DecideAcknowledge(moment(w), "planner", bcp.RoleController, answered.Delivery)
			decided(b, w, d, nil)
		}
	})
}
