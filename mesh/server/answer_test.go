package server_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// sender returns the public key of the user who sent an approval to the gateway.
// The server adds it to the message, and overwrites the sender's own header; on
// other subjects there is none.
func sender(m *nats.Msg) (userKey string, ok bool) {
	values := m.Header.Values(natsserver.ClientInfoHdr)
	if len(values) != 1 {
		return "", false
	}
	var info natsserver.ClientInfo
	if err := json.Unmarshal([]byte(values[0]), &info); err != nil || !nkeys.IsValidPublicUserKey(info.User) {
		return "", false
	}
	return info.User, true
}

// query sends a Reader a query, which arrives.
func query(t *testing.T, gateway *nats.Conn, reader *agent, arrived func() []*nats.Msg, reply string) {
	t.Helper()
	noError(t, gateway.PublishRequest(subjects.Query(reader.name, "main"), reply, []byte("?")))
	flush(t, gateway)
	messages := arrived()
	stopIf(t, len(messages) != 1 || messages[0].Reply != reply, "%s got %d queries: %+v", reader.name, len(messages), messages)
}

func publish(t *testing.T, nc *nats.Conn, subject, data string) {
	t.Helper()
	noError(t, nc.Publish(subject, []byte(data)))
}

// covers A-REPLY, BCP-7, BCP-10, SUB-123, P9.5
func TestReaderAnswersOnceAndOnlyWhatItWasAsked(t *testing.T) {
	t.Parallel()
	b := start(t)
	gateway := b.gateway()
	researcher, mailer := b.connect("researcher", bcp.RoleReader), b.connect("mailer", bcp.RoleReader)
	answers := listen(t, gateway, subjects.All(subjects.KindReply))
	arrived := listen(t, researcher.Conn, subjects.QueriesOf("researcher"))

	first, second := subjects.Reply(bcp.RoleReader, "researcher", "q1", 0), subjects.Reply(bcp.RoleReader, "researcher", "q1", 1)
	publish(t, researcher.Conn, first, "unsolicited")
	flush(t, researcher.Conn)
	query(t, gateway, researcher, arrived, first)
	publish(t, mailer.Conn, first, "of another")
	flush(t, mailer.Conn)
	publish(t, researcher.Conn, first, "answer")
	publish(t, researcher.Conn, first, "again")
	publish(t, researcher.Conn, second, "not asked yet")
	publish(t, researcher.Conn, subjects.Reply(bcp.RoleReader, "researcher", "q2", 0), "another query")
	publish(t, researcher.Conn, subjects.Reply(bcp.RoleReader, "mailer", "q1", 0), "for another")
	publish(t, researcher.Conn, subjects.Reply(bcp.RoleController, "main", "q1", 0), "another role")
	if diff := cmp.Diff([]string{
		"publish " + first, "publish " + first, "publish " + second, "publish " + subjects.Reply(bcp.RoleReader, "researcher", "q2", 0),
		"publish " + subjects.Reply(bcp.RoleReader, "mailer", "q1", 0), "publish " + subjects.Reply(bcp.RoleController, "main", "q1", 0),
	}, researcher.refusals()); diff != "" {
		t.Error(diff)
	}
	equal(t, []string{"publish " + first}, mailer.refusals())
	query(t, gateway, researcher, arrived, second)
	publish(t, researcher.Conn, second, "second attempt")
	refused := researcher.refusals()
	failIf(t, len(refused) != 0, "refused: %v", refused)
	var got []string
	for _, m := range answers() {
		got = append(got, m.Subject+" "+string(m.Data))
	}
	equal(t, []string{first + " answer", second + " second attempt"}, got)
}

// covers A-REPLY, P9.5
func TestLateAnswerIsRefused(t *testing.T) {
	t.Parallel()
	const lasts = 20 * time.Millisecond
	b := start(t, func(scopes []subjects.Scope) {
		for i := range scopes {
			if scopes[i].Respond {
				scopes[i].RespondFor = lasts
			}
		}
	})
	gateway, researcher := b.gateway(), b.connect("researcher", bcp.RoleReader)
	reply := subjects.Reply(bcp.RoleReader, "researcher", "q1", 0)
	query(t, gateway, researcher, listen(t, researcher.Conn, subjects.QueriesOf("researcher")), reply)
	// The permission ends with the server's own clock.
	time.Sleep(2 * lasts)
	publish(t, researcher.Conn, reply, "late")
	equal(t, []string{"publish " + reply}, researcher.refusals())
}

