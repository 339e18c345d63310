package mesh_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// edited is a mesh whose operator edits its files.
type edited struct {
	*meshtest.Mesh
	operator *meshtest.Agent

	mu   sync.Mutex
	next *bcp.Mesh
	bad  error
}

func startEdited(t *testing.T, files map[string]string) *edited {
	t.Helper()
	e := &edited{}
	e.Mesh = meshtest.Start(t, files, func(c *mesh.Config) {
		c.Load = func() (*bcp.Mesh, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.next, e.bad
		}
	})
	e.operator = e.Connect(t, bcp.Operator, bcp.RoleOperator)
	return e
}

// reloaded is the reply to the operator.
type reloaded struct {
	Changes, Notes, Errors []string
	Error                  string
}

// edit replaces the files and asks for a reload, as the operator does.
func (e *edited) edit(t *testing.T, files map[string]string) reloaded {
	t.Helper()
	next := meshtest.Parse(t, files)
	e.mu.Lock()
	e.next, e.bad = next, nil
	e.mu.Unlock()
	r := e.ask(t)
	if r.Error == "" && len(r.Errors) == 0 {
		e.Definition = next // of agents that connect from here on, and of a restart
	}
	return r
}

func (e *edited) ask(t *testing.T) reloaded {
	t.Helper()
	var r reloaded
	noError(t, json.Unmarshal([]byte(e.operator.Request(t, subjects.Control(bcp.ControlReload), "{}").JSON), &r))
	return r
}

// office has a pair that no edit touches, boss and mate, beside main and its
// Readers.
func office(main string, readers ...string) map[string]string {
	files := map[string]string{
		"main.md": main, "boss.md": agentFile("boss", "", controls("mate", 1000, alerts)), "mate.md": agentFile("mate", "", reads("boss")),
		"mesh.yaml": people,
	}
	for _, name := range readers {
		files[name+".md"] = agentFile(name, "", reads("main"))
	}
	return files
}

