package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// No agent decides, lists or looks, in whichever role, and no person does for
// another or for a channel that is not theirs. The server's refusals stand in the
// audit, each with its subject.
//
// covers A-SELFAPP, P7.3, P11.1, BCP-118
func TestAgentsApproveNothing(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, with(pair(1000, "approvers: [ann]"), "mesh.yaml", people))
	main, mailer := connect(t, m)
	ann, bob := approver(t, m, "ann"), approver(t, m, "bob")
	r := mailer.Push(t, "main", "digest", `{"summary":"All is well."}`, "")
	stopIf(t, r.Text("status") != "held", "%v", r.JSON)
	view := ann.first(t)
	good := approves(view)
	text := good.text(ann.sign(t, good))

	eve, operator := m.Connect(t, "eve", bcp.RoleAuditor), m.Connect(t, bcp.Operator, bcp.RoleOperator)
	for _, a := range []*meshtest.Agent{main.Agent, mailer.Agent, eve, operator} {
		tried := 0
		for _, name := range []bcp.AgentName{"ann", a.Name} {
			for _, verb := range subjects.Verbs() {
				noError(t, a.PublishRequest(subjects.Approval(name, verb), subjects.InboxPrefix(a.Name)+".x", []byte(text)))
				tried++
			}
		}
		for _, act := range bcp.ControlActs() {
			if a == operator {
				break
			}
			if a == eve && slices.Contains(bcp.AuditorActs(), act) {
				continue
			}
			noError(t, a.PublishRequest(subjects.Control(act), subjects.InboxPrefix(a.Name)+".x", []byte(`{"agent":"main"}`)))
			tried++
		}
		a.Sync(t)
		denied := 0
		m.Wait(t, func(d *bcp.Decision) bool {
			if d.Kind == bcp.KindViolation && d.Agent == a.Name && d.Role == a.Role && d.Family != "" {
				denied += d.Count
			}
			return denied >= tried
		})
		expect(t, denied, tried, "%s: so many tries stand in the audit", a.Name)
	}
	// Bob is an approver, and not of this channel: he sees nothing of it.
	items := bob.items(t)
	failIf(t, len(items) != 0, "bob's list has %+v", items)
	coded(t, bob.say(t, subjects.VerbGet, fmt.Sprintf(`{"item_id":%q}`, view.ID)), "not_permitted", "bob looks")
	for _, a := range []act{good, rejects(view, "No."), edits(view, sumText)} {
		coded(t, bob.decide(t, a), "not_permitted", a.verb)
	}
	coded(t, bob.say(t, subjects.VerbEdit, fmt.Sprintf(`{"item_id":%q,"response":%s}`, view.ID, sumText)), "not_permitted", "bob previews")
	m.Settle(t)
	counts(t, m, 0, func(d *bcp.Decision) bool { return d.Kind == bcp.KindApproval && d.Agent != "bob" })
	nothing(t, main.rest(t))
	ann.decided(t, good)
	d := main.delivery(t)
	failIf(t, !contains(d, sumText), "delivery %s", d.JSON)
	checkStreams(t, m)
}

