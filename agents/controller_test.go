package agents_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// An ask returns when it is accepted, though nobody answers the query.
//
// covers SUB-16, P9.1, P2.1
func TestAskReturnsWhenAccepted(t *testing.T) {
	t.Parallel()
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			s, g := startBoth(t, encoding)
			asks := make(chan bcp.Ask, 1)
			g.accept(func(ask bcp.Ask) bcp.QueryID { asks <- ask; return "q1" })
			controller := agents.NewController(connect(t, s.ClientURL(), agents.Options{Name: main, Encoding: encoding}))

			got := must(controller.Ask(within(t), researcher, boolean, agents.AskOptions{Justification: "the sender asks for a date"}))
			want := bcp.Accepted{QueryID: "q1", NominalBits: bcp.Bit, CapacityBits: 2 * bcp.Bit, RemainingBits: 6_906_890_596}
			same(t, want, got)
			ask := next(t, asks, "the ask")
			expect(t, errorOf(bcp.ParseClientID(string(ask.RequestID))), nil, "request id %q", ask.RequestID)
			ask.RequestID = ""
			wanted := bcp.Ask{Type: bcp.TypeQueryRequest, Target: researcher, Spec: boolean,
				Escalation: &bcp.Escalation{Justification: "the sender asks for a date"}}
			same(t, wanted, ask)
		})
	}
}

// Lost replies and the refusal unavailable are tried again with the same bytes,
// so that the gateway knows the repeat and charges once.
//
// covers P2.6
func TestAskRetriesWithTheSameBytes(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	asks := g.listen(subjects.All(subjects.KindAsk))
	controller := agents.NewController(connect(t, s.ClientURL(), agents.Options{Name: main, Attempt: 30 * time.Millisecond}))
	ended := later(func() error { return errorOf(controller.Ask(within(t), researcher, boolean, agents.AskOptions{})) })
	g.retried(asks, ended, bcp.Refusal{Error: bcp.Unavailable, Detail: bcp.Unavailable.Info().Text}, bcp.Accepted{QueryID: "q1"})
}

// A refusal is an error with its code, and nothing is asked again. No two asks have one id.
//
// covers SUB-16, P2.6, P10
func TestAskRefused(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.MessagePack)
	asks := g.listen(subjects.All(subjects.KindAsk))
	controller := agents.NewController(connect(t, s.ClientURL(), agents.Options{Name: main, Encoding: bcp.MessagePack}))
	ids := map[bcp.ClientID]bool{}
	for _, line := range bcp.Catalogue() {
		if line.To&bcp.ToController == 0 || line.Code == bcp.Unavailable {
			continue
		}
		ended := resultOf(func() (bcp.Accepted, error) {
			return controller.Ask(within(t), researcher, boolean, agents.AskOptions{})
		})
		m, ask := next(t, asks, "the ask"), bcp.Ask{}
		if g.decode(m, &ask); ids[ask.RequestID] {
			t.Errorf("two asks have the id %s", ask.RequestID)
		}
		ids[ask.RequestID] = true
		g.respond(m, bcp.Refusal{Error: line.Code, Detail: line.Text})
		got := next(t, ended, "the refusal")
		var refused *agents.RefusedError
		failIf(t, !errors.As(got.err, &refused) || refused.Code != line.Code || refused.Detail != line.Text || got.value != bcp.Accepted{},
			"%s: got %v", line.Code, got)
	}
	none(t, asks, "a repeat of a refused ask")
}

// When the context ends, the caller learns the id with which it may go on.
//
// covers P2.6
func TestAskEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	conn := connect(t, s.ClientURL(), agents.Options{Name: main})
	controller := agents.NewController(conn)
	var err error
	// A second attempt means that the first one had ended before the context did.
	for lasts, again := 50*time.Millisecond, false; !again; lasts *= 2 {
		stopIf(t, lasts > patience, "nothing is sent a second time")
		before := conn.NATS().Stats().OutMsgs
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		_, err = controller.Ask(ctx, researcher, boolean, agents.AskOptions{RequestID: "mine"})
		cancel()
		again = conn.NATS().Stats().OutMsgs-before >= 2
	}
	var unanswered *agents.UnansweredError
	stopIf(t, !errors.As(err, &unanswered) || unanswered.ID != "mine", "got %v", err)
	failIf(t, !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, nats.ErrNoResponders), "the reasons are lost: %v", err)
}

