package mesh_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// What is wrong about an answer besides its content: the server or the gateway
// refuses it, and the audit has it.
//
// covers BCP-8, BCP-11, BCP-94, BCP-130, BCP-171, BCP-172, A-EARLY, A-GUESS, P3.10, P11.1, SUB-58
func TestRefusedAnswer(t *testing.T) {
	t.Parallel()
	files := pair(1000)
	files["other.md"] = agentFile("other", "", controls("spy", 100))
	files["spy.md"] = agentFile("spy", "", reads("other"))
	m := meshtest.Start(t, files)
	main, mailer := connect(t, m)
	spy := reader(t, m, "spy")
	id := main.Accepted(t, "mailer", askUrgent)
	query := mailer.queries.Next(t)
	answer := fmt.Sprintf(`{"type":"bcp_response","query_id":%q,%s}`, id, isUrgent)
	violation := func(agent bcp.AgentName) func(*bcp.Decision) bool {
		return func(d *bcp.Decision) bool {
			return d.Kind == bcp.KindViolation && d.Agent == agent && d.Role == bcp.RoleReader && d.Code == bcp.NotPermitted
		}
	}

	// Another Reader, for the mailer and in its own name.
	spy.Say(t, query.Reply, answer)
	spy.Say(t, subjects.Reply(bcp.RoleReader, "spy", id, 0), answer)
	m.Wait(t, violation("spy"))
	// The mailer, unasked.
	mailer.Say(t, subjects.Reply(bcp.RoleReader, "mailer", "qABCDEFGHIJKLMNOPQRSTUVWXY", 0), answer)
	m.Wait(t, violation("mailer"))
	// In the name of another query, and as a push: malformed, and sent again.
	mailer.Say(t, query.Reply, fmt.Sprintf(`{"type":"bcp_response","query_id":"qABCDEFGHIJKLMNOPQRSTUVWXY",%s}`, isUrgent))
	query = mailer.queries.Next(t)
	mailer.Say(t, query.Reply, meshtest.PushText("main", "alerts", `{"urgent":true}`, ""))
	query = mailer.queries.Next(t)
	// Twice over one connection: the server lets one through.
	mailer.Say(t, query.Reply, answer)
	mailer.Say(t, query.Reply, answer)
	carries(t, main.delivery(t), "query_id", string(id), "delivery")
	// Twice over two connections: the gateway knows.
	second := reader(t, m, "mailer")
	id = main.Accepted(t, "mailer", askUrgent)
	one, two := mailer.queries.Next(t), second.queries.NextOf(t, meshtest.With("query_id", id))
	mailer.Answer(t, one, isUrgent)
	m.Wait(t, func(d *bcp.Decision) bool { return d.Query == id && d.Kind == bcp.KindAnswer })
	second.Answer(t, two, `"response":{"urgent":false}`)
	m.Wait(t, of(bcp.KindAnswer, bcp.AlreadyAnswered))
	d := main.delivery(t)
	failIf(t, !contains(d, `"urgent":true`), "delivery %s", d.JSON)
	m.Settle(t)
	nothing(t, main.rest(t))
	for _, d := range m.Decisions() {
		failIf(t, d.Kind == bcp.KindAnswer && (d.RawCommitment.IsZero() || d.RawBytes == 0),
			"an answer without its commitment: %+v", d)
	}
}

func with(files map[string]string, name, text string) map[string]string {
	files[name] = text
	return files
}

