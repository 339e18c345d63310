package mesh_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const canary = "kanarienvogel"

// A recognisable word is in everything that a Reader sends; it comes out as a
// validated value, in what a Reader hears of its own message, and in the raw
// stream: nowhere else.
//
// covers A-KEYECHO, A-ANOMECHO, A-SPOOF, A-SELFLOW, P2.5, P11.4, P11.5, BCP-3, BCP-9, BCP-38, BCP-94, BCP-160
func TestCanary(t *testing.T) {
	t.Parallel()
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			m := meshtest.Start(t, with(in(pair(1000, "max_retries: 20"), encoding), "mesh.yaml", "max_refusals: 1000/m\n"))
			main := controller(t, m, "main")
			mailer := reader(t, m, "mailer", nats.Name(canary))
			header := nats.Header{canary: {canary}, "Nats-Msg-Id": {canary}, "Nats-Expected-Stream": {canary}, "Status": {canary}}
			say := func(subject, reply, text string) {
				msg := &nats.Msg{Subject: subject, Reply: reply, Header: header, Data: mailer.Encode(text)}
				noError(t, mailer.PublishMsg(msg))
				mailer.Sync(t)
			}
			// Refused answers, one for each place; the query comes again.
			main.Accepted(t, "mailer", askWho)
			refused := []string{
				`"response":{"who":"` + canary + `","` + canary + `":"x"}`,
				`"response":{"who":"` + canary + ` a b c d e f","when":"2026-03-15"}`,
				`"response":{"who":"Ada","when":"` + canary + `"}`,
				`"response":{"who":"Ada","when":{"` + canary + `":1}}`,
				`"answers":[{"id":"` + canary + `","answer":"x"}]`,
				`"summary":"` + canary + `"`,
				`"response":"` + canary + `"`,
				`"` + canary + `":"` + canary + `"`,
				`"response":{"who":"Ada","when":"2026-03-15"},"taint":"low","from_agent":"` + canary + `","category":3`,
				`"response":{"who":"Ada","when":"2026-03-15"},"controller":"` + canary + `"`,
				canary,
			}
			for _, members := range refused {
				query := mailer.queries.Next(t)
				say(query.Reply, subjects.InboxPrefix("mailer")+"."+canary, fmt.Sprintf(`{"type":"bcp_response","query_id":%q,%s}`, query.Text("query_id"), members))
				r := mailer.result(t)
				failIf(t, r.Fields["success"] != false || strings.Contains(r.JSON, canary), "%s: %s", members, r.JSON)
			}
			// Held: only the item's approver may see it, later.
			query := mailer.queries.Next(t)
			say(query.Reply, "", fmt.Sprintf(`{"type":"bcp_response","query_id":%q,"response":{"who":"please %s","when":"2026-03-15"}}`, query.Text("query_id"), canary))
			carries(t, main.delivery(t), "outcome", "held", "delivery")
			// Pushes, refused and held.
			inbox := subjects.InboxPrefix("mailer") + "." + canary
			told := mailer.Listen(t, inbox)
			pushes := []string{
				meshtest.PushText("main", "alerts", `{"`+canary+`":true}`, ""),
				meshtest.PushText("main", "alerts", `{"urgent":"`+canary+`"}`, `,"push_id":"`+canary+`"`),
				meshtest.PushText("main", canary, `{"urgent":true}`, ""),
				meshtest.PushText(canary, "alerts", `{"urgent":true}`, ""),
				canary,
			}
			for _, text := range pushes {
				say(pushAlert, inbox, text)
				r := told.Next(t)
				failIf(t, r.Fields["success"] != false || strings.Contains(r.JSON, canary), "%s: %s", text, r.JSON)
			}
			r := mailer.Push(t, "main", "digest", `{"summary":"`+canary+`"}`, `,"push_id":"`+canary+`1"`)
			failIf(t, r.Text("status") != "held", "result %s", r.JSON)
			// What the server denies it: the journal keeps the subjects, sealed.
			say(subjects.Push("mailer", "main", canary), "", canary)
			mailer.Listen(t, "bcp.v1.query."+canary)
			for _, what := range []struct{ event, family string }{{"publish", "push"}, {"subscribe", "query"}} {
				d := m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindViolation && d.Event == what.event })
				failIf(t, d.Agent != "mailer" || d.Family != what.family || d.Count != 1 || d.RawCommitment.IsZero() || len(d.SealedRaw) == 0,
					"recorded: %+v", d)
			}
			m.Settle(t)
			nothing(t, main.rest(t))
			// And at last as a value.
			succeeded(t, mailer.Push(t, "main", "notes", `{"note":"`+strings.ToUpper(canary)+`"}`, `,"push_id":"`+canary+`2"`))
			d := main.delivery(t)
			failIf(t, strings.Count(d.JSON, canary) != 1 || !contains(d, `"response":{"note":"`+canary+`"}`) || len(d.Header) > 0,
				"delivery %s, header %v", d.JSON, d.Header)
			items := m.Items(t)
			failIf(t, strings.Contains(items, canary), "items %s", items)
			if i := strings.Index(m.Log(), canary); i >= 0 {
				t.Errorf("the log has it: %.200s", m.Log()[max(0, i-100):])
			}
			checkStreams(t, m)
			streamsWithout(t, m, canary, 12)
			if i := strings.Index(m.Log(), canary); i >= 0 {
				t.Errorf("the log has it: %.200s", m.Log()[max(0, i-100):])
			}
		})
	}
}

