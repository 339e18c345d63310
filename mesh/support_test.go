package mesh_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(killRunningAt); at != "" {
		fmt.Fprintln(os.Stderr, truncateRunningAndWait(at))
		os.Exit(1)
	}
	bcptest.LeaveOut(
		"TestAgentsApproveNothing", "TestApproversAreNotBuried", "TestAuditorReadsAuditAndLedgerAlone",
		"TestCheckpoints", "TestClockIsSet", "TestDamagedTruncation", "TestDeliveriesOfOneThatNeverReads",
		"TestExportsOverTruncations", "TestGatewayOnACluster", "TestGatewaysTakeTurns", "TestInvitationIsGoodOnce", "TestKeysAreGivenToTheOperator",
		"TestKeysOfAgentsAreReplacedUnderTraffic", "TestOverloadMovesNobodyElse", "TestRandomEdits", "TestReloadAddsAndRemovesAgents",
		"TestReloadDisconnectsInTheMiddle", "TestReloadThatEndsHalfWay", "TestRestartAtEveryStep", "TestSalvage",
		"TestSlowReader", "TestSnapshotsWhileServing", "TestStartFromSnapshot",
		"TestStartOfTheCheckpointsWaits", "TestStopWhileStreamsAreClosed", "TestStorage", "TestTruncate",
		"TestTruncateCluster", "TestTruncateEndsInTheMiddle", "TestTruncatedClusterRefuses",
		"TestViolationsAreAudited",
	)
	bcptest.Parallel(6)
	goleak.VerifyTestMain(m)
}

// agentFile is the definition of one agent. Head are further keys, channels
// the entries of bcp_channels, one text each.
func agentFile(name, head string, channels ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nname: %s\n%sbcp_channels:\n", name, head)
	for _, c := range channels {
		b.WriteString("  - " + strings.ReplaceAll(strings.TrimSuffix(c, "\n"), "\n", "\n    ") + "\n")
	}
	return b.String() + "---\nBe brief.\n"
}

// controls and reads are channel entries; more are further keys, a line each.
func controls(reader string, budget int, more ...string) string {
	return fmt.Sprintf("peer: %s\nrole: controller\nmax_category: 3\nbudget_bits: %d\n%s", reader, budget, strings.Join(more, "\n"))
}

func reads(controller string) string { return "peer: " + controller + "\nrole: reader" }

const (
	// urgent costs 1 bit, note 44.
	alerts = `subscriptions:
  - id: alerts
    category: 1
    fields: [{name: urgent, type: boolean}]
  - id: notes
    category: 2
    questions: [{id: note, question: "What is new?", max_words: 4, expected_format: short_text}]
  - id: digest
    category: 3
    directive: "Sum it up."
    max_words: 10`

	askUrgent = `{"type":"bcp_query_request","category":1,"fields":[{"name":"urgent","type":"boolean"}]}`
	askWho    = `{"type":"bcp_query_request","category":2,"questions":[{"id":"who","question":"Who wrote?","max_words":3,"expected_format":"person_name"},{"id":"when","question":"When?","max_words":3,"expected_format":"date"}]}`
	askSum    = `{"type":"bcp_query_request","category":3,"directive":"Sum it up.","max_words":10,"escalation":{"justification":"The fields do not say what the letter wants."}}`

	isUrgent = `"response":{"urgent":true}`
	isWho    = `"response":{"who":"Ada Lovelace","when":"March 15, 2026"}`
)

// pair is one Controller, main, and one Reader, mailer, with the three
// subscriptions of alerts, and an agent's head each.
func pair(budget int, more ...string) map[string]string {
	return map[string]string{
		"main.md":   agentFile("main", "", controls("mailer", budget, append(more, alerts)...)),
		"mailer.md": agentFile("mailer", "", reads("main")),
	}
}

// in changes the head of every agent's definition.
func in(files map[string]string, encoding bcp.Encoding) map[string]string {
	changed := map[string]string{}
	for name, text := range files {
		if strings.HasSuffix(name, ".md") {
			text = strings.Replace(text, "\nbcp_channels:", "\nencoding: "+encoding.String()+"\nbcp_channels:", 1)
		}
		changed[name] = text
	}
	return changed
}

// withID puts a request_id or push_id into a message.
func withID(text, key, id string) string {
	return strings.TrimSuffix(text, "}") + fmt.Sprintf(`,%q:%q}`, key, id)
}

// side is an agent that listens to what the gateway sends it.
type side struct {
	*meshtest.Agent
	queries, told *meshtest.Inbox
	seen          map[string]bool // deliveries and results, which may come several times
}

// controller connects a Controller that listens.
func controller(t *testing.T, m *meshtest.Mesh, name bcp.AgentName) side {
	t.Helper()
	c := side{Agent: m.Connect(t, name, bcp.RoleController), seen: map[string]bool{}}
	c.told = c.Deliveries(t)
	return c
}