// covers A-REPLY, SUB-125
func TestDeliveryIsAcknowledgedOnceByWhoeverGotIt(t *testing.T) {
	t.Parallel()
	b := start(t)
	gateway := b.gateway()
	main, relay, reader := b.connect("main", bcp.RoleController), b.connect("relay", bcp.RoleController), b.connect("relay", bcp.RoleReader)
	acks := listen(t, gateway, subjects.All(subjects.KindReply))
	arrived := map[*agent]func() []*nats.Msg{
		main:   listen(t, main.Conn, subjects.DeliveriesOf(bcp.RoleController, "main")),
		relay:  listen(t, relay.Conn, subjects.DeliveriesOf(bcp.RoleController, "relay")),
		reader: listen(t, reader.Conn, subjects.DeliveriesOf(bcp.RoleReader, "relay")),
	}
	for subject, reply := range map[string]string{
		subjects.Deliver(bcp.RoleController, "main", "researcher"): subjects.Reply(bcp.RoleController, "main", "d1", 0),
		subjects.Deliver(bcp.RoleController, "relay", "mailer"):    subjects.Reply(bcp.RoleController, "relay", "d2", 0),
		subjects.Deliver(bcp.RoleReader, "relay", bcp.Gateway):     subjects.Reply(bcp.RoleReader, "relay", "d3", 0),
	} {
		noError(t, gateway.PublishRequest(subject, reply, []byte("delivery")))
	}
	flush(t, gateway)
	for agent, take := range arrived {
		messages := take()
		stopIf(t, len(messages) != 1 || len(messages[0].Header) != 0, "%s got %+v", agent.name, messages)
		publish(t, agent.Conn, messages[0].Reply, "")
		publish(t, agent.Conn, messages[0].Reply, "")
		expect(t, cmp.Diff([]string{"publish " + messages[0].Reply}, agent.refusals()), "", "%s", agent.name)
	}
	want := []string{"bcp.v1.reply.controller.main.d1", "bcp.v1.reply.controller.relay.d2", "bcp.v1.reply.reader.relay.d3"}
	equal(t, want, sorted(subjectsOf(acks())))
}

// covers A-REPLY, P9.5
func TestEachSendingNeedsAReplySubjectOfItsOwn(t *testing.T) {
	t.Parallel()
	b := start(t)
	gateway, main := b.gateway(), b.connect("main", bcp.RoleController)
	acks := listen(t, gateway, subjects.All(subjects.KindReply))
	arrived := listen(t, main.Conn, subjects.DeliveriesOf(bcp.RoleController, "main"))
	send := func(reply string) {
		t.Helper()
		noError(t, gateway.PublishRequest(subjects.Deliver(bcp.RoleController, "main", "researcher"), reply, nil))
		flush(t, gateway)
		stopIf(t, len(arrived()) != 1, "it did not arrive")
	}
	same := subjects.Reply(bcp.RoleController, "main", "d1", 0)
	send(same)
	send(same)
	publish(t, main.Conn, same, "")
	// Here the server counts a second message for an answer. If it ever stops
	// to, sendings need no numbers.
	equal(t, []string{"publish " + same}, main.refusals())
	var want []string
	for attempt := range 3 {
		want = append(want, subjects.Reply(bcp.RoleController, "main", "d2", attempt))
		send(want[attempt])
	}
	for _, reply := range want {
		publish(t, main.Conn, reply, "")
	}
	refused := main.refusals()
	failIf(t, len(refused) != 0, "refused %v", refused)
	equal(t, want, subjectsOf(acks()))
}