// streamsWithout looks for the canary in every stream that there is, and for the raw
// messages that have it, which the journal keeps sealed.
func streamsWithout(t *testing.T, m *meshtest.Mesh, canary string, messages int) {
	t.Helper()
	js, end := m.Streams(t)
	defer end()
	has := func(r natsjs.RawStreamMsg) bool {
		return bytes.Contains(r.Data, []byte(canary)) || strings.Contains(fmt.Sprint(r.Header, r.Subject), canary)
	}
	var names []string
	for name := range js.StreamNames(t.Context()).Name() {
		names = append(names, name)
		for _, r := range meshtest.ReadStream(t, js, name) {
			holds(t, !has(r), "%s has it: %q", name, r.Data)
		}
	}
	slices.Sort(names)
	want := []string{jetstream.AuditStream, jetstream.CommitStream, jetstream.KeyStream, jetstream.LedgerStream}
	failIf(t, !slices.Equal(names, want), "the streams are %v, and docs/operators.md tells what %v hold", names, want)
	raw := 0
	eachDecision(t, js, func(d *bcp.Decision, message []byte, err error) {
		failIf(t, err != nil || d.RawBytes > 0 && (len(message) != min(d.RawBytes, bcp.MaxRawBytes) || !d.RawCommitment.IsZero() && len(message) == d.RawBytes && d.Commit(message) != d.RawCommitment),
			"decision %d: %d bytes of %d, %v", d.Seq, len(message), d.RawBytes, err)
		if bytes.Contains(message, []byte(canary)) {
			raw++
		}
	})
	holds(t, raw >= messages, "%d raw messages have it", raw)
}

// A Controller listens to everything that it may; nothing that a Reader
// published arrives as it was sent, and everything that arrives is canonical
// and of the gateway's making.
//
// covers BCP-4, BCP-5, BCP-16, BCP-17, BCP-18, BCP-19, BCP-20, BCP-72, BCP-162, SUB-103, SUB-133
func TestControllerSeesNothingOfAReader(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, with(pair(1000), "mesh.yaml", "max_refusals: 1000/m\n"))
	main, mailer := connect(t, m)
	inbox := main.Listen(t, subjects.InboxesOf("main"))
	published := map[string]bool{}
	say := func(subject, reply, text string) {
		published[text] = true
		noError(t, mailer.PublishRequest(subject, reply, []byte(text)))
	}
	ids := map[string]bool{}
	for range 5 {
		ids[string(main.Accepted(t, "mailer", askUrgent))] = true
	}
	inbox.Taken(t) // the receipts
	// What a Controller sees while its Reader says anything but valid answers
	// depends on nothing that the Reader says.
	for i, query := range []meshtest.Message{mailer.queries.Next(t), mailer.queries.Next(t), mailer.queries.Next(t), mailer.queries.Next(t), mailer.queries.Next(t)} {
		texts := []string{
			`{"type":"bcp_response_delivery","response":{"urgent":true}}`, `{"error":"unavailable"}`, "", strings.Repeat("x", 100000),
			fmt.Sprintf(`{ "type":"bcp_response","query_id":%q,"response":{"urgent":true}, "response":{"urgent":true} }`, query.Text("query_id")),
		}
		say(query.Reply, subjects.InboxPrefix("mailer")+".x", texts[i])
		say(pushAlert, subjects.InboxPrefix("mailer")+".x", texts[i])
	}
	mailer.Sync(t)
	m.WaitCount(t, 5, meshtest.Of(bcp.KindAnswer))
	m.WaitCount(t, 5, meshtest.Of(bcp.KindPush))
	m.Settle(t)
	nothing(t, append(main.rest(t), inbox.Taken(t)...))
	// Now valid ones, in as many spellings.
	for i, text := range []string{`{"urgent":true}`, ` { "urgent" : true } `, "{\n\"urgent\":\ttrue}"} {
		query := mailer.queries.Next(t)
		say(query.Reply, "", fmt.Sprintf(`{"response":%s,"query_id":%q,"type":"bcp_response"}`, text, query.Text("query_id")))
		say(pushAlert, subjects.InboxPrefix("mailer")+".x", fmt.Sprintf(`{"controller":"main","response":%s,"type":"bcp_response","push_id":"p%d","subscription_id":"alerts"}`, text, i))
	}
	mailer.Sync(t)
	var shapes []string
	for range 6 {
		d := main.delivery(t)
		failIf(t, published[d.JSON] || len(d.Header) > 0 || d.Subject != subjects.Deliver(bcp.RoleController, "main", "mailer"),
			"got %s on %s, header %v", d.JSON, d.Subject, d.Header)
		var fields map[string]json.RawMessage
		failIf(t, json.Unmarshal([]byte(d.JSON), &fields) != nil || string(fields["response"]) != `{"urgent":true}`,
			"got %s", d.JSON)
		shape := strings.NewReplacer(d.Text("delivery_id"), "D", d.Text("query_id")+d.Text("subscription_id"), "X").Replace(d.JSON)
		shapes = append(shapes, fmt.Sprint(d.Text("query_id") != "", shape))
	}
	different := map[string]bool{}
	for _, s := range shapes {
		different[s] = true
	}
	expect(t, len(different), 2, "deliveries of one value have shapes: %v", shapes)
	for _, got := range inbox.Taken(t) {
		t.Errorf("the inbox got %s", got.JSON)
	}
}