// An edit adds an agent and removes one. The new one connects and works; the
// removed one is cut off at once, and what it had open or had sent is gone; nobody
// else notices; and the mesh starts again with that.
//
// covers P1.5, P1.4, P9.3, P11.1, A-REVOKED, SUB-4, SUB-129, SUB-130
func TestReloadAddsAndRemovesAgents(t *testing.T) {
	t.Parallel()
	before := office(agentFile("main", "", controls("mailer", 100, alerts), controls("clerk", 100, alerts)), "mailer", "clerk")
	after := office(agentFile("main", "", controls("mailer", 100, alerts), controls("novice", 100, alerts)), "mailer", "novice")
	m := startEdited(t, before)
	boss, mate := controller(t, m.Mesh, "boss"), reader(t, m.Mesh, "mate")
	mailer := reader(t, m.Mesh, "mailer")
	cut := make(chan time.Time, 1)
	creds := m.Creds(t, "clerk", bcp.RoleReader)
	clerk := meshtest.NewAgent(bcp.Agent{Name: "clerk", Encoding: bcp.JSON})
	clerk.Dial(t, m.URL(), creds, nats.ClosedHandler(func(*nats.Conn) { cut <- time.Now() }))
	succeeded(t, clerk.Push(t, "main", "alerts", `{"urgent":true}`, ""))
	main := m.Connect(t, "main", bcp.RoleController)
	lost := main.Accepted(t, "clerk", askUrgent)
	kept := main.Accepted(t, "mailer", askUrgent)

	start := time.Now()
	r := m.edit(t, after)
	done := time.Now()
	at := bcptest.Next(t, cut, "the removed agent is cut off")
	t.Logf("reloaded in %s, cut off after %s", done.Sub(start), at.Sub(start))
	holds(t, len(r.Errors) == 0 && len(r.Notes) == 0 && r.Error == "", "%+v", r)
	for _, want := range []string{
		"- clerk (reader) may publish " + subjects.Push("clerk", "main", "alerts"), "- main (controller) may publish " + subjects.Ask("main", "clerk"),
		"+ novice (reader) may publish " + subjects.Push("novice", "main", "alerts"), "+ main (controller) may publish " + subjects.Ask("main", "novice"),
	} {
		holds(t, slices.Contains(r.Changes, want), "no change %q in %q", want, r.Changes)
	}
	for _, line := range r.Changes {
		failIf(t, strings.Contains(line, "boss") || strings.Contains(line, "mate") || strings.Contains(line, "mailer ("),
			"change %q", line)
	}
	// The record has the same changes, the files and their digests.
	d := m.Wait(t, meshtest.Of(bcp.KindReload))
	failIf(t, d.Agent != bcp.Operator || !slices.Equal(d.Changes, r.Changes) || len(d.Files) != len(after) || d.Versions == "",
		"the record: %+v", d)
	for _, f := range d.Files {
		holds(t, f.SHA256 != [32]byte{} && after[strings.TrimPrefix(f.Path, "agents/")] != "", "the record names %+v", f)
	}
	started := m.Wait(t, meshtest.Of(bcp.KindStart))
	holds(t, started.Context != d.Context, "the definitions have one digest")

	// It may not come back.
	if conn, err := nats.Connect(m.URL(), nats.UserCredentialBytes(creds), nats.NoReconnect()); err == nil {
		conn.Close()
		t.Error("the removed agent connects again")
	}
	fails(t, errorOf(m.Issue("clerk", bcp.RoleReader, time.Hour)), nil, "creds for a removed agent")
	// The others have not noticed; who may do something else now has been
	// disconnected.
	id := boss.Accepted(t, "mate", askUrgent)
	mate.Answer(t, mate.queries.Next(t), isUrgent)
	carries(t, boss.delivery(t), "query_id", string(id), "delivery")
	m.Wait(t, by(bcp.KindDisconnect, "main"))
	m.Wait(t, by(bcp.KindDisconnect, "clerk"))
	for _, name := range []bcp.AgentName{"boss", "mate", "mailer", bcp.Operator} {
		failIf(t, m.Count(by(bcp.KindDisconnect, name)) > 0, "%s was disconnected", name)
	}
	// The new one works, main's old query goes on, and of the removed one's
	// nothing comes.
	again := controller(t, m.Mesh, "main")
	novice := reader(t, m.Mesh, "novice")
	id = again.Accepted(t, "novice", askUrgent)
	novice.Answer(t, novice.queries.Next(t), isUrgent)
	carries(t, again.delivery(t), "query_id", string(id), "delivery")
	mailer.Answer(t, mailer.queries.NextOf(t, meshtest.With("query_id", kept)), isUrgent)
	carries(t, again.delivery(t), "query_id", string(kept), "delivery")
	succeeded(t, novice.Push(t, "main", "alerts", `{"urgent":true}`, ""))
	again.delivery(t)
	again.Sync(t)
	m.Settle(t)

	m.Restart(t)
	m.operator = m.Connect(t, bcp.Operator, bcp.RoleOperator)
	again, novice = controller(t, m.Mesh, "main"), reader(t, m.Mesh, "novice")
	succeeded(t, novice.Push(t, "main", "alerts", `{"urgent":false}`, ""))
	again.delivery(t)
	m.Settle(t)
	nothing(t, again.rest(t))

	// The channel comes back: its epoch and its delivery go on, and its query has ended.
	r = m.edit(t, before)
	stopIf(t, len(r.Errors) > 0 || r.Error != "", "%+v", r)
	again = controller(t, m.Mesh, "main")
	got := again.delivery(t)
	failIf(t, got.Text("from_agent") != "clerk" || got.Text("subscription_id") != "alerts", "delivery %s", got.JSON)
	back := side{Agent: meshtest.NewAgent(bcp.Agent{Name: "clerk", Encoding: bcp.JSON, Reader: true}), seen: map[string]bool{}}
	back.Dial(t, m.URL(), creds) // with the creds that it had
	got = again.delivery(t)
	failIf(t, got.Text("query_id") != string(lost) || got.Text("outcome") != "cancelled", "delivery %s", got.JSON)
	if r := again.Ask(t, "clerk", askUrgent); r.Fields["remaining_bits"] != 97.0 {
		t.Errorf("receipt %s", r.JSON)
	}
	checkStreams(t, m.Mesh)
}

