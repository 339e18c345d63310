package mesh_test

import (
	"context"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	colours   = "vocabularies: {colours: [red, green, blue]}\n"
	askColour = `{"category":2,"questions":[{"id":"c","question":"Which?","max_words":1,"expected_format":"vocabulary","vocabulary":"colours"}]}`
)

// A mesh goes on with definitions that were edited while it rested: a smaller
// budget, a channel that is gone and comes back, a word list that an open query
// needs.
//
// covers P1.5, P4.4, SUB-41, SUB-129, SUB-130
func TestRestartWithOtherDefinitions(t *testing.T) {
	t.Parallel()
	withOther := func(budget int) map[string]string {
		return map[string]string{
			"main.md":   agentFile("main", "", controls("mailer", budget, alerts), controls("clerk", 100)),
			"mailer.md": agentFile("mailer", "", reads("main")),
			"clerk.md":  agentFile("clerk", "", reads("main")),
			"mesh.yaml": colours,
		}
	}
	m := meshtest.Start(t, withOther(100))
	main, mailer := connect(t, m)
	succeeded(t, mailer.Push(t, "main", "notes", `{"note":"rain"}`, `,"push_id":"p1"`))
	main.delivery(t)
	open := main.Accepted(t, "mailer", askUrgent)
	colour := main.Accepted(t, "mailer", askColour)
	clerks := main.Accepted(t, "clerk", askUrgent)
	m.WaitCount(t, 1, meshtest.Of(bcp.KindAcknowledge))

	// 44 and 1 are spent, and 11 or, once it has failed, 1: nothing is left, and
	// what is open goes on.
	m.Stop(t)
	m.Definition = meshtest.Parse(t, map[string]string{
		"main.md":   agentFile("main", "", controls("mailer", 46, strings.Replace(alerts, "  - id: digest", "  - id: summary", 1))),
		"mailer.md": agentFile("mailer", "", reads("main")),
	})
	m.Start(t)
	main, mailer = connect(t, m)
	coded(t, main.Ask(t, "mailer", askUrgent), "budget_exhausted")
	coded(t, mailer.Push(t, "main", "alerts", `{"urgent":true}`, ""), "budget_exhausted")
	if r := mailer.Push(t, "main", "summary", `{"summary":"one two three four five six seven eight nine ten eleven"}`, ""); r.Text("code") != "validation_failed" {
		t.Errorf("the new subscription: %s", r.JSON)
	}
	if d := main.delivery(t); d.Text("query_id") != string(colour) || d.Text("outcome") != "cancelled" {
		t.Errorf("the query without its word list: %s", d.JSON)
	}
	query := mailer.queries.Next(t)
	mailer.Answer(t, query, isUrgent)
	if d := main.delivery(t); d.Text("query_id") != string(open) || !contains(d, `"response":{"urgent":true}`) {
		t.Errorf("delivery %s", d.JSON)
	}
	acknowledged := m.WaitCount(t, 3, meshtest.Of(bcp.KindAcknowledge))
	if b := acknowledged[2].Balance; b.Settled < 45*bcp.Bit || b.Reserved != 0 {
		t.Errorf("balance %+v", b)
	}

	// Everything as it was at first: what was open on the channel that was gone ended then.
	m.Stop(t)
	m.Definition = meshtest.Parse(t, withOther(100))
	m.Start(t)
	main = controller(t, m, "main")
	if r := main.Ask(t, "mailer", askUrgent); r.Fields["remaining_bits"] != float64(100*bcp.Bit-acknowledged[2].Balance.Settled-bcp.Bit)/1e9 {
		t.Errorf("receipt %s", r.JSON)
	}
	if d := main.delivery(t); d.Text("query_id") != string(clerks) || d.Text("outcome") != "cancelled" {
		t.Errorf("delivery %s", d.JSON)
	}
	checkStreams(t, m)
}