// Whatever an agent tries at the server stands in the audit.
//
// covers A-WILD, A-JSAPI, A-SYS, BCP-7, BCP-19, BCP-10, SUB-8, SUB-11, P11.1
func TestViolationsAreAudited(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	for _, who := range []struct {
		name bcp.AgentName
		role bcp.Role
	}{{"main", bcp.RoleController}, {"mailer", bcp.RoleReader}} {
		a := m.Connect(t, who.name, who.role)
		subscriptions := []string{">", "bcp.>", "*.*", "bcp.v1.deliver.>", "bcp.v1.query.>", "bcp.v1.commit.0", "$SYS.>", "$JS.>", "_INBOX.>", "_R_.>"}
		publishes := []string{
			subjects.Ask("main", "someone"), subjects.Push("mailer", "main", "new"), subjects.Query("mailer", "main"),
			subjects.Deliver(bcp.RoleController, "main", "mailer"), subjects.Commit(), "$JS.API.STREAM.PURGE.BCP_AUDIT", "$SYS.REQ.CLAIMS.UPDATE",
		}
		for _, s := range subscriptions {
			must(a.Subscribe(s, func(*nats.Msg) {}))
		}
		for _, s := range publishes {
			noError(t, a.Publish(s, nil))
		}
		a.Sync(t)
		total := 0
		m.Wait(t, func(d *bcp.Decision) bool {
			if d.Kind == bcp.KindViolation && d.Agent == who.name && d.Role == who.role && d.Event != "" && d.Code == bcp.NotPermitted {
				total += d.Count
			}
			return total >= len(subscriptions)+len(publishes)
		})
		expect(t, total, len(subscriptions)+len(publishes), "violations of %s", who.name)
	}
	counts(t, m, 0, meshtest.Of(bcp.KindPush))
	counts(t, m, 0, meshtest.Of(bcp.KindAsk))
	counts(t, m, 0, meshtest.Of(bcp.KindAnswer))
}

// The gateway answers in inboxes of the sender: a message that names another place is
// counted, and reaches nobody.
//
// covers A-REPLY, A-REPLYPEER, SUB-24, BCP-9
func TestReplySubjects(t *testing.T) {
	t.Parallel()
	files := pair(1000)
	files["other.md"] = agentFile("other", "", controls("spy", 100))
	files["spy.md"] = agentFile("spy", "", reads("other"))
	m := meshtest.Start(t, files)
	main, mailer := connect(t, m)
	spy := reader(t, m, "spy")
	inbox := main.Listen(t, subjects.InboxesOf("main"))
	text := []byte(meshtest.PushText("main", "alerts", `{"urgent":1}`, ""))
	replies := []string{
		subjects.Deliver(bcp.RoleController, "main", "mailer"), subjects.InboxPrefix("main") + ".x", subjects.Query("spy", "other"),
		subjects.Deliver(bcp.RoleReader, "spy", "other"), subjects.InboxPrefix("spy") + ".x", subjects.Ask("main", "mailer"), subjects.Session("main"),
		subjects.Commit(), subjects.Audit("main", "mailer", "ask"), subjects.Ledger("main", "mailer"), "$JS.API.STREAM.PURGE.BCP_AUDIT", "$SYS.REQ.CLAIMS.UPDATE",
		subjects.Reply(bcp.RoleController, "main", "d1", 0), subjects.Reply(bcp.RoleReader, "spy", "q1", 0), pushAlert,
	}
	spied := spy.Listen(t, subjects.InboxesOf("spy"))
	for _, reply := range replies {
		noError(t, mailer.PublishRequest(pushAlert, reply, text))
	}
	mailer.Sync(t)
	m.WaitCount(t, 1, meshtest.Of(bcp.KindRefusals))
	m.Settle(t)
	for _, got := range append(main.rest(t), inbox.Taken(t)...) {
		t.Errorf("main got %s", got.JSON)
	}
	for _, got := range slices.Concat(spy.queries.Taken(t), spy.told.Taken(t), spied.Taken(t)) {
		expect(t, got.Text("type"), "bcp_subscriptions_active", "spy got %s, reply %q", got.JSON, got.Reply)
	}
	for _, kind := range []bcp.DecisionKind{bcp.KindAsk, bcp.KindSession, bcp.KindAcknowledge, bcp.KindAnswer, bcp.KindPush} {
		n := m.Count(meshtest.Of(kind))
		failIf(t, n > 0, "%d decisions of kind %s came of it", n, kind)
	}
}