// A bad edit leaves everything as it was, and says what is wrong, also where it
// comes while another is at work.
//
// covers P1.5, P1.2, P11.1
func TestBadEditChangesNothing(t *testing.T) {
	t.Parallel()
	m := startEdited(t, with(pair(100), "mesh.yaml", people))
	main, mailer := connect(t, m.Mesh)
	m.mu.Lock()
	m.bad = errors.New("main.md:3:1: unknown key budget_bit: did you mean budget_bits?\nmain.md:9:1: expected a value")
	m.mu.Unlock()
	want := []string{"main.md:3:1: unknown key budget_bit: did you mean budget_bits?", "main.md:9:1: expected a value"}
	together(4, func(int) {
		var r reloaded
		got, err := m.operator.Conn.Request(subjects.Control(bcp.ControlReload), []byte("{}"), meshtest.Patience)
		failIf(t, err != nil || json.Unmarshal(got.Data, &r) != nil || !slices.Equal(r.Errors, want) || len(r.Changes) > 0,
			"%v %+v", err, r)
	})
	counts(t, m.Mesh, 0, meshtest.Of(bcp.KindReload))
	counts(t, m.Mesh, 0, meshtest.Of(bcp.KindDisconnect))
	id := main.Accepted(t, "mailer", askUrgent)
	mailer.Answer(t, mailer.queries.Next(t), isUrgent)
	carries(t, main.delivery(t), "query_id", string(id), "delivery")
	// A mesh that was not started from files has nothing to load.
	plain := meshtest.Start(t, pair(100))
	operator := plain.Connect(t, bcp.Operator, bcp.RoleOperator)
	r := operator.Request(t, subjects.Control(bcp.ControlReload), "{}")
	failIf(t, !contains(r, `"errors":["this mesh was not started from a folder of definitions"]`), "reply %s", r.JSON)
	// A good one comes behind it.
	if r := m.edit(t, with(pair(200), "mesh.yaml", people)); len(r.Errors) > 0 || r.Error != "" {
		t.Errorf("%+v", r)
	}
	r = main.Ask(t, "mailer", askUrgent)
	failIf(t, r.Fields["remaining_bits"] != 198.0, "receipt %s", r.JSON)
}

// A Reader that answers everything that it gets, once, is no flooder: an edit
// sends it none of its open queries again.
//
// covers P1.5, P9.5, P4.7, P9.3
func TestReloadSendsNoQueryTwice(t *testing.T) {
	t.Parallel()
	files := func(budget int) map[string]string {
		files := with(pair(budget), "mesh.yaml", "max_refusals: 5/m\n")
		files["mailer.md"] = agentFile("mailer", "max_connections: 1\n", reads("main"))
		return files
	}
	m := startEdited(t, files(1000))
	main, mailer := connect(t, m.Mesh)
	ids := map[string]bool{}
	for range 20 {
		ids[string(main.Accepted(t, "mailer", askUrgent))] = true
	}
	for i := range 3 {
		r := m.edit(t, files(2000+i))
		stopIf(t, len(r.Errors) > 0 || r.Error != "", "%+v", r)
		mailer.Acknowledge(t, mailer.told.NextOf(t, meshtest.With("type", "bcp_subscriptions_active")))
	}
	m.Settle(t)
	queries := mailer.queries.Taken(t)
	expect(t, len(queries), len(ids), "queries came")
	for _, q := range queries {
		mailer.Answer(t, q, isUrgent)
	}
	for range ids {
		d := main.delivery(t)
		failIf(t, !ids[d.Text("query_id")] || !contains(d, `"urgent":true`), "delivery %s", d.JSON)
	}
	m.Settle(t)
	for _, r := range mailer.told.Taken(t) {
		expect(t, r.Text("code"), "", "result %s", r.JSON)
	}
	// One that is new, and one of a Reader that comes back, are sent.
	main.Accepted(t, "mailer", askUrgent)
	mailer.queries.Next(t)
	mailer.Close()
	m.Wait(t, by(bcp.KindDisconnect, "mailer"))
	mailer = reader(t, m.Mesh, "mailer")
	mailer.Answer(t, mailer.queries.Next(t), isUrgent)
	main.delivery(t)
}

// One server keeps one copy of each stream: definitions that ask for more are refused, at a
// start before anything is made, and at a reload, after which those in force stay.
//
// covers P1.5
func TestSeveralCopiesNeedACluster(t *testing.T) {
	t.Parallel()
	e := startEdited(t, pair(1000))
	files := with(pair(1000), "mesh.yaml", "replicas: 3\n")
	r := e.edit(t, files)
	failIf(t, len(r.Errors) != 1 || !strings.Contains(r.Errors[0], mesh.ErrReplicas.Error()), "a reload answers %+v", r)
	n := e.Mesh.Definition.Replicas
	failIf(t, n > 1, "replicas is %d", n)
	state := filepath.Join(t.TempDir(), "state")
	m, err := mesh.Start(t.Context(), mesh.Config{Definition: meshtest.Parse(t, files), State: state})
	fails(t, err, mesh.ErrReplicas, "a start")
	if err == nil {
		_ = m.Stop(t.Context())
	}
	fails(t, errorOf(os.Stat(state)), fs.ErrNotExist, "the start left something")
}