// covers SUB-8, P7.6, P9.2, P6.2
func TestSessions(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	main, mailer := connect(t, m)
	session := func(verb string) string {
		r := main.Request(t, subjects.Session("main"), `{"type":"bcp_session","verb":"`+verb+`"}`)
		if r.Text("session_id") == "" {
			t.Fatal(r.JSON)
		}
		return r.Text("session_id")
	}
	first := session("open")
	id := main.Accepted(t, "mailer", askUrgent)
	query := mailer.queries.Next(t)
	expect(t, session("close"), first, "another session was closed")
	// Its open query is cancelled, at the price of a failure.
	if d := main.delivery(t); d.Text("query_id") != string(id) || d.Text("outcome") != "cancelled" || d.Fields["bandwidth_bits"] != 1.0 {
		t.Errorf("delivery %s", d.JSON)
	}
	mailer.Answer(t, query, isUrgent)
	coded(t, mailer.result(t), "cancelled")
	holds(t, session("open") != first, "a closed session goes on")
	for _, text := range []string{"", "{}", `{"verb":"destroy"}`, `{"verb":"open","verb":"open"}`, `{"verb":"open","subscriptions":[]}`} {
		coded(t, main.Request(t, subjects.Session("main"), text), "malformed", text)
	}
}

// A Controller hears of its own channels alone, in the midst of whatever it does,
// and it leaves no record; a Reader hears which of the protocol's tools it has.
//
// covers P9.6, P9.3
func TestControllerListsItsChannels(t *testing.T) {
	t.Parallel()
	files := pair(1000)
	files["boss.md"] = agentFile("boss", "", controls("mailer", 77))
	files["mailer.md"] = agentFile("mailer", "description: Reads mail.\ntools: Read, BCPPublish, BCPRespond\n", reads("main"), reads("boss"))
	m := meshtest.Start(t, in(files, bcp.MessagePack))
	main := controller(t, m, "main")
	mailer := m.Connect(t, "mailer", bcp.RoleReader)
	if told := mailer.Deliveries(t).Next(t); !strings.Contains(told.JSON, `"tools":["BCPPublish","BCPRespond"]`) {
		t.Errorf("the Reader hears %s", told.JSON)
	}
	main.Accepted(t, "mailer", askUrgent)
	m.Settle(t)
	before := len(m.Decisions())
	list := main.Request(t, subjects.Session("main"), `{"verb":"channels"}`)
	for _, part := range []string{`"type":"bcp_channels"`, `"reader":"mailer"`, `"description":"Reads mail."`, `"remaining_bits":999`, `"subscription_id":"digest"`} {
		holds(t, strings.Contains(list.JSON, part), "%s is not in %s", part, list.JSON)
	}
	if strings.Contains(list.JSON, "boss") || strings.Contains(list.JSON, "77") {
		t.Errorf("it hears of another Controller: %s", list.JSON)
	}
	m.Settle(t)
	for _, d := range m.Decisions()[before:] {
		holds(t, d.Kind != bcp.KindSession, "there is a record: %+v", d)
	}
}

// covers A-GUESS, P1.1
func TestQueryIDs(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(100000))
	main := controller(t, m, "main")
	seen := map[string]bool{}
	letters := map[byte]int{}
	const n = 500
	for range n {
		id := string(main.Accepted(t, "mailer", askUrgent))
		if _, err := bcp.ParseQueryID(id); err != nil || seen[id] || len(id) != 27 {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
		for i := range len(id) - 1 {
			letters[id[1+i]]++
		}
	}
	// 26 letters of 32 are 130 bits, if all are about equally frequent.
	for letter, count := range letters {
		if mean := n * 26 / 32; count < mean*2/3 || count > mean*3/2 {
			t.Errorf("%c stands there %d times", letter, count)
		}
	}
	expect(t, len(letters), 32, "letters")
}

// covers P9.2
func TestLifecycle(t *testing.T) {
	t.Parallel()
	if m, err := mesh.Start(t.Context(), mesh.Config{State: t.TempDir()}); err == nil || m != nil {
		t.Errorf("a mesh without definitions runs: %v", err)
	}
	if m, err := mesh.Start(t.Context(), mesh.Config{Definition: meshtest.Parse(t, pair(1))}); err == nil || m != nil {
		t.Errorf("a mesh without a state folder runs: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := must(mesh.Start(ctx, mesh.Config{Definition: meshtest.Parse(t, pair(1)), State: t.TempDir()}))
	cancel()
	<-m.Done()
	for range 2 {
		if err := m.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if m, err := mesh.Start(ctx, mesh.Config{Definition: meshtest.Parse(t, pair(1)), State: t.TempDir()}); err == nil || m != nil {
		t.Errorf("a mesh runs although its context has ended: %v", err)
	}
}