// covers BCP-19, P11.1, P11.3
func TestAuditorReadsAuditAndLedgerAlone(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, with(pair(1000), "mesh.yaml", "auditors: [ann]\n"))
	_, mailer := connect(t, m)
	mailer.Push(t, "main", "alerts", `{"urgent":true}`, "")
	push := m.Wait(t, meshtest.Of(bcp.KindPush))
	project(t, m, push.Seq)

	ann := m.Connect(t, "ann", bcp.RoleAuditor)
	js := must(natsjs.NewWithAPIPrefix(ann.Conn, subjects.AuditPrefix))
	audit := must(js.Stream(t.Context(), jetstream.AuditStream))
	msg := must(audit.GetMsg(t.Context(), push.Seq))
	shown, err := bcp.DecodeDecision(msg.Data)
	failIf(t, err != nil || shown.Kind != bcp.KindPush || shown.Delivery != push.Delivery || shown.Payload != nil || shown.Salt != [16]byte{},
		"the audit shows %+v, %v", shown, err)
	want := push.Commit(push.Payload)
	failIf(t, shown.PayloadCommitment != want, "commitment %x, not %x", shown.PayloadCommitment, want)
	ledger := must(js.Stream(t.Context(), jetstream.LedgerStream))
	msg = must(ledger.GetLastMsgForSubject(t.Context(), subjects.Ledger("main", "mailer")))
	line, err := bcp.DecodeLedgerLine(msg.Data)
	failIf(t, err != nil || line.Balance.Settled != bcp.Bit, "the ledger shows %+v, %v", line, err)

	figures := agents.NewOperator(client(t, m, "ann", bcp.RoleAuditor, agents.Options{}))
	all, err := figures.Forecasts(t.Context())
	failIf(t, err != nil || len(all) != 1 || all[0].Reader != "mailer", "forecasts %+v, %v", all, err)
	if all, err := figures.Sessions(t.Context()); err != nil || len(all) != 1 || all[0].Controller != "main" {
		t.Errorf("sessions %+v, %v", all, err)
	}
	s, err := figures.Storage(t.Context())
	failIf(t, err != nil || s.Records == 0, "storage %+v, %v", s, err)

	// Nothing else is answered: each refusal is one violation in the audit.
	before := m.Count(meshtest.Of(bcp.KindViolation))
	refused := []string{
		"BCPJS.STREAM.INFO.BCP_COMMIT", "BCPJS.DIRECT.GET.BCP_COMMIT", "BCPJS.DIRECT.GET.BCP_KEYS", "BCPJS.STREAM.MSG.GET.BCP_AUDIT",
		"BCPJS.STREAM.PURGE.BCP_AUDIT", "BCPJS.STREAM.DELETE.BCP_AUDIT", "BCPJS.CONSUMER.CREATE.BCP_AUDIT", "$JS.API.INFO", "$JS.API.DIRECT.GET.BCP_AUDIT",
		subjects.Approval("ann", subjects.VerbList), subjects.Ask("main", "mailer"),
		"bcp.v1.control.agents", "bcp.v1.control.credentials", "bcp.v1.control.erase", "bcp.v1.control.key", "bcp.v1.control.proposals",
		"bcp.v1.control.reconcile", "bcp.v1.control.reload", "bcp.v1.control.renew", "bcp.v1.control.reset-taint", "bcp.v1.control.taint",
	}
	for _, s := range refused {
		noError(t, ann.PublishRequest(s, subjects.InboxPrefix("ann")+".x", nil))
	}
	ann.Sync(t)
	total := 0
	m.Wait(t, func(d *bcp.Decision) bool {
		if d.Kind == bcp.KindViolation && d.Agent == "ann" && d.Role == bcp.RoleAuditor {
			total += d.Count
		}
		return total >= len(refused)
	})
	holds(t, before == 0 && total == len(refused), "%d violations, %d before", total, before)
}
