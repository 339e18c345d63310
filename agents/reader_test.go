package agents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

type answer = func(context.Context, agents.Query) (any, error)

var urgent = map[string]any{"urgent": true}

// reader is a started Reader with a handler for queries.
func reader(t *testing.T, url string, o agents.Options, handler answer, change func(*agents.Reader)) *agents.Reader {
	t.Helper()
	o.Name = researcher
	r := agents.NewReader(connect(t, url, o))
	if handler != nil {
		r.OnQuery(handler)
	}
	if change != nil {
		change(r)
	}
	noError(t, r.Start(t.Context()))
	t.Cleanup(func() {
		noError(t, r.Stop(context.Background()))
	})
	return r
}

// The handler's answer goes to the reply subject of the dispatch, as a message
// that the gateway's strict parser takes.
//
// covers P2.1, P2.2, P3.9, P9.5
func TestReaderAnswers(t *testing.T) {
	t.Parallel()
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			s, g := startBoth(t, encoding)
			replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
			answers := map[bcp.QueryID]any{
				"q1": urgent,
				"q2": struct {
					Urgent bool `json:"urgent"`
				}{true},
				"q3": jsontext.Value(`{"urgent":true}`),
				"q4": agents.NotEnoughInformation{},
			}
			reader(t, s.ClientURL(), agents.Options{Encoding: encoding}, func(_ context.Context, q agents.Query) (any, error) {
				want := agents.Query{Query: bcp.Query{Type: bcp.TypeQuery, QueryID: q.QueryID, Controller: main, Spec: boolean}}
				same(t, want, q)
				return answers[q.QueryID], nil
			}, nil)
			for id, value := range answers {
				g.query(id, 0)
				m := next(t, replies, "the answer")
				expect(t, m.Subject, subjects.Reply(bcp.RoleReader, researcher, id, 0), "answered on")
				in, code := bcp.ParseResponse(m.Data, encoding)
				if _, unknown := value.(agents.NotEnoughInformation); code != "" || in.QueryID != id || in.NotEnoughInformation != unknown {
					t.Errorf("answered %s: %q, %+v", m.Data, code, in)
				}
			}
		})
	}
}

// A query that was answered and comes again, because somebody was away, is
// answered by the same bytes without another call.
//
// covers P9.5
func TestReaderAnswersAgain(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
	var calls atomic.Int32
	entered, release := make(chan struct{}, 9), make(chan struct{})
	r := reader(t, s.ClientURL(), agents.Options{}, func(context.Context, agents.Query) (any, error) {
		entered <- struct{}{}
		<-release
		return map[string]any{"call": calls.Add(1)}, nil
	}, nil)
	g.query("q1", 0)
	next(t, entered, "the handler")
	g.query("q1", 1) // comes again while the handler is at work: one answer is enough
	eventually(t, "the duplicate", func() bool { return r.Stats().Duplicates == 1 })
	close(release)
	again := func(sending int) []byte {
		t.Helper()
		m := next(t, replies, "the answer")
		expect(t, m.Subject, subjects.Reply(bcp.RoleReader, researcher, "q1", sending), "answered on")
		return m.Data
	}
	first := again(1)
	g.query("q1", 2)
	second := again(2)
	failIf(t, !bytes.Equal(first, second) || calls.Load() != 1, "%d calls, %s then %s", calls.Load(), first, second)
	noError(t, r.Stop(t.Context()))
	noError(t, r.Start(t.Context()))
	g.query("q1", 3)
	third := again(3)
	failIf(t, !bytes.Equal(first, third), "%s then %s", first, third)
	none(t, replies, "another answer")
}