// A decision counts if the person of this very connection signed it; what clients say in
// headers or by a reply subject is nothing.
//
// covers A-SELFAPP, A-REPLY, P7.3, BCP-118, BCP-119, BCP-120
func TestSignatures(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, with(pair(1000), "mesh.yaml", people))
	main, mailer := connect(t, m)
	ann, bob := approver(t, m, "ann"), approver(t, m, "bob")
	for range 2 {
		mailer.Push(t, "main", "digest", `{"summary":"All is well."}`, "")
	}
	items := ann.items(t)
	view := ann.view(t, items[0].ID)
	good := approves(view)
	// Bob says in headers that he is ann; the server says that he is bob.
	identity := must(json.Marshal(map[string]string{"acc": "x", "user": userKey(t, ann)}))
	forged := string(identity)
	for _, header := range []nats.Header{
		{"Nats-Request-Info": {forged}}, {"Nats-Request-Info": {forged, forged}}, {"nats-request-info": {forged}}, {"NATS-REQUEST-INFO": {forged}},
		{"Nats-Request-Info": {forged}, "nats-request-info": {forged}}, {"A": {"b"}, "Nats-Request-Info": {forged}, "Z": {"y"}},
		{"X": {"y\r\nNats-Request-Info: " + forged}}, {"X-Nats-Request-Info": {forged}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), meshtest.Patience)
		reply, err := agents.Request(ctx, bob.Conn, &nats.Msg{Subject: subjects.Approval("bob", subjects.VerbApprove), Header: header, Data: []byte(good.text(ann.sign(t, good)))})
		cancel()
		stopIf(t, err != nil, "%v: %v", header, err)
		holds(t, strings.Contains(string(reply.Data), `"not_permitted"`), "%v: %s", header, reply.Data)
	}
	// Ann asks that the reply go to somebody else: it goes nowhere.
	inbox := main.Listen(t, subjects.InboxesOf("main"))
	box := mailer.Listen(t, subjects.InboxesOf("mailer"))
	replies := []string{
		subjects.Deliver(bcp.RoleController, "main", "mailer"), subjects.InboxPrefix("main") + ".x", subjects.Deliver(bcp.RoleReader, "mailer", "main"),
		subjects.Query("mailer", "main"), subjects.InboxPrefix("mailer") + ".x", subjects.Approval("ann", subjects.VerbApprove), subjects.Control(bcp.ControlReload),
		subjects.Ask("main", "mailer"), pushAlert, subjects.Commit(), subjects.Alert(bcp.AlertHeld), "$SYS.REQ.CLAIMS.UPDATE",
	}
	for _, reply := range replies {
		noError(t, ann.PublishRequest(subjects.Approval("ann", subjects.VerbList), reply, nil))
		noError(t, ann.PublishRequest(subjects.Approval("ann", subjects.VerbGet), reply, fmt.Appendf(nil, `{"item_id":%q}`, view.ID)))
	}
	ann.Sync(t)
	m.Settle(t)
	for _, got := range slices.Concat(main.rest(t), mailer.told.Taken(t), mailer.queries.Taken(t), inbox.Taken(t), box.Taken(t)) {
		if got.Text("type") != "bcp_subscriptions_active" { // which may come several times
			t.Errorf("an agent got %s", got.JSON)
		}
	}
	expect(t, len(ann.items(t)), 2, "items wait")
	// At last as it should be, twice: the second is too late.
	ann.decided(t, good)
	for _, a := range []act{good, rejects(view, ""), edits(view, sumText)} {
		coded(t, bob.decide(t, a), "already_decided", a.verb)
	}
	d := m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept })
	failIf(t, d.Agent != "ann" || d.Key != userKey(t, ann) || d.Item != view.ID || d.Event != string(bcp.Approve) || d.Released != view.SHA256 || len(d.Signature) == 0,
		"the record: %+v", d)
	if d := main.delivery(t); !contains(d, sumText) {
		t.Errorf("delivery %s", d.JSON)
	}
	m.Settle(t)
	nothing(t, main.rest(t))
	checkStreams(t, m)
}

// userKey is the public key of the creds that p is connected with.
func userKey(t *testing.T, p person) string {
	t.Helper()
	token := must(p.Opts.UserJWT())
	return claimedKey(t, token)
}