// connect connects main and mailer, and returns them once the mailer has
// acknowledged its subscriptions.
func connect(t *testing.T, m *meshtest.Mesh) (main, mailer side) {
	t.Helper()
	return controller(t, m, "main"), reader(t, m, "mailer")
}

// reader connects a Reader that acknowledges its subscriptions.
func reader(t *testing.T, m *meshtest.Mesh, name bcp.AgentName, options ...nats.Option) side {
	t.Helper()
	r := side{Agent: m.Connect(t, name, bcp.RoleReader, options...), seen: map[string]bool{}}
	r.queries, r.told = r.Queries(t), r.Deliveries(t)
	r.Acknowledge(t, r.told.NextOf(t, meshtest.With("type", "bcp_subscriptions_active")))
	return r
}

// result returns the next new thing that the Reader hears of an answer.
func (s side) result(t *testing.T) meshtest.Message {
	t.Helper()
	r := s.told.NextOf(t, func(m meshtest.Message) bool {
		return m.Text("type") == "bcp_validation_result" && !s.seen[acknowledged(t, m)]
	})
	s.seen[acknowledged(t, r)] = true
	return r
}

// acknowledged returns the ID of what an acknowledgement of m is for. Each
// sending of a message has a reply subject of its own; the ID is that of all.
func acknowledged(t *testing.T, m meshtest.Message) string {
	t.Helper()
	reply, err := subjects.Parse(m.Reply)
	stopIf(t, err != nil, "a result with the reply subject %q: %v", m.Reply, err)
	return reply.ID
}

// delivery returns the next new delivery and acknowledges it.
func (s side) delivery(t *testing.T) meshtest.Message {
	t.Helper()
	d := s.told.NextOf(t, func(m meshtest.Message) bool { return !s.seen[m.Text("delivery_id")] })
	s.seen[d.Text("delivery_id")] = true
	s.Acknowledge(t, d)
	return d
}

// rest returns the new deliveries that have arrived.
func (s side) rest(t *testing.T) []meshtest.Message {
	t.Helper()
	return slices.DeleteFunc(s.told.Taken(t), func(m meshtest.Message) bool {
		id := m.Text("delivery_id")
		known := s.seen[id]
		s.seen[id] = true
		return known
	})
}

// of matches decisions of a kind with a code, which may be empty.
func of(kind bcp.DecisionKind, code bcp.Code) func(*bcp.Decision) bool {
	return func(d *bcp.Decision) bool { return d.Kind == kind && d.Code == code }
}

var pushAlert = subjects.Push("mailer", "main", "alerts")

// client connects with the Go client until the test ends, as an agent of the mesh.
func client(t testing.TB, m *meshtest.Mesh, name bcp.AgentName, role bcp.Role, o agents.Options) *agents.Connection {
	t.Helper()
	o.Name = name
	c := must(agents.Connect(t.Context(), m.URL(), agents.CredsText(m.Creds(t, name, role)), o))
	t.Cleanup(c.Close)
	return c
}

var noError, failIf, stopIf, fails, within = bcptest.NoError, bcptest.FailIf, bcptest.StopIf, bcptest.Fails, bcptest.Within

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

// coded expects that a reply has an error or a code; an empty one is none. What says in which case.
func coded[C ~string](t testing.TB, reply meshtest.Message, code C, what ...any) {
	t.Helper()
	if got := reply.Text("error") + reply.Text("code"); got != string(code) {
		t.Errorf("%s got %s, not %q", fmt.Sprint(what...), reply.JSON, code)
	}
}

// succeeded ends a test whose message was refused.
func succeeded(t testing.TB, reply meshtest.Message, what ...any) {
	t.Helper()
	stopIf(t, reply.Fields["success"] != true, "%s got %s", fmt.Sprint(what...), reply.JSON)
}

// nothing expects that none of these came.
func nothing(t testing.TB, more []meshtest.Message, what ...any) {
	t.Helper()
	if len(more) > 0 {
		t.Errorf("%s %d more, and first %s", fmt.Sprint(what...), len(more), more[0].JSON)
	}
}

// shows expects that a mesh shows of itself what it did before.
func shows(t *testing.T, m *meshtest.Mesh, want string, what ...any) {
	t.Helper()
	if got := picture(t, m); got != want {
		t.Errorf("%s it shows\n%s\nwant\n%s", fmt.Sprint(what...), got, want)
	}
}

// counts expects that so many decisions match by now.
func counts(t testing.TB, m *meshtest.Mesh, want int, match func(*bcp.Decision) bool) {
	t.Helper()
	expect(t, m.Count(match), want, "decisions match")
}

// errorOf is the error of a call whose value does not matter.
func errorOf[T any](_ T, err error) error { return err }

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}

// holds expects a condition; what says what there is instead.
func holds(t testing.TB, ok bool, what string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(what, args...)
	}
}

// carries expects a text under a key of a message.
func carries[S ~string](t testing.TB, m meshtest.Message, key string, want S, what string) {
	t.Helper()
	failIf(t, m.Text(key) != string(want), "%s %s", what, m.JSON)
}