// After a rejection the handler hears why and tries again, on the new reply
// subject. A refusal that is about no answer of this client changes nothing.
//
// covers P9.5, P3.10
func TestReaderTriesAgainAfterARejection(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
	seen := make(chan agents.Query, 9)
	results := make(chan bcp.ValidationResult, 9)
	reader(t, s.ClientURL(), agents.Options{}, func(_ context.Context, q agents.Query) (any, error) {
		seen <- q
		return urgent, nil
	}, func(r *agents.Reader) { r.OnResult(func(v bcp.ValidationResult) { results <- v }) })
	g.query("q1", 0)
	next(t, replies, "the first answer")
	q := next(t, seen, "the first call")
	failIf(t, q.Attempt != 0 || q.LastDetail != "", "got %+v", q)
	refusal := bcp.ValidationResult{Type: bcp.TypeValidationResult, QueryID: "q1", Status: bcp.StatusRefused,
		Code: bcp.ValidationFailed, Detail: "urgent: has the wrong type"}
	g.result(replies, refusal)
	g.query("q1", 1)
	repliedOn(t, replies, subjects.Reply(bcp.RoleReader, researcher, "q1", 1))
	q = next(t, seen, "the second call")
	failIf(t, q.Attempt != 1 || q.LastDetail != refusal.Detail, "got %+v", q)
	same(t, refusal, next(t, results, "the result"))
	g.query("q1", 2)
	next(t, replies, "the second answer again")
	refusal.QueryID = "q2"
	g.result(replies, refusal)
	g.query("q2", 0)
	next(t, replies, "another query's answer")
	q = next(t, seen, "its call")
	failIf(t, q.QueryID != "q2" || q.Attempt != 0 || q.LastDetail != "", "got %+v", q)
}

// Answering a foreign reply subject would send this agent's bytes, with this
// agent's permissions, to where somebody else wants them.
//
// covers A-REPLY, P9.1, P9.5
func TestReaderDropsForeignReplySubjects(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	everything := g.listen(">")
	log, o := logged()
	r := reader(t, s.ClientURL(), o, func(context.Context, agents.Query) (any, error) { return urgent, nil }, func(r *agents.Reader) {
		r.OnResult(func(v bcp.ValidationResult) { t.Errorf("a foreign result: %v", v) })
	})
	query := bcp.Query{Type: bcp.TypeQuery, QueryID: "q1", Controller: main, Spec: boolean}
	list := bcp.SubscriptionsActive{Type: bcp.TypeSubscriptionsActive, Subscriptions: []bcp.ActiveSubscription{}}
	result := bcp.ValidationResult{Type: bcp.TypeValidationResult, QueryID: "q1", Success: true, Status: bcp.StatusDelivered}
	sent := 0
	for _, reply := range []string{
		"", "_INBOX.other.1", // another Reader can have a receipt of its own sent to any subject
		subjects.Reply(bcp.RoleReader, "other", "q1", 0),
		subjects.Reply(bcp.RoleController, main, "q1", 0),
		subjects.Reply(bcp.RoleController, researcher, "q1", 0),
		subjects.Reply(bcp.RoleReader, researcher, "q1", 0) + ".x",
		subjects.Session(researcher),
		subjects.Push(researcher, main, "mail"),
		subjects.InboxPrefix(researcher) + ".x",
		"$JS.API.STREAM.PURGE.AUDIT",
		"reply",
	} {
		g.send(subjects.Query(researcher, main), reply, query)
		g.send(subjects.Deliver(bcp.RoleReader, researcher, main), reply, list)
		g.send(subjects.Deliver(bcp.RoleReader, researcher, main), reply, result)
		sent += 3
	}
	g.send(subjects.Query(researcher, main), subjects.Reply(bcp.RoleReader, researcher, "another", 0), query)
	sent++
	eventually(t, "all to be dropped", func() bool { return r.Stats().Foreign == uint64(sent) })
	failIf(t, log.has("a foreign reply subject") == 0, "the log does not say so")

	query.Controller = "other"
	g.send(subjects.Query(researcher, main), subjects.Reply(bcp.RoleReader, researcher, "q1", 0), query)
	query.Controller, query.Type = main, bcp.TypeResponse
	g.send(subjects.Query(researcher, main), subjects.Reply(bcp.RoleReader, researcher, "q1", 0), query)
	g.send(subjects.Deliver(bcp.RoleReader, researcher, main), subjects.Reply(bcp.RoleReader, researcher, "r9", 0), "text")
	sent += 3
	eventually(t, "the rest to be dropped", func() bool { return r.Stats().Malformed == 3 })

	g.query("q2", 0)
	for range sent + 1 {
		next(t, everything, "the gateway's own message")
	}
	repliedOn(t, everything, subjects.Reply(bcp.RoleReader, researcher, "q2", 0))
	none(t, everything, "another message")
}

