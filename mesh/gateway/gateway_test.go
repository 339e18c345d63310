package gateway_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Without a record nobody hears of anything but that it is unavailable, and
// afterwards everything goes on: agents that connected meanwhile too.
//
// covers BCP-38, P11.1, P10, P4.5
func TestNoRecordNoRelease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.start(t)
	main := b.agent(t, "main")
	told := main.Deliveries(t)
	mailer := b.agent(t, "mailer")
	succeeded(t, mailer.Request(t, pushAlert, alert(`,"push_id":"p1"`)))
	first := told.Next(t)
	main.Acknowledge(t, first)
	g.wait(t, 1, of(bcp.KindAcknowledge))
	mailer.Close()
	g.wait(t, 1, of(bcp.KindDisconnect))

	operator := b.operator(t)
	alerts := operator.Listen(t, subjects.Alerts())
	b.full(t, jetstream.CommitStream, true)
	expect(t, main.Ask(t, "mailer", askUrgent).JSON, `{"error":"unavailable","detail":"the gateway cannot record a decision now"}`, "receipt")
	alerts.NextOf(t, meshtest.With("alert", bcp.AlertJournal))
	// It connects while nothing can be recorded.
	mailer = b.agent(t, "mailer")
	queries := mailer.Queries(t)
	push := alert(`,"push_id":"p2"`)
	r := mailer.Request(t, pushAlert, push)
	failIf(t, r.Text("code") != "unavailable" || r.Fields["success"] != false, "result %s", r.JSON)
	for _, d := range told.Taken(t) {
		if d.JSON != first.JSON { // which may come twice
			t.Errorf("delivered: %s", d.JSON)
		}
	}

	b.full(t, jetstream.CommitStream, false)
	noError(t, pushUntilAccepted(mailer.Conn, "p2"))
	told.NextOf(t, meshtest.With("type", "bcp_response_delivery"))
	id := main.Accepted(t, "mailer", askUrgent)
	mailer.Answer(t, queries.NextOf(t, meshtest.With("query_id", id)), `"response":{"urgent":true}`)
	told.NextOf(t, meshtest.With("query_id", id))
	noError(t, g.Stop())
	j := b.journal(t)
	failIf(t, j.Pushes["main mailer p1"] != 1 || j.Pushes["main mailer p2"] != 1, "pushes %v", j.Pushes)
}

// A decision that was stored, though nobody acknowledged it, is told of all the same
// when the journal is read again, once and in its place: who counts decisions misses
// none, and a query wakes the command of its Reader.
//
// covers P11.1, P4.5, P9.4
func TestUnacknowledgedDecisionsAreTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	woken := make(chan bcp.AgentName, 100)
	g := b.start(t, func(c *gateway.Config) { c.Wake = func(agent bcp.AgentName) { woken <- agent } })
	main := b.agent(t, "main")
	g.wait(t, 1, of(bcp.KindConnect))
	b.unacknowledged(t, func() {
		noError(t, main.Conn.Publish(subjects.Ask("main", "mailer"), []byte(askUrgent)))
	})
	g.Unwritten("the test says so")
	g.wait(t, 2, of(bcp.KindStart))
	expect(t, len(g.wait(t, 1, of(bcp.KindAsk))), 1, "told of asks")
	expect(t, next(t, woken, "somebody is woken"), "mailer", "was woken")
	main.Accepted(t, "mailer", askUrgent)
	for i, d := range g.wait(t, 5, func(*bcp.Decision) bool { return true }) {
		expect(t, d.Seq, uint64(i+1), "the number of a decision")
	}
}

// Where the gateway's own connections are lost, agents that keep theirs get again what
// they have not answered: the question or the answer may have been on its way.
//
// covers P9.1, P9.5, A-RECONN
func TestLostLinksLoseNothing(t *testing.T) {
	t.Parallel()
	_, g, main, mailer := served(t)
	queries, deliveries := mailer.Queries(t), main.Deliveries(t)
	id := main.Accepted(t, "mailer", askUrgent)
	first := queries.Next(t)
	succeeded(t, mailer.Request(t, pushAlert, alert("")))
	delivery := deliveries.Next(t)
	for _, conn := range g.conns[1:] { // but the journal's
		noError(t, conn.ForceReconnect())
	}
	if again := queries.Next(t); again.Text("query_id") != string(id) || again.Reply == first.Reply {
		t.Errorf("asked %s on %s, then %s on %s", first.JSON, first.Reply, again.JSON, again.Reply)
	}
	expect(t, deliveries.Next(t).JSON, delivery.JSON, "delivered")
	expect(t, len(g.wait(t, 2, of(bcp.KindConnect))), 2, "connections began")
}