// What is held shows nowhere but in its approver's view: nothing that agents
// hear, no list, no alert, no log, no header. A reviewer's reason goes to the
// Reader and the audit; an edited text takes the original's place.
//
// covers A-REASON, A-CANARY, A-ANOMECHO, P2.5, P7.2, P7.3, P7.6, P11.5, BCP-62, BCP-64, BCP-119, BCP-120, SUB-85, SUB-116
func TestHeldContentShowsNowhere(t *testing.T) {
	t.Parallel()
	const reason = "grundangabe"
	m := meshtest.Start(t, with(pair(1000, "max_escalations: 10"), "mesh.yaml", people))
	main, mailer := connect(t, m)
	ann := approver(t, m, "ann")
	alarm := m.Connect(t, bcp.Operator, bcp.RoleOperator).Listen(t, subjects.Alerts())
	inbox := main.Listen(t, subjects.InboxesOf("main"))
	text := `{"summary":"` + canary + `"}`
	clean := func(where string, messages ...meshtest.Message) {
		t.Helper()
		for _, got := range messages {
			for _, word := range []string{canary, reason} {
				failIf(t, strings.Contains(got.JSON, word) || strings.Contains(fmt.Sprint(got.Header, got.Subject, got.Reply), word),
					"%s: %s on %s, header %v", where, got.JSON, got.Subject, got.Header)
			}
		}
	}
	quiet := func(where string) {
		t.Helper()
		m.Settle(t)
		clean(where, slices.Concat(main.rest(t), inbox.Taken(t), alarm.Taken(t))...)
		for _, word := range []string{canary, reason} {
			if i := strings.Index(m.Log(), word); i >= 0 {
				t.Errorf("%s: the log has it: %.200s", where, m.Log()[max(0, i-100):])
			}
			holds(t, !strings.Contains(m.Items(t), word), "%s: the list has it", where)
		}
	}

	// A push, a summary and an anomalous answer, each with the canary.
	mailer.Push(t, "main", "digest", text, `,"push_id":"p1"`)
	sum := main.Accepted(t, "mailer", askSum)
	clean("held at its gate", main.delivery(t))
	ann.decided(t, approves(ann.view(t, itemOf(t, ann, sum))))
	mailer.Answer(t, mailer.queries.NextOf(t, meshtest.With("query_id", sum)), `"response":`+text)
	mailer.result(t)
	who := main.Accepted(t, "mailer", askWho)
	mailer.Answer(t, mailer.queries.NextOf(t, meshtest.With("query_id", who)), `"response":{"who":"ignore `+canary+`","when":"2026-03-15"}`)
	mailer.result(t)
	clean("held", main.delivery(t))
	quiet("held")

	// Looking changes nothing, and is not recorded with what was seen.
	var push bcp.ItemView
	for _, it := range ann.items(t) {
		view := ann.view(t, it.ID)
		failIf(t, !strings.Contains(string(view.Content), canary) || view.Source.Agent != "mailer" || view.Taint == bcp.TaintLow,
			"the view %+v", view)
		if it.Subscription != "" {
			push = view
		}
	}
	quiet("looked at")

	// Rejected with a reason: the Reader hears it, nobody else.
	ann.decided(t, rejects(push, "Because of "+reason+"."))
	told := mailer.result(t)
	mailer.Acknowledge(t, told)
	failIf(t, told.Text("detail") != "Publish rejected by reviewer: Because of "+reason+"." || told.Text("code") != "approval_rejected" || told.Text("push_id") != "p1" || strings.Contains(told.JSON, canary),
		"the final result: %s", told.JSON)
	quiet("rejected")
	ann.decided(t, rejects(ann.view(t, itemOf(t, ann, who)), reason))
	r := mailer.result(t)
	failIf(t, r.Text("query_id") != string(who) || !strings.Contains(r.Text("detail"), reason), "the final result: %s", r.JSON)
	rejected := main.told.NextOf(t, final(who))
	clean("the rejected query", rejected)
	failIf(t, rejected.Text("outcome") != "approval_rejected" || rejected.Fields["response"] != nil, "delivery %s", rejected.JSON)
	main.Acknowledge(t, rejected)

	// Edited: the original is not delivered.
	ann.decided(t, edits(ann.view(t, itemOf(t, ann, sum)), `{"summary":"nothing of interest"}`))
	d := main.told.NextOf(t, final(sum))
	clean("the edited summary", d)
	holds(t, contains(d, `"response":{"summary":"nothing of interest"}`), "delivery %s", d.JSON)
	main.Acknowledge(t, d)
	quiet("edited")

	// Approved: now it is delivered, once.
	mailer.Push(t, "main", "digest", text, "")
	ann.decided(t, approves(ann.first(t)))
	d = main.delivery(t)
	holds(t, strings.Count(d.JSON, canary) == 1 && contains(d, `"response":`+text) && len(d.Header) == 0, "delivery %s", d.JSON)
	checkStreams(t, m)
	streamsWithout(t, m, canary, 4)
}

// final matches the last delivery of a query.
func final(id bcp.QueryID) func(meshtest.Message) bool {
	return func(d meshtest.Message) bool { return d.Text("query_id") == string(id) && d.Text("outcome") != "held" }
}

// itemOf returns the item of a query.
func itemOf(t *testing.T, p person, query bcp.QueryID) bcp.ItemID {
	t.Helper()
	items := p.items(t)
	i := slices.IndexFunc(items, func(it bcp.Item) bool { return it.Query == query })
	stopIf(t, i < 0, "no item of %s in %+v", query, items)
	return items[i].ID
}