// What cannot work fails at once and sends nothing.
//
// covers P1.1
func TestAskRefusesWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	everything := g.listen(">")
	c := connect(t, s.ClientURL(), agents.Options{Name: main})
	controller := agents.NewController(c)
	for name, ask := range map[string]struct {
		reader bcp.AgentName
		spec   bcp.Spec
		id     bcp.ClientID
	}{
		"reader with a dot":         {"a.b", boolean, ""},
		"reader with a wildcard":    {">", boolean, ""},
		"request id with a space":   {researcher, boolean, "a b"},
		"spec that does not encode": {researcher, bcp.Spec{Category: 3, Directive: "\xff"}, ""},
	} {
		fails(t, errorOf(controller.Ask(t.Context(), ask.reader, ask.spec, agents.AskOptions{RequestID: ask.id})), nil, "%s: no error", name)
	}
	fails(t, errorOf(controller.AskAndWait(t.Context(), researcher, boolean, agents.AskOptions{})), nil, "not started: no error")
	noError(t, c.NATS().FlushTimeout(patience))
	g.flush()
	none(t, everything, "a message")
}

// A reply in the wrong encoding, or no reply of the protocol, ends the ask with
// a hint instead of a retry.
//
// covers P2.1
func TestAskDoesNotUnderstandTheReply(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	asks := g.listen(subjects.All(subjects.KindAsk))
	controller := agents.NewController(connect(t, s.ClientURL(), agents.Options{Name: main}))
	packed := must(bcp.Encode(bcp.Accepted{QueryID: "q1"}, bcp.MessagePack))
	for _, reply := range [][]byte{nil, []byte("ok"), []byte("{}"), []byte(`{"query_id":1}`), []byte(`{"query_id":"q1","query_id":"q2"}`), packed} {
		ended := later(func() error { return errorOf(controller.Ask(within(t), researcher, boolean, agents.AskOptions{})) })
		noError(t, next(t, asks, "the ask").Respond(reply))
		fails(t, next(t, ended, "the end"), agents.ErrMessage, "%q: got", reply)
	}
}

// A channel that there is not is an error at once, not a silent timeout.
//
// covers P1.4
func TestDeniedAskFailsInsteadOfWaiting(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{subjects.Session(main)}},
			Subscribe: &server.SubjectPermission{Allow: []string{subjects.InboxesOf(main)}},
		}}}
	})
	log, o := logged()
	o.Name, o.NATS = main, []nats.Option{nats.UserInfo("u", "p")}
	controller := agents.NewController(connect(t, s.ClientURL(), o))
	o.Attempt = 200 * time.Millisecond
	c := connect(t, s.ClientURL(), o)
	_, err := agents.NewController(c).Ask(within(t), researcher, boolean, agents.AskOptions{})
	failIf(t, !errors.Is(err, nats.ErrPermissionViolation), "ask: got %v", err)
	_, err = agents.NewReader(c).Push(within(t), main, "mail", map[string]any{"urgent": true}, agents.PushOptions{})
	failIf(t, !errors.Is(err, nats.ErrPermissionViolation), "push: got %v", err)
	fails(t, controller.Start(within(t)), nats.ErrPermissionViolation, "start: got")
	eventually(t, "the violation in the log", func() bool { return log.has("the server denied a subject") > 0 })
}

// covers P9.2
func TestSessions(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	sessions := g.listen(subjects.All(subjects.KindSession))
	controller := agents.NewController(connect(t, s.ClientURL(), agents.Options{Name: main}))
	for verb, call := range map[string]func(context.Context) error{"open": controller.OpenSession, "close": controller.CloseSession} {
		for _, reply := range []any{struct {
			Session bcp.SessionID `json:"session_id"`
		}{"s1"}, bcp.Refusal{Error: bcp.RateLimited, Detail: "too many"}} {
			ended := later(func() error { return call(within(t)) })
			m := next(t, sessions, verb)
			message, code := bcp.ParseSession(m.Data, bcp.JSON)
			failIf(t, code != "" || message.Verb != verb || m.Subject != subjects.Session(main),
				"%s sends %s on %s", verb, m.Data, m.Subject)
			g.respond(m, reply)
			err := next(t, ended, "the reply")
			var refused *agents.RefusedError
			if _, isRefusal := reply.(bcp.Refusal); isRefusal != errors.As(err, &refused) || isRefusal != (err != nil) {
				t.Errorf("%s answered by %v: got %v", verb, reply, err)
			}
		}
	}
}