// A handler that fails or panics sends nothing, and is called again when the
// query comes again.
//
// covers P9.5
func TestReaderHandlerFails(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
	log, o := logged()
	calls := 0
	reader(t, s.ClientURL(), o, func(context.Context, agents.Query) (any, error) {
		calls++
		switch calls {
		case 1:
			return nil, errors.New("boom")
		case 2:
			panic("words of the web")
		case 3:
			return "no object", nil
		case 4:
			return map[string]any{"f": func() {}}, nil
		default:
			return urgent, nil
		}
	}, nil)
	for n := 1; n <= 4; n++ {
		g.query("q1", 0)
		eventually(t, "the failure", func() bool { return log.has("handler failed: agent=researcher of=query id=q1") == n })
	}
	expect(t, log.has("panicked=true"), 1, "panics in %s", log)
	g.query("q1", 0)
	next(t, replies, "the answer")
}

// No more handlers run at a time than Options say, and no fewer.
//
// covers P9.5
func TestReaderHandlersAreBounded(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
	var running, most atomic.Int32
	var all sync.WaitGroup
	all.Add(3)
	reader(t, s.ClientURL(), agents.Options{Handlers: 3}, func(_ context.Context, q agents.Query) (any, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if q.QueryID < "q03" {
			all.Done()
			all.Wait() // the first three meet
		}
		return urgent, nil
	}, nil)
	for i := range 20 {
		g.query(bcp.QueryID(fmt.Sprintf("q%02d", i)), 0)
	}
	for range 20 {
		next(t, replies, "an answer")
	}
	expect(t, most.Load(), 3, "handlers at a time")
}

// The list of subscriptions is acknowledged at once, every time, and handed on
// when it is new.
//
// covers SUB-55, P9.3
func TestReaderSubscriptions(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.MessagePack)
	replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
	lists, release := make(chan []bcp.ActiveSubscription, 9), make(chan struct{})
	reader(t, s.ClientURL(), agents.Options{Encoding: bcp.MessagePack}, nil, func(r *agents.Reader) {
		r.OnSubscriptions(func(list []bcp.ActiveSubscription) {
			lists <- list
			<-release
		})
	})
	send := func(id bcp.DeliveryID, list []bcp.ActiveSubscription) {
		g.send(subjects.Deliver(bcp.RoleReader, researcher, bcp.Gateway), subjects.Reply(bcp.RoleReader, researcher, id, 0),
			bcp.SubscriptionsActive{Type: bcp.TypeSubscriptionsActive, Subscriptions: list})
		if m := next(t, replies, "the acknowledgement"); m.Subject != subjects.Reply(bcp.RoleReader, researcher, id, 0) || len(m.Data) != 0 {
			t.Errorf("acknowledged by %q on %s", m.Data, m.Subject)
		}
	}
	one := []bcp.ActiveSubscription{{SubscriptionID: "mail", Controller: main, Spec: boolean}}
	send("h1", one)
	same(t, one, next(t, lists, "the list"))
	send("h1", one)
	send("h2", one)
	send("h3", []bcp.ActiveSubscription{})
	close(release)
	list := next(t, lists, "the new list")
	failIf(t, len(list) != 0, "got %v", list)
	none(t, lists, "a list that is not new")
}

// covers P7.6
func TestReaderResults(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
	results := make(chan bcp.ValidationResult, 9)
	log, o := logged()
	r := reader(t, s.ClientURL(), o, nil, func(r *agents.Reader) {
		r.OnResult(func(v bcp.ValidationResult) {
			results <- v
			if v.Status == bcp.StatusHeld {
				panic("held")
			}
		})
	})
	held := bcp.ValidationResult{Type: bcp.TypeValidationResult, QueryID: "q1", Success: true, Status: bcp.StatusHeld, Detail: "held"}
	final := held
	final.Status = bcp.StatusDelivered
	for _, v := range []bcp.ValidationResult{held, final} {
		for sending := range 2 {
			id := bcp.DeliveryID("v" + v.Status)
			g.send(subjects.Deliver(bcp.RoleReader, researcher, main), subjects.Reply(bcp.RoleReader, researcher, id, sending), v)
			next(t, replies, "the acknowledgement")
		}
		same(t, v, next(t, results, "the result"))
	}
	none(t, results, "a result twice")
	expect(t, r.Stats().Duplicates, 2, "duplicates")
	expect(t, log.has("panicked=true"), 1, "panics in %s", log)
}

