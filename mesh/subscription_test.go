package mesh_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// ruled is pair with this rate, window or condition of the subscription alerts.
func ruled(budget int, keys ...string) map[string]string {
	files := pair(budget)
	for _, key := range keys {
		files["main.md"] = strings.Replace(files["main.md"], "- id: alerts\n", "- id: alerts\n        "+key+"\n", 1)
	}
	return files
}

// A Reader is shown the rate and the condition of its subscription, and hears of
// each push that they refuse: the Controller hears of none, nothing is charged,
// pushes beyond the rate are counted in one record, and a restart forgets neither.
//
// covers SUB-145, SUB-147, P12.1, P12.2, P4.7, P9.3, A-CRASH
func TestRateAndCondition(t *testing.T) {
	t.Parallel()
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			m := meshtest.Start(t, in(ruled(100, "max_rate: 2/d", `publish_when: "urgent"`), encoding))
			main := controller(t, m, "main")
			mailer := side{Agent: m.Connect(t, "mailer", bcp.RoleReader), seen: map[string]bool{}}
			mailer.told = mailer.Deliveries(t)
			active := mailer.told.NextOf(t, meshtest.WithType("bcp_subscriptions_active"))
			if !strings.Contains(active.JSON, `"subscription_id":"alerts","controller":"main","max_rate":"2/d","publish_when":"urgent","category":1`) && encoding == bcp.JSON {
				t.Errorf("the Reader is shown %s", active.JSON)
			}
			mailer.Acknowledge(t, active)
			push := func(value string) meshtest.Message {
				t.Helper()
				return mailer.Push(t, "main", "alerts", value, "")
			}
			if r := push(`{"urgent":false}`); r.Text("code") != "filtered" || r.Text("status") != "refused" || r.Text("detail") != "the subscription's publish_when does not hold for the answer" {
				t.Errorf("below the threshold: %s", r.JSON)
			}
			for range 2 {
				succeeded(t, push(`{"urgent":true}`), "within the rate")
				if d := main.delivery(t); d.Text("subscription_id") != "alerts" {
					t.Errorf("delivery %s", d.JSON)
				}
			}
			beyond := func() {
				t.Helper()
				for range 3 {
					r := push(`{"urgent":true}`)
					if wait, _ := r.Fields["retry_after_seconds"].(float64); r.Text("code") != "rate_limited" || wait < 86400-600 || wait > 86400 {
						t.Fatalf("beyond the rate: %s", r.JSON)
					}
				}
			}
			beyond()
			counted := m.Wait(t, of(bcp.KindRefusals, bcp.RateLimited))
			if counted.Subscription != "alerts" || counted.Controller != "main" || counted.Reader != "mailer" || counted.Count < 1 {
				t.Errorf("counted as %+v", counted)
			}
			succeeded(t, mailer.Push(t, "main", "notes", `{"note":"Rain in Turin today"}`, ""), "another subscription")
			if d := main.delivery(t); d.Text("subscription_id") != "notes" {
				t.Errorf("delivery %s", d.JSON)
			}
			m.WaitCount(t, 3, meshtest.Of(bcp.KindAcknowledge)) // or it comes again
			m.Restart(t)
			main, mailer = connect(t, m)
			beyond()
			nothing(t, main.rest(t))
			var settled bcp.Bits
			for _, d := range m.Decisions() {
				if d.Kind == bcp.KindPush && d.Verdict == bcp.Accept {
					settled = d.Balance.Settled
				}
			}
			expect(t, settled, 46*bcp.Bit, "bits are settled")
		})
	}
}

