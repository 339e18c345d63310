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

// Pushes of a window are one prompt for the Controller, at its end; a restart in the
// window, and one behind it, lose and double none.
//
// covers SUB-14, SUB-146, P12.3, P9.1, P9.5, A-CRASH
func TestBatchWindow(t *testing.T) {
	t.Parallel()
	var set atomic.Int64
	begin := time.Now()
	set.Store(int64(begin.Truncate(time.Hour).Add(time.Minute).Sub(begin))) // it does not end by itself
	files := pair(1000)
	files["main.md"] = strings.Replace(files["main.md"], "- id: alerts\n", "- id: alerts\n        batch_window: 1h\n", 1)
	m := meshtest.Start(t, in(files, bcp.MessagePack), func(c *mesh.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(set.Load())) }
	})
	_, mailer := connect(t, m)
	push := func(urgent string) {
		t.Helper()
		carries(t, mailer.Push(t, "main", "alerts", `{"urgent":`+urgent+`}`, ""), "status", bcp.StatusDelivered, urgent)
	}
	push("true")
	push("false")
	m.Restart(t)
	main, again := connect(t, m)
	mailer = again
	push("true")
	nothing(t, main.rest(t), "seen before the window ended")
	set.Add(int64(time.Hour))
	push("false") // of the next window, and it wakes the gateway
	d := main.delivery(t)
	batch, _ := d.Fields["batch"].([]any)
	failIf(t, len(batch) != 3 || d.Fields["bandwidth_bits"] != 3.0 || d.Text("type") != bcp.TypeResponseDelivery, "delivery %s", d.JSON)
	m.Settle(t)
	m.Stop(t)
	set.Add(int64(time.Hour))
	m.Start(t)
	seen := main.seen
	main = controller(t, m, "main")
	main.seen = seen
	d = main.delivery(t)
	failIf(t, d.Fields["bandwidth_bits"] != 1.0 || d.Text("subscription_id") != "alerts", "the window that ended while the mesh was away: %s", d.JSON)
	m.WaitCount(t, 2, meshtest.Of(bcp.KindBatch))
	m.Settle(t)
	nothing(t, main.rest(t), "more deliveries")
	checkStreams(t, m)
}