// covers A-REPLY, BCP-7, SUB-123
func TestSenderIsTheServersWord(t *testing.T) {
	t.Parallel()
	b := start(t)
	researcher, alice, main := b.connect("researcher", bcp.RoleReader), b.connect("alice", bcp.RoleApprover), b.connect("main", bcp.RoleController)
	arrived := listen(t, b.gateway(), "bcp.>")
	forged := `{"acc":"X","user":"` + main.key + `","id":7}`
	send := func(a *agent, subject string) {
		t.Helper()
		m := nats.NewMsg(subject)
		m.Header["Nats-Request-Info"] = []string{forged, forged}
		m.Header.Set("nats-request-info", forged)
		noError(t, a.PublishMsg(m))
		flush(t, a.Conn)
	}
	send(alice, subjects.Approval("alice", subjects.VerbList))
	if messages := arrived(); len(messages) != 1 {
		t.Fatalf("%d messages", len(messages))
	} else if key, ok := sender(messages[0]); !ok || key != alice.key {
		t.Errorf("it was sent by %s, not by %q", alice.key, key)
	}
	// What agents send does not need it: its subject tells. What stands there is not
	// taken for the server's word.
	for subject, from := range map[string]*agent{subjects.Session("main"): main, subjects.Push("researcher", "main", "findings"): researcher} {
		send(from, subject)
		if messages := arrived(); len(messages) != 1 {
			t.Fatalf("%s: %d messages", subject, len(messages))
		} else if key, ok := sender(messages[0]); ok && key != from.key {
			t.Errorf("%s passes for one of %q", subject, key)
		}
	}
}

// The gateway sees the reply subject that a sender chose, or the server refuses it; and
// what it publishes for an inbox arrives there and with nobody else.
//
// covers A-REPLY, A-REPLYPEER, BCP-19
func TestAnswersGoToInboxesOfTheSender(t *testing.T) {
	t.Parallel()
	b := start(t)
	gateway := b.gateway()
	arrived := listen(t, gateway, "bcp.v1.ask.>")
	pushed := listen(t, gateway, "bcp.v1.push.>")
	decided := listen(t, gateway, "bcp.v1.approval.>")
	parties := []struct {
		a       *agent
		role    bcp.Role
		subject string
		arrived func() []*nats.Msg
	}{
		{b.connect("main", bcp.RoleController), bcp.RoleController, subjects.Ask("main", "researcher"), arrived},
		{b.connect("researcher", bcp.RoleReader), bcp.RoleReader, subjects.Push("researcher", "main", "findings"), pushed},
		{b.connect("alice", bcp.RoleApprover), bcp.RoleApprover, subjects.Approval("alice", subjects.VerbGet), decided},
	}
	heard := map[bcp.AgentName]func() []*nats.Msg{}
	for _, party := range parties {
		heard[party.a.name] = listen(t, party.a.Conn, subjects.InboxesOf(party.a.name))
	}
	for _, name := range []bcp.AgentName{"writer", "mailer"} {
		role := bcp.RoleController
		if name == "mailer" {
			role = bcp.RoleReader
		}
		heard[name] = listen(t, b.connect(name, role).Conn, subjects.InboxesOf(name))
	}
	for _, party := range parties {
		own := subjects.InboxPrefix(party.a.name) + ".x.1"
		for _, reply := range []string{
			own, subjects.InboxPrefix("writer") + ".x", subjects.InboxPrefix("mailer") + ".x", subjects.Query("mailer", "main"), subjects.Alerts(),
			subjects.Deliver(bcp.RoleController, "writer", "researcher"), "_INBOX.x", "_R_.x.y", "$JS.ACK.S.C.1.1.1.1.1", "_GR_.a.b.c.d.e", "$JS.API.INFO",
		} {
			noError(t, party.a.PublishRequest(party.subject, reply, []byte("x")))
			refused := party.a.refusals()
			flush(t, gateway)
			got := party.arrived()
			if strings.HasPrefix(reply, "_R_.") || strings.HasPrefix(reply, "$JS.ACK.") || strings.HasPrefix(reply, "_GR_.") {
				if len(refused) != 1 || len(got) != 0 {
					t.Errorf("%s with reply %q: %v refused, %v arrived", party.a.name, reply, refused, subjectsOf(got))
				}
				continue
			}
			if len(refused) != 0 || len(got) != 1 || (got[0].Reply == reply) == subjects.Identified(party.subject) {
				t.Errorf("%s with reply %q: refused %v, arrived %+v", party.a.name, reply, refused, got)
				continue
			}
			to := subjects.Answer(party.role, party.a.name, reply)
			expect(t, to != "", reply == own, "%s with reply %q is answered on %q", party.a.name, reply, to)
		}
		publish(t, gateway, subjects.Answer(party.role, party.a.name, own), "answer")
		flush(t, gateway)
		for name, take := range heard {
			want := 0
			if name == party.a.name {
				want = 1
			}
			if got := take(); len(got) != want || want == 1 && got[0].Subject != own {
				t.Errorf("%s got %v, for %s", name, subjectsOf(got), party.a.name)
			}
		}
	}
}
