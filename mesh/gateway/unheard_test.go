package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A Controller that takes a while to subscribe hears what waits for it, deliveries and
// prompts, within another such while: also on a new connection, however long it did not
// listen on the one before. While it does not, little is sent.
//
// covers P9.1, P9.4, A-RECONN
func TestLateSubscriberHearsSoon(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	begin := time.Date(2030, 1, 1, 11, 59, 0, 0, time.UTC)
	schedule := "\ncron_schedules: [{schedule: \"0 12 * * *\", message: \"Ask for news.\"}]\nbcp_channels"
	b.definition = meshtest.Parse(t, map[string]string{
		"main.md": strings.Replace(mainFile, "\nbcp_channels", schedule, 1), "mailer.md": mailerFile,
	})
	clock := newClock(begin)
	g := b.start(t, clock.set, func(c *gateway.Config) { c.State.Schedules = definition.ParseSchedule })
	mailer := b.agent(t, "mailer")
	noError(t, pushUntilAccepted(mailer.Conn, "p"))
	clock.pass(time.Minute)

	// pass lets time pass, until it is up or something has come. Each answer to main comes
	// behind what was sent to it before, and behind the server's word that nobody listened.
	pass := func(main *meshtest.Agent, d time.Duration, came func() bool) (passed time.Duration) {
		t.Helper()
		const tick = 20 * time.Millisecond
		for ; passed < d && !came(); passed += tick {
			clock.pass(tick)
			for range 3 {
				main.Request(t, subjects.Session("main"), `{"verb":"channels"}`)
			}
		}
		return passed
	}
	never := func() bool { return false }
	first := b.agent(t, "main")
	g.wait(t, 1, of(bcp.KindPrompt))
	pass(first, 30*time.Second, never)
	first.Close()
	g.wait(t, 1, of(bcp.KindDisconnect))

	main := b.agent(t, "main")
	g.wait(t, 3, of(bcp.KindConnect))
	const late = 2 * time.Second
	pass(main, late, never)
	var sendings [2]atomic.Int64 // of the delivery and of the prompt, both from 1
	must(main.Conn.Subscribe(subjects.DeliveriesOf(bcp.RoleController, "main"), func(m *nats.Msg) {
		s, err := subjects.Parse(m.Reply)
		failIf(t, err != nil, "%v", err)
		i := 0
		if strings.Contains(string(m.Data), "Ask for news.") {
			i = 1
		}
		sendings[i].CompareAndSwap(0, int64(s.Attempt)+1)
	}))
	passed := pass(main, late, func() bool { return sendings[0].Load() > 0 && sendings[1].Load() > 0 })
	for i, what := range []string{"delivery", "prompt"} {
		n := sendings[i].Load()
		failIf(t, n == 0 || n > 60, "%v after it subscribed, it has the %s of sending %d (0 is none)", passed, what, n)
	}
}

// A Controller that is connected long before it subscribes gets its deliveries in the
// order in which they were pushed: one that nobody heard is not overtaken.
//
// covers P9.1, A-RECONN
func TestLateSubscriberHearsInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	clock := newClock(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	g := b.start(t, clock.set)
	mailer := b.agent(t, "mailer")
	const pushed = 20
	for i := range pushed {
		noError(t, pushUntilAccepted(mailer.Conn, fmt.Sprintf("p%d", i)))
	}
	var want []string
	for _, d := range g.wait(t, pushed, of(bcp.KindPush)) {
		want = append(want, string(d.Delivery))
	}
	main := b.agent(t, "main")
	g.wait(t, 2, of(bcp.KindConnect))
	var told *meshtest.Inbox
	var got []string
	known := map[string]bool{}
	for tick := 0; len(got) < pushed; tick++ {
		if tick == 100 {
			told = main.Deliveries(t)
		}
		stopIf(t, tick > 1000, "%d of %d came", len(got), pushed)
		clock.pass(20 * time.Millisecond)
		for range 3 { // behind the server's word that nobody listened
			main.Request(t, subjects.Session("main"), `{"verb":"channels"}`)
		}
		if told == nil {
			continue
		}
		for _, m := range told.Taken(t) {
			main.Acknowledge(t, m)
			if id := m.Text("delivery_id"); !known[id] {
				known[id] = true
				got = append(got, id)
			}
		}
	}
	failIf(t, !slices.Equal(got, want), "got %v\nwant %v", got, want)
}
