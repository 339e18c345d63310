package gateway_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A second connection of a Reader gets the list of subscriptions and the open
// queries also where the first, which acknowledges for it, is quicker than it
// listens.
//
// covers P9.3, P9.5, A-RECONN
func TestSecondConnectionIsGreeted(t *testing.T) {
	t.Parallel()
	clock := newClock(time.Now())
	b, g, main, first := served(t, clock.set)
	acknowledged := make(chan struct{}, 1024)
	must(first.Subscribe(subjects.DeliveriesOf(bcp.RoleReader, "mailer"), func(m *nats.Msg) {
		if m.Respond(nil) == nil {
			acknowledged <- struct{}{}
		}
	}))
	queries := first.Queries(t)
	// await waits until something comes, and lets so much time pass each moment.
	await := func(what string, step time.Duration, came func() bool) {
		t.Helper()
		eventually(t, what, func() bool { clock.pass(step); return came() })
	}
	took := func() bool {
		select {
		case <-acknowledged:
			return true
		default:
			return false
		}
	}
	await("list for the first", time.Millisecond, took)
	id := main.Accepted(t, "mailer", askUrgent)
	got := queries.Next(t)
	stopIf(t, got.Text("query_id") != string(id), "got %s", got.JSON)
	for took() {
	}

	second := b.agent(t, "mailer")
	g.wait(t, 2, func(d *bcp.Decision) bool { return d.Kind == bcp.KindConnect && d.Agent == "mailer" })
	// However long the acknowledgement takes, it comes early: the clock stands.
	await("list after the second came", 0, took)
	main.Accepted(t, "mailer", askUrgent) // by now the gateway has seen the acknowledgement
	lists, open := make(chan *nats.Msg, 1024), make(chan *nats.Msg, 1024)
	for pattern, to := range map[string]chan *nats.Msg{subjects.DeliveriesOf(bcp.RoleReader, "mailer"): lists, subjects.QueriesOf("mailer"): open} {
		must(second.ChanSubscribe(pattern, to))
	}
	noError(t, second.FlushTimeout(meshtest.Patience))
	clock.pass(100 * time.Millisecond) // less than the gateway's patience
	await("list for the second", 0, func() bool { return len(lists) > 0 })
	await("open query for the second", time.Millisecond, func() bool { return len(open) > 0 })
}
