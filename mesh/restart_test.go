package mesh_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// A mesh is stopped and started at every step of a query and of a push.
//
// covers SUB-128, SUB-141, P4.5, P9.1, P9.5, A-RECONN, A-RDRRESET
func TestRestartAtEveryStep(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	ask, push := withID(askUrgent, "request_id", "r1"), `,"push_id":"p1"`

	// Asked, and the Reader is away.
	main := controller(t, m, "main")
	receipt := main.Ask(t, "mailer", ask)
	id := bcp.QueryID(receipt.Text("query_id"))
	m.Restart(t)
	main = controller(t, m, "main")
	again := main.Ask(t, "mailer", ask)
	stopIf(t, again.JSON != receipt.JSON, "receipt %s, then %s", receipt.JSON, again.JSON)
	mailer := reader(t, m, "mailer")
	query := mailer.queries.Next(t)

	// The Reader has it.
	m.Restart(t)
	mailer = reader(t, m, "mailer")
	again = mailer.queries.Next(t)
	stopIf(t, again.JSON != query.JSON, "query %s, then %s", query.JSON, again.JSON)
	main = controller(t, m, "main")
	second := main.Accepted(t, "mailer", askWho)
	query = mailer.queries.Next(t)
	mailer.Answer(t, query, `"response":{}`)
	mailer.result(t)

	// An answer was rejected, another query is open: both come, in order.
	m.Restart(t)
	mailer = reader(t, m, "mailer")
	for _, want := range []bcp.QueryID{id, second} {
		query = mailer.queries.Next(t)
		stopIf(t, query.Text("query_id") != string(want), "query %s", query.JSON)
		mailer.Answer(t, query, map[bcp.QueryID]string{id: isUrgent, second: isWho}[want])
		mailer.result(t)
	}

	// Answered and pushed, and the Controller is away.
	result := mailer.Push(t, "main", "alerts", `{"urgent":false}`, push)
	m.Restart(t)
	mailer = reader(t, m, "mailer")
	again = mailer.Push(t, "main", "alerts", `{"urgent":false}`, push)
	stopIf(t, again.JSON != result.JSON, "result %s, then %s", result.JSON, again.JSON)
	main = controller(t, m, "main")
	first := main.told.Next(t)
	stopIf(t, first.Text("query_id") != string(id), "delivery %s", first.JSON)

	// Delivered, and not acknowledged.
	m.Restart(t)
	main = controller(t, m, "main")
	again = main.delivery(t)
	stopIf(t, again.JSON != first.JSON, "delivery %s, then %s", first.JSON, again.JSON)
	d := main.delivery(t)
	stopIf(t, d.Text("query_id") != string(second), "delivery %s", d.JSON)
	acknowledged := func(n int) { m.WaitCount(t, n, meshtest.Of(bcp.KindAcknowledge)) }
	acknowledged(2)

	// One is still to be acknowledged, two things wait for a person.
	m.Restart(t)
	mailer = reader(t, m, "mailer")
	r := mailer.Push(t, "main", "digest", `{"summary":"All is well."}`, "")
	stopIf(t, r.Text("status") != "held", "%v", r.JSON)
	main = controller(t, m, "main")
	d = main.delivery(t)
	stopIf(t, d.Text("subscription_id") != "alerts", "delivery %s", d.JSON)
	gate := main.Accepted(t, "mailer", askSum)
	d = main.delivery(t)
	stopIf(t, d.Text("outcome") != "held" || d.Text("query_id") != string(gate), "delivery %s", d.JSON)
	acknowledged(4)
	items := m.Items(t)
	m.Restart(t)
	if again := m.Items(t); again != items || strings.Count(again, "item_id") != 2 {
		t.Errorf("items %s, then %s", items, again)
	}
	main, mailer = connect(t, m)
	m.Settle(t)
	nothing(t, main.rest(t), "delivered once more")
	if got := mailer.queries.Taken(t); len(got) > 0 {
		t.Errorf("asked once more: %s", got[0].JSON)
	}
	// 1 + 66 + 1 for what was delivered, 110 for what is held, 110 in reserve.
	last := main.Ask(t, "mailer", askUrgent)
	expect(t, last.Fields["remaining_bits"], 1000.0-1-66-1-110-110-1, "receipt %s", last.JSON)
	checkStreams(t, m)
}

// checkStreams stops the mesh and reads all its streams.
func checkStreams(t *testing.T, m *meshtest.Mesh) meshtest.Journal {
	t.Helper()
	if m.Mesh != nil {
		decisions := m.Decisions()
		project(t, m, decisions[len(decisions)-1].Seq)
		m.Stop(t)
	}
	js, end := m.Streams(t)
	defer end()
	budgets := map[string]int64{}
	for _, c := range m.Definition.Channels {
		budgets[string(c.Controller)+" "+string(c.Reader)] = int64(c.Budget)
	}
	journal := must(meshtest.CheckStream(t, js, budgets))
	meshtest.CheckProjections(t, js, journal.Decisions)
	return journal
}

func project(t *testing.T, m *meshtest.Mesh, seq uint64) {
	t.Helper()
	ctx := within(t, meshtest.Patience)
	noError(t, m.Projected(ctx, seq))
}

// Starting and stopping leaves nothing behind, also where two start at once.
func TestOneMeshAtATime(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	second := meshtest.Prepare(t, pair(1000))
	second.State = m.State
	fails(t, second.TryStart(t), nil, "two meshes run on one state folder")
	for range 3 {
		m.Restart(t)
	}
	counts(t, m, 4, meshtest.Of(bcp.KindStart))
}