// Pushes of a window are one prompt for the Controller, at its end; a restart in
// the window, and one behind it, lose and double none. Stock clients get one more
// member of the message that they know.
//
// covers SUB-14, SUB-146, P12.3, P2.1, P9.1, P9.5, A-CRASH
func TestBatchWindow(t *testing.T) {
	t.Parallel()
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			var set atomic.Int64
			begin := time.Now()
			hour := begin.Truncate(time.Hour)
			set.Store(int64(hour.Add(time.Minute).Sub(begin))) // it does not end by itself
			m := meshtest.Start(t, in(ruled(1000, "batch_window: 1h"), encoding), func(c *mesh.Config) {
				c.Now = func() time.Time { return time.Now().Add(time.Duration(set.Load())) }
			})
			_, mailer := connect(t, m)
			push := func(values ...string) {
				t.Helper()
				for _, value := range values {
					if r := mailer.Push(t, "main", "alerts", value, ""); r.Fields["success"] != true || r.Text("status") != "delivered" {
						t.Fatalf("%s: %s", value, r.JSON)
					}
				}
			}
			push(`{"urgent":true}`, `{"urgent":false}`)
			m.Restart(t)
			main, mailer := connect(t, m)
			push(`{"urgent":true}`)
			succeeded(t, mailer.Push(t, "main", "notes", `{"note":"Rain in Turin today"}`, ""), "another subscription")
			if d := main.delivery(t); d.Text("subscription_id") != "notes" {
				t.Errorf("seen before the window ended: %s", d.JSON)
			}
			nothing(t, main.rest(t), "seen before the window ended")
			set.Add(int64(time.Hour))
			push(`{"urgent":false}`) // of the next window, and it wakes the gateway
			d := main.delivery(t)
			batch, _ := d.Fields["batch"].([]any)
			want := `"batch":[{"response":{"urgent":false}},{"response":{"urgent":true}},{"response":{"urgent":true}}],"bandwidth_bits":3.0,`
			if len(batch) != 3 || d.Fields["bandwidth_bits"] != 3.0 || d.Text("type") != "bcp_response_delivery" || d.Fields["response"] != nil ||
				encoding == bcp.JSON && !strings.Contains(d.JSON, want) {
				t.Errorf("delivery %s", d.JSON)
			}
			m.Settle(t)
			m.Stop(t)
			set.Add(int64(time.Hour))
			m.Start(t)
			seen := main.seen
			main = controller(t, m, "main")
			main.seen = seen
			if d := main.delivery(t); d.Fields["bandwidth_bits"] != 1.0 || d.Text("subscription_id") != "alerts" {
				t.Errorf("the window that ended while the mesh was away: %s", d.JSON)
			}
			windows := m.WaitCount(t, 2, meshtest.Of(bcp.KindBatch))
			if windows[0].Count != 3 || windows[1].Count != 1 {
				t.Errorf("windows %+v", windows)
			}
			m.Settle(t)
			nothing(t, main.rest(t), "more deliveries")
		})
	}
}

// A Controller proposes over its own session subject, in either encoding; a Reader
// has no subject to do so. What it proposes changes nothing, over a restart too.
//
// covers SUB-148, SUB-127, P12.4, P1.5, P2.1, A-GRANT, A-CRASH
func TestProposals(t *testing.T) {
	t.Parallel()
	const proposal = `{"verb":"propose","proposal":{"reader":"mailer","subscription":{"id":"more","max_rate":"1/h","category":1,"fields":[{"name":"urgent","type":"boolean"}]}}}`
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			m := meshtest.Start(t, in(pair(100), encoding))
			main, mailer := connect(t, m)
			item := main.Request(t, subjects.Session("main"), proposal).Text("item_id")
			if item == "" || main.Request(t, subjects.Session("main"), proposal).Text("item_id") != item {
				t.Errorf("the item is %q, or the same proposal another", item)
			}
			mailer.Say(t, subjects.Session("main"), proposal)
			mailer.Say(t, subjects.Session("mailer"), proposal)
			m.WaitCount(t, 1, meshtest.Of(bcp.KindViolation))
			coded(t, main.Request(t, subjects.Session("main"), strings.Replace(proposal, `"mailer"`, `"main"`, 1)), "no_channel", "to itself")
			m.Restart(t)
			main, mailer = connect(t, m)
			expect(t, main.Request(t, subjects.Session("main"), proposal).Text("item_id"), item, "after a restart the item")
			mailer.Say(t, subjects.Push("mailer", "main", "more"), meshtest.PushText("main", "more", `{"urgent":true}`, ""))
			counts(t, m, 0, meshtest.Of(bcp.KindPush))
			counts(t, m, 1, func(d *bcp.Decision) bool { return d.Kind == bcp.KindPropose && d.Verdict == bcp.Hold && !d.Repeat })
		})
	}
}