// Agents share sixteen connections, and one more agent is no further connection; who is
// heard over which makes no difference to them. On a cluster, where nothing paces what
// agents send, each has its own.
//
// covers A-FLOODRESP
func TestAgentsShareConnections(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		readers int
		cluster bool
		want    int
	}{{11, false, 15}, {12, false, 16}, {13, false, 16}, {13, true, 17}} {
		t.Run(fmt.Sprintf("%d agents and people, cluster %t", 4+test.readers, test.cluster), func(t *testing.T) {
			files := map[string]string{}
			main := "---\nname: main\nbcp_channels:\n"
			for i := range test.readers {
				name := fmt.Sprintf("reader%02d", i)
				files[name+".md"] = strings.Replace(mailerFile, "mailer", name, 1)
				main += "  - {peer: " + name + ", role: controller, max_category: 1, budget_bits: 1000}\n"
			}
			files["main.md"] = main + "---\n"
			b := benchOf(t, files)
			b.createStreams(t)
			g := b.start(t, func(c *gateway.Config) { c.Cluster = test.cluster })
			n, shares := g.Links()
			failIf(t, n != test.want || shares != 4+test.readers, "%d of %d connections", n, shares)
			asker, last := b.agent(t, "main"), b.agent(t, bcp.AgentName(fmt.Sprintf("reader%02d", test.readers-1)))
			queries := last.Queries(t)
			g.wait(t, 2, of(bcp.KindConnect))
			id := asker.Accepted(t, last.Name, askUrgent)
			expect(t, queries.Next(t).Text("query_id"), string(id), "query")
		})
	}
}

// A connection that nobody shares any more is closed: on a cluster that of an agent that the
// definitions do not have.
//
// covers P1.5
func TestConnectionsOfAgentsThatWent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.start(t, func(c *gateway.Config) { c.Cluster = true })
	before, _ := g.Links()
	next := state.Config{Constraints: constraint.Compile, Version: "test", Definitions: bcp.Digest{1}, Mesh: meshtest.Parse(t, map[string]string{"main.md": "---\nname: main\n---\n"})}
	noError(t, g.Reload(t.Context(), next, []string{"- mailer"}, func() error { return nil }))
	after, shares := g.Links()
	open := 0
	for _, conn := range g.conns[1:] { // but the journal's
		if !conn.IsClosed() {
			open++
		}
	}
	failIf(t, after >= before || after != shares || open != after,
		"%d connections, then %d for %d, and %d are open", before, after, shares, open)
}

// Nothing is recorded before the keys are stored that it is sealed under.
//
// covers P11.1, P11.5
func TestNoKeyNoRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.start(t)
	mailer := b.agent(t, "mailer")
	g.wait(t, 1, of(bcp.KindConnect))
	must(b.js.Publish(t.Context(), subjects.Key("other", "mailer", subjects.SealedRaw, "2026-03-15"), make([]byte, 32)))
	b.full(t, jetstream.KeyStream, true) // one is enough
	push := alert(`,"push_id":"p1"`)
	r := mailer.Request(t, pushAlert, push)
	failIf(t, r.Text("code") != "unavailable" || r.Fields["success"] != false, "result %s", r.JSON)
	b.full(t, jetstream.KeyStream, false)
	noError(t, pushUntilAccepted(mailer.Conn, "p1"))
	noError(t, g.Stop())
	expect(t, b.journal(t).Pushes["main mailer p1"], 1, "pushes")
}

// What is on a subject that no builder makes, and what has a reply subject of
// its sender's own, gets no decision and no answer.
//
// covers A-SUBJTOK, A-REPLY
func TestForeignSubjects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.start(t)
	// Only the gateway's own account can say any of this.
	conn := b.core(t)
	answers := make(chan *nats.Msg, 100)
	must(conn.ChanSubscribe("answers.>", answers))
	for _, subject := range []string{
		"bcp.v1.ask.main.*", "bcp.v1.ask.main.>", "bcp.v1.ask.MAIN.mailer", "bcp.v1.ask.main.gateway", "bcp.v1.ask.main._", "bcp.v1.ask.mäin.mailer", "bcp.v1.ask.-main.mailer",
		"bcp.v1.push.mailer.main.a_b", "bcp.v1.push.mailer.main.*", "bcp.v1.push.mailer.main." + strings.Repeat("x", 65), "bcp.v1.session.main\x00", "bcp.v1.session.gateway",
		"bcp.v1.reply.reader.mailer.q.1.2", "bcp.v1.reply.reader.mailer.q.x", "bcp.v1.reply.reader.mailer.q.01", "bcp.v1.reply.owner.main.d1", "bcp.v1.approval.alice.destroy",
	} {
		noError(t, conn.PublishMsg(&nats.Msg{Subject: subject, Reply: "answers.x", Data: []byte(askUrgent)}))
	}
	// Reply subjects that are no inbox of the sender: the message is only counted.
	for _, reply := range []string{"answers.ask", subjects.InboxPrefix("mailer") + ".x", subjects.InboxPrefix("main")} {
		noError(t, conn.PublishRequest(subjects.Ask("main", "mailer"), reply, []byte(askUrgent)))
	}
	g.wait(t, 1, of(bcp.KindRefusals))
	if err := conn.Publish(subjects.Ask("main", "mailer"), []byte(askUrgent)); err != nil { // behind them, and it wants no answer
		t.Fatal(err)
	}
	asks := g.wait(t, 1, of(bcp.KindAsk))
	noError(t, g.Stop())
	noError(t, conn.FlushTimeout(meshtest.Patience))
	for len(answers) > 0 {
		// The server itself says so where nobody listens.
		expect(t, (<-answers).Header.Get("Status"), "503", "an answer's status")
	}
	refused, asked := 0, 0
	for _, d := range g.decisions {
		switch d.Kind {
		case bcp.KindRefusals:
			refused += d.Count
		case bcp.KindAsk:
			asked++
		}
	}
	failIf(t, len(asks) != 1 || asked != 1 || refused != 3, "%d asks were decided, %d refusals counted", asked, refused)
}

