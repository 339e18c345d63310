package mesh_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// ruled is pair with this rate, window or condition of the subscription alerts.
func ruled(budget int, keys ...string) map[string]string {
	files := pair(budget)
	for _, key := range keys {
		files["main.md"] = strings.Replace(files["main.md"], "- id: alerts\n", "- id: alerts\n        "+key+"\n", 1)
	}
	return files
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
			carries(t, main.delivery(t), "subscription_id", "notes", "seen before the window ended")
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
			holds(t, windows[0].Count == 3 && windows[1].Count == 1, "windows %+v", windows)
			m.Settle(t)
			nothing(t, main.rest(t), "more deliveries")
		})
	}
}
