package mesh_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// covers SUB-43, SUB-44, SUB-45, SUB-46, SUB-47, SUB-48, SUB-49, SUB-50, SUB-51, SUB-52, SUB-53, SUB-54, SUB-86, SUB-87, SUB-139, SUB-142, P9.3
func TestSubscriptionsActive(t *testing.T) {
	t.Parallel()
	files := pair(1000)
	files["boss.md"] = agentFile("boss", "", controls("mailer", 100, `subscriptions:
  - {id: alerts, category: 1, fields: [{name: level, type: integer, min: 1, max: 8}]}`), controls("clerk", 100, `subscriptions:
  - {id: secret, category: 1, fields: [{name: x, type: boolean}]}`))
	files["mailer.md"] = agentFile("mailer", "", reads("main"), reads("boss"))
	files["clerk.md"] = agentFile("clerk", "", reads("boss"))
	// However long this takes, the gateway's patience with a Reader that is silent does not end.
	var passed atomic.Int64
	begin := time.Now()
	m := meshtest.Start(t, files, func(c *mesh.Config) { c.Now = func() time.Time { return begin.Add(time.Duration(passed.Load())) } })
	main := m.Connect(t, "main", bcp.RoleController)
	main.Accepted(t, "mailer", askUrgent)

	// An open query waits; the Reader hears of its subscriptions first, again
	// and again until it acknowledges.
	mailer := m.Connect(t, "mailer", bcp.RoleReader)
	everything := both(t, mailer)
	m.Wait(t, by(bcp.KindConnect, "mailer"))
	passed.Store(int64(100 * time.Millisecond))
	m.Settle(t)
	first := everything.Next(t)
	want := `{"type":"bcp_subscriptions_active","subscriptions":[` +
		`{"subscription_id":"alerts","controller":"boss","category":1,"fields":[{"name":"level","type":"integer","min":1,"max":8}]},` +
		`{"subscription_id":"alerts","controller":"main","category":1,"fields":[{"name":"urgent","type":"boolean"}]},` +
		`{"subscription_id":"notes","controller":"main","category":2,"questions":[{"id":"note","question":"What is new?","max_words":4,"expected_format":"short_text"}]},` +
		`{"subscription_id":"digest","controller":"main","category":3,"directive":"Sum it up.","max_words":10`
	failIf(t, !strings.HasPrefix(first.JSON, want) || strings.Contains(first.JSON, "secret") || first.Subject != subjects.Deliver(bcp.RoleReader, "mailer", bcp.Gateway),
		"got %s", first.JSON)
	passed.Store(int64(200 * time.Millisecond))
	m.Settle(t)
	second := everything.Next(t)
	expect(t, second.JSON, first.JSON, "then")
	mailer.Acknowledge(t, second)
	everything.NextOf(t, meshtest.With("type", "bcp_query"))
	m.Settle(t)
	for _, later := range everything.Taken(t) {
		t.Errorf("after the acknowledgement: %s", later.JSON)
	}
	// A Reader without subscriptions of its own gets the others' neither.
	lists := m.Connect(t, "clerk", bcp.RoleReader).Deliveries(t)
	passed.Store(int64(300 * time.Millisecond))
	if got := lists.Next(t); got.JSON != `{"type":"bcp_subscriptions_active","subscriptions":[{"subscription_id":"secret","controller":"boss","category":1,"fields":[{"name":"x","type":"boolean"}]}]}` {
		t.Errorf("got %s", got.JSON)
	}
}

// both listens to queries and deliveries in one inbox, in their order.
func both(t *testing.T, a *meshtest.Agent) *meshtest.Inbox {
	t.Helper()
	inbox := a.Queries(t)
	inbox.Join(t, subjects.DeliveriesOf(a.Role, a.Name))
	return inbox
}

// A Reader that listens to queries alone gets them all the same, a moment
// later.
//
// covers P9.2, P9.5
func TestOfflineReader(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	main := controller(t, m, "main")
	var ids []bcp.QueryID
	for range 3 {
		ids = append(ids, main.Accepted(t, "mailer", askUrgent))
	}
	mailer := m.Connect(t, "mailer", bcp.RoleReader)
	queries := mailer.Queries(t)
	for _, id := range ids {
		query := queries.Next(t)
		expect(t, query.Text("query_id"), string(id), "the query")
		mailer.Answer(t, query, isUrgent)
		carries(t, main.delivery(t), "query_id", string(id), "delivery")
	}
	// It drops its connection with a query open, and gets it again.
	id := main.Accepted(t, "mailer", askUrgent)
	queries.NextOf(t, meshtest.With("query_id", id))
	mailer.Close()
	m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindDisconnect && d.Agent == "mailer" })
	again := reader(t, m, "mailer")
	again.Answer(t, again.queries.NextOf(t, meshtest.With("query_id", id)), isUrgent)
	carries(t, main.delivery(t), "query_id", string(id), "delivery")
}

// covers SUB-4, P9.1, P9.2, P2.4
func TestDeliveriesWaitAndRepeat(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	mailer := reader(t, m, "mailer")
	const n = 100 // more than one window
	for i := range n {
		succeeded(t, mailer.Push(t, "main", "alerts", `{"urgent":true}`, fmt.Sprintf(`,"push_id":"p%d"`, i)))
	}
	main := m.Connect(t, "main", bcp.RoleController)
	told := main.Deliveries(t)
	// Nothing is acknowledged: the first window comes twice, the same bytes.
	seen := map[string]string{}
	var order []string
	for repeated := 0; repeated < 10; {
		d := told.Next(t)
		id := d.Text("delivery_id")
		if before, ok := seen[id]; !ok {
			seen[id], order = d.JSON, append(order, id)
		} else if repeated++; before != d.JSON {
			t.Errorf("sent again as %s, before %s", d.JSON, before)
		}
		if ok := strings.HasPrefix(d.Reply, subjects.Reply(bcp.RoleController, "main", bcp.DeliveryID(id), 0)); !ok || len(d.Header) > 0 {
			t.Errorf("reply %s, header %v", d.Reply, d.Header)
		}
	}
	var recorded []string
	for _, d := range m.WaitCount(t, n, meshtest.Of(bcp.KindPush)) {
		recorded = append(recorded, string(d.Delivery))
	}
	holds(t, inOrder(order, recorded), "delivered in the order %v, decided in %v", order, recorded)
	main.Close()
	m.Wait(t, by(bcp.KindDisconnect, "main"))
	// Another connection acknowledges all, and gets the rest in order.
	next := controller(t, m, "main")
	var rest []string
	for range n {
		rest = append(rest, next.delivery(t).Text("delivery_id"))
	}
	holds(t, inOrder(rest, recorded), "delivered in the order %v, decided in %v", rest, recorded)
	m.WaitCount(t, n, meshtest.Of(bcp.KindAcknowledge))
}

// inOrder reports whether deliveries came in the order of decisions. What was sent
// before a slow client listened comes later, in its order too.
func inOrder(delivered, decided []string) bool {
	first := slices.Index(decided, delivered[0])
	next, late := first, 0
	for _, id := range delivered {
		switch i := slices.Index(decided, id); i {
		case next:
			next++
		case late:
			late++
		default:
			return false
		}
	}
	return late <= first
}
