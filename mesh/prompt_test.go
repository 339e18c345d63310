package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// began makes a mesh that rests look as if it had begun a while ago: its journal
// has one start record, with a time of our choice.
func began(t *testing.T, m *meshtest.Mesh, ago time.Duration) {
	t.Helper()
	state := must(state.New(state.Config{
		Mesh: m.Definition, Constraints: constraint.Compile, Schedules: definition.ParseSchedule,
		Definitions: definition.Digest(m.Definition), Version: "test",
	}))
	start := state.DecideStart(bcp.Moment{Now: time.Now().Add(-ago), Fresh: "START"}, "test")
	record := must(bcp.EncodeDecision(&start))
	js, end := m.Streams(t)
	defer end()
	noError(t, jetstream.Create(t.Context(), js, jetstream.Topology{Replicas: 1}))
	journal := must(jetstream.OpenJournal(t.Context(), js))
	noError(t, journal.Replay(t.Context(), func([]byte) error { return nil }))
	noError(t, journal.Append(t.Context(), [][]byte{record}))
}

// A schedule that came up while the mesh rested, a moment ago, prompts its agent
// when that is there: with the operator's text, until it acknowledges, also over
// a restart, and never again then. What is long past is counted. A Controller's
// prompt begins a session.
//
// covers P9.4, P9.2, P4.4
func TestPromptsOverTheWire(t *testing.T) {
	t.Parallel()
	// The last full minute; where it is nearly over, the next one, which comes.
	run := time.Now().UTC().Truncate(time.Minute)
	if time.Since(run) > 50*time.Second {
		run = run.Add(time.Minute)
	}
	once := fmt.Sprintf("%d %d * * *", run.Minute(), run.Hour())
	schedule := func(when, text string) string {
		return fmt.Sprintf("cron_schedules: [{schedule: %q, message: %q}]\n", when, text)
	}
	m := meshtest.Prepare(t, map[string]string{
		"main.md":   agentFile("main", schedule(once, "Ask for news."), controls("mailer", 1000, alerts), controls("clerk", 1000)),
		"mailer.md": agentFile("mailer", schedule(once, "Look for new mail."), reads("main")),
		"clerk.md":  agentFile("clerk", schedule("* * * * *", "Every minute."), reads("main")),
	})
	began(t, m, 10*time.Minute)
	m.Start(t)
	prompted := func(agent bcp.AgentName) bcp.Decision {
		t.Helper()
		return m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindPrompt && d.Agent == agent })
	}
	d := prompted("mailer")
	failIf(t, d.Notice == "" || d.Count != 0 || d.Scheduled != run.UnixNano() || d.Note != "Look for new mail." || d.Session != "",
		"the mailer's run: %+v", d)
	if d := prompted("main"); !d.SessionBegins || d.SessionByDelivery || d.Session == "" || d.Balance.Settled != 0 {
		t.Errorf("main's run: %+v", d)
	}
	if d := prompted("clerk"); d.Notice == "" || d.Count < 8 {
		t.Errorf("the clerk's runs: %+v", d)
	}
	isPrompt := meshtest.With("type", "bcp_prompt")
	want := fmt.Sprintf(`{"type":"bcp_prompt","prompt_id":%q,"message":"Look for new mail.","time":%q}`, d.Notice, run.Format(time.RFC3339))
	check := func(got meshtest.Message) {
		t.Helper()
		failIf(t, got.JSON != want || got.Subject != subjects.Deliver(bcp.RoleReader, "mailer", bcp.Gateway) || len(got.Header) > 0,
			"prompt %s on %s, not %s", got.JSON, got.Subject, want)
	}
	// The agent comes, hears of its subscriptions, and goes without a word.
	mailer := m.Connect(t, "mailer", bcp.RoleReader)
	told := mailer.Deliveries(t)
	mailer.Acknowledge(t, told.NextOf(t, meshtest.With("type", "bcp_subscriptions_active")))
	check(told.NextOf(t, isPrompt))
	mailer.Close()
	m.Restart(t)
	again := reader(t, m, "mailer")
	got := again.told.NextOf(t, isPrompt)
	check(got)
	again.Acknowledge(t, got)
	m.Wait(t, func(a *bcp.Decision) bool { return a.Kind == bcp.KindAcknowledge && a.Notice == d.Notice })
	m.Restart(t)
	again = reader(t, m, "mailer")
	m.Settle(t)
	for _, more := range again.told.Taken(t) {
		holds(t, !isPrompt(more), "and %s", more.JSON)
	}
	// The Controller's comes too, and is no delivery.
	main := m.Connect(t, "main", bcp.RoleController)
	got = main.Deliveries(t).NextOf(t, isPrompt)
	failIf(t, got.Text("message") != "Ask for news." || got.Subject != subjects.Deliver(bcp.RoleController, "main", bcp.Gateway),
		"prompt %s on %s", got.JSON, got.Subject)
	if to, err := subjects.Parse(got.Reply); err != nil || to.ID != got.Text("prompt_id") {
		t.Errorf("prompt %s wants its answer on %s", got.JSON, got.Reply)
	}
	main.Acknowledge(t, got)
	m.Wait(t, func(a *bcp.Decision) bool {
		return a.Kind == bcp.KindAcknowledge && a.Agent == "main" && a.Notice != ""
	})
	checkStreams(t, m)
}