// silence is longer than the gateway waits for a Reader's acknowledgement.
const silence = 300 * time.Millisecond

// What the server sends back when nobody listens is neither an answer nor an
// acknowledgement.
//
// covers P9.1, P9.3
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	_, g, main, mailer := served(t)
	id := main.Accepted(t, "mailer", askUrgent)
	succeeded(t, mailer.Request(t, pushAlert, alert("")))
	// Both have had several copies by the time that the Reader is given up for
	// one that does not acknowledge its subscriptions.
	for start := time.Now(); time.Since(start) < 2*silence; {
		main.Ask(t, "mailer", `{"category":9}`)
	}
	told, queries := main.Deliveries(t), mailer.Queries(t)
	main.Acknowledge(t, told.Next(t))
	query := queries.Next(t)
	expect(t, query.Text("query_id"), string(id), "query %s", query.JSON)
	mailer.Answer(t, query, `"response":{"urgent":true}`)
	got := g.wait(t, 1, of(bcp.KindAnswer))
	failIf(t, got[0].Verdict != bcp.Accept || got[0].RawBytes == 0, "%+v", got[0])
	g.wait(t, 1, of(bcp.KindAcknowledge))
}

// Who says with the server's words that nobody listens has not answered: it gets
// the query or the delivery again. A push that says so is refused like any other
// that is malformed.
//
// covers A-REPLY, P9.5
func TestForgedSilence(t *testing.T) {
	t.Parallel()
	_, g, main, mailer := served(t)
	told, queries := main.Deliveries(t), mailer.Queries(t)
	handshake := mailer.Deliveries(t).NextOf(t, meshtest.With("type", bcp.TypeSubscriptionsActive))
	mailer.Acknowledge(t, handshake)
	silence := func(subject string) *nats.Msg {
		return &nats.Msg{Subject: subject, Header: nats.Header{"Status": {"503"}}}
	}
	id := main.Accepted(t, "mailer", askUrgent)
	seen := map[string]bool{}
	for range 3 {
		query := queries.Next(t)
		stopIf(t, query.Text("query_id") != string(id) || seen[query.Reply],
			"query %s with reply subject %s", query.JSON, query.Reply)
		seen[query.Reply] = true
		noError(t, mailer.PublishMsg(silence(query.Reply)))
	}
	mailer.Answer(t, queries.Next(t), `"response":{"urgent":true}`)
	first := told.Next(t)
	noError(t, main.PublishMsg(silence(first.Reply)))
	again := told.Next(t)
	failIf(t, again.Reply == first.Reply || again.JSON != first.JSON, "%s, then %s", first.JSON, again.JSON)
	main.Acknowledge(t, again)
	receipt, err := mailer.RequestMsg(silence(pushAlert), meshtest.Patience)
	failIf(t, err != nil || !strings.Contains(string(receipt.Data), string(bcp.Malformed)), "%s, %v", receipt.Data, err)
	g.wait(t, 1, of(bcp.KindPush))
	if answers := g.wait(t, 1, of(bcp.KindAnswer)); len(answers) != 1 || answers[0].Verdict != bcp.Accept || answers[0].Attempt != 0 {
		t.Errorf("%d answers, the first %v as attempt %d", len(answers), answers[0].Verdict, answers[0].Attempt)
	}
	g.wait(t, 1, of(bcp.KindAcknowledge))
}