// A push emits a bcp_response with subscription, controller and an id, and
// returns the gateway's result, whatever it is.
//
// covers SUB-67, SUB-105, SUB-106, SUB-107, SUB-108, SUB-112, P2.6, P7.6
func TestPush(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		g := startGateway(t, s.ClientURL(), encoding)
		pushes := g.listen(subjects.All(subjects.KindPush))
		r := agents.NewReader(connect(t, s.ClientURL(), agents.Options{Name: researcher, Encoding: encoding}))
		for _, want := range []bcp.ValidationResult{
			{Success: true, Status: bcp.StatusDelivered, Detail: "Published to controller main (Cat-1, 1.0 bits)"},
			{Success: true, Status: bcp.StatusHeld, Detail: "Held for a person"},
			{Status: bcp.StatusHeld, Detail: "Held for a person"},
			{Status: bcp.StatusRefused, Code: bcp.BudgetExhausted, Detail: "Bandwidth budget exhausted for channel to 'main'"},
			{Status: bcp.StatusRefused, Code: bcp.ValidationFailed, Detail: "urgent: has the wrong type"},
		} {
			want.Type, want.SubscriptionID = bcp.TypeValidationResult, "mail"
			ended := resultOf(func() (bcp.ValidationResult, error) {
				return r.Push(within(t), main, "mail", urgent, agents.PushOptions{})
			})
			m := next(t, pushes, "the push")
			in, code := bcp.ParseResponse(m.Data, encoding)
			failIf(t, code != "" || m.Subject != subjects.Push(researcher, main, "mail") || in.SubscriptionID != "mail" || in.Controller != main || in.PushID == "" || in.QueryID != "",
				"pushed %s on %s", m.Data, m.Subject)
			g.respond(m, want)
			got := next(t, ended, "the result")
			same(t, want, got.value)
			var refused *agents.RefusedError
			if isRefusal := want.Status == bcp.StatusRefused; isRefusal != errors.As(got.err, &refused) || isRefusal != (got.err != nil) {
				t.Errorf("%v: got %v", want, got.err)
			} else if isRefusal && (refused.Code != want.Code || refused.Detail != want.Detail) {
				t.Errorf("%v: got %v", want, refused)
			}
		}
		hasty := agents.NewReader(connect(t, s.ClientURL(), agents.Options{Name: researcher, Encoding: encoding, Attempt: 30 * time.Millisecond}))
		ended := later(func() error { return errorOf(hasty.Push(within(t), main, "mail", urgent, agents.PushOptions{})) })
		refused := bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: "mail", Status: bcp.StatusRefused, Code: bcp.Unavailable}
		g.retried(pushes, ended, refused, bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: "mail", Success: true, Status: bcp.StatusDelivered})
	}
}

// What is no object, or names nobody, is refused before it is sent.
//
// covers SUB-105, SUB-106, SUB-107
func TestPushRefusesWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	everything := g.listen(">")
	c := connect(t, s.ClientURL(), agents.Options{Name: researcher})
	r := agents.NewReader(c)
	for _, response := range []any{nil, "text", 1, true, []string{"a"}, jsontext.Value("[]"), jsontext.Value("{")} {
		fails(t, errorOf(r.Push(t.Context(), main, "mail", response, agents.PushOptions{})), nil, "%v was sent", response)
	}
	for _, name := range []struct {
		controller   bcp.AgentName
		subscription bcp.SubscriptionID
		id           bcp.ClientID
	}{{"", "mail", ""}, {main, "", ""}, {"a.b", "mail", ""}, {main, "a.b", ""}, {main, ">", ""}, {main, "mail", "a b"}} {
		_, err := r.Push(t.Context(), name.controller, name.subscription, urgent, agents.PushOptions{PushID: name.id})
		failIf(t, err == nil, "%v was sent", name)
	}
	noError(t, c.NATS().FlushTimeout(patience))
	g.flush()
	none(t, everything, "a message")
}