// The greatest answers, more at once than one record can hold.
//
// covers P4.5, A-CRASH
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.start(t)
	mailer := b.agent(t, "mailer")
	word := strings.Repeat("\u30ad\u30ed\u30e1 ", 1000)
	const n = 200
	results := mailer.Listen(t, subjects.InboxPrefix("mailer")+".r")
	for i := range n {
		text := meshtest.PushText("main", "texts", `{"text":"`+word+`"}`, fmt.Sprintf(`,"push_id":"p%d"`, i))
		noError(t, mailer.PublishRequest(subjects.Push("mailer", "main", "texts"), subjects.InboxPrefix("mailer")+".r", []byte(text)))
	}
	for range n {
		succeeded(t, results.Next(t))
	}
	noError(t, g.Stop())
	log := b.log.String()
	failIf(t, strings.Contains(log, "ERROR"), "%.2000s", log)
	j := b.journal(t)
	failIf(t, len(j.Pushes) != n || j.Records < 3, "%d pushes in %d records", len(j.Pushes), j.Records)
	for _, m := range meshtest.ReadStream(t, b.js, jetstream.CommitStream) {
		failIf(t, len(m.Data) > jetstream.MaxRecordBytes+64<<10, "a record of %d bytes", len(m.Data))
	}
}

// The server's permissions are a mesh's that had more: the gateway refuses by
// itself what the definitions no longer have.
//
// covers SUB-10, SUB-113, SUB-41, P10, P1.5
func TestGatewayKnowsOnlyItsDefinitions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.definition = meshtest.Parse(t, map[string]string{
		"main.md": strings.Replace(mainFile, "{id: alerts,", "{id: alarms,", 1), "mailer.md": mailerFile,
	})
	g := b.start(t)
	main, mailer := b.agent(t, "main"), b.agent(t, "mailer")
	want := `{"type":"bcp_validation_result","subscription_id":"alerts","success":false,"status":"refused","code":"subscription_not_found","detail":"No active subscription 'alerts' from controller 'main'"}`
	expect(t, mailer.Request(t, pushAlert, alert("")).JSON, want, "result")
	d := g.wait(t, 1, of(bcp.KindPush))
	failIf(t, d[0].Code != bcp.SubscriptionNotFound || d[0].Nominal != 0, "%+v", d[0])
	main.Accepted(t, "mailer", askUrgent)
	noError(t, g.Stop())

	// Both have their roles, and channels with others.
	b.definition = meshtest.Parse(t, map[string]string{
		"main.md":   "---\nname: main\nbcp_channels: [{peer: clerk, role: controller, max_category: 1, budget_bits: 10}]\n---\n",
		"mailer.md": "---\nname: mailer\nbcp_channels: [{peer: boss, role: reader}]\n---\n",
		"boss.md":   "---\nname: boss\nbcp_channels: [{peer: mailer, role: controller, max_category: 1, budget_bits: 10}]\n---\n",
		"clerk.md":  "---\nname: clerk\nbcp_channels: [{peer: main, role: reader}]\n---\n",
	})
	g = b.start(t)
	coded(t, main.Ask(t, "mailer", askUrgent), "no_channel")
	expect(t, mailer.Request(t, pushAlert, alert("")).JSON, want, "result")
	noError(t, g.Stop())

	// Nobody listens to one in a role that it does not have.
	b.definition = meshtest.Parse(t, map[string]string{"main.md": "---\nname: main\n---\n", "mailer.md": "---\nname: mailer\n---\n"})
	g = b.start(t)
	if _, err := main.Conn.Request(subjects.Ask("main", "mailer"), []byte(askUrgent), meshtest.Patience); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("an ask: %v", err)
	}
	_, err := mailer.Conn.Request(pushAlert, []byte(alert("")), meshtest.Patience)
	failIf(t, !errors.Is(err, nats.ErrNoResponders), "a push: %v", err)
	noError(t, g.Stop())
	failIf(t, slices.ContainsFunc(g.decisions, func(d bcp.Decision) bool { return d.Kind == bcp.KindAsk || d.Kind == bcp.KindPush }),
		"it was decided")
}

// Who asks what waits for an agent whose connection has ended, before the server
// has told of that, hears it then.
//
// covers P9.2
func TestWaitingForOneThatIsLeaving(t *testing.T) {
	t.Parallel()
	_, g, main, mailer := served(t)
	id := main.Accepted(t, "mailer", askUrgent)
	heard := make(chan []string, 1)
	g.Waiting("mailer", func(ids []string) { heard <- ids })
	second := main.Accepted(t, "mailer", askUrgent) // which is behind that
	select {
	case ids := <-heard:
		t.Fatalf("%v wait for one that is connected", ids)
	default:
	}
	mailer.Conn.Close()
	ids := slices.Sorted(slices.Values(next(t, heard, "told what waits")))
	want := slices.Sorted(slices.Values([]string{string(id), string(second)}))
	failIf(t, !slices.Equal(ids, want), "%v wait, not %v", ids, want)
}
