package conformance

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// question is one query of the rig.
type question struct {
	id   bcp.QueryID
	spec bcp.Spec
}

func bound(n int64) *int64 { return &n }

// specs are the questions to a Reader, by category.
var specs = map[bcp.Category]bcp.Spec{
	1: {Category: 1, Fields: []bcp.Field{
		{Name: "confirmed", Type: bcp.TypeBoolean}, {Name: "sources", Type: bcp.TypeInteger, Min: bound(0), Max: bound(100)},
		{Name: "mood", Type: bcp.TypeEnum, Values: []string{"bad", "good", "mixed"}},
	}},
	2: {Category: 2, Questions: []bcp.Question{
		{ID: "when", Question: "On which day was it?", ExpectedFormat: bcp.FormatDate, MaxWords: 1},
		{ID: "topic", Question: "What is it about, in three words at most?", ExpectedFormat: bcp.FormatShortText, MaxWords: 3},
	}},
	3: {Category: 3, Directive: "Say in one sentence what it is about.", MaxWords: 30},
}

func (r *Rig) ask(spec bcp.Spec) question { return question{bcp.QueryID(fresh()), spec} }

// reply returns the reply subject of a sending of a question.
func (r *Rig) reply(q question, attempt int) string {
	return subjects.Reply(bcp.RoleReader, r.config.Agent, q.id, attempt)
}

func (r *Rig) query() string { return subjects.Query(r.config.Agent, peer) }

func (r *Rig) body(q question) []byte {
	return r.encode(bcp.Query{Type: bcp.TypeQuery, QueryID: q.id, Controller: peer, Spec: q.spec})
}

// send sends a question and returns its reply subject.
func (r *Rig) send(q question, attempt int) string {
	r.publish(r.query(), r.reply(q, attempt), r.body(q))
	return r.reply(q, attempt)
}

// checkReader plays the gateway and a Controller.
func (r *Rig) checkReader(ctx context.Context) {
	if !r.activate(ctx, readerActive) {
		r.decide(readerActive, Failed, "no acknowledgement came")
		return
	}
	again := r.attempt(bcp.DeliveryID(fresh()), 1)
	r.publish(r.deliver(), again, r.active())
	r.check(readerAgain, r.answered(ctx, again), "no acknowledgement came on the new reply subject")

	ids := map[bcp.Category]string{1: readerCategory1, 2: readerCategory2, 3: readerCategory3}
	for _, category := range []bcp.Category{1, 2, 3} {
		if !slices.Contains(r.config.Categories, category) {
			r.decide(ids[category], Unseen, "it was not asked in this category")
			continue
		}
		q := r.ask(specs[category])
		r.judge(ids[category], q, r.send(q, 0), r.answered(ctx, r.reply(q, 0)))
		r.result(ctx, q, true)
	}
	first := specs[r.config.Categories[0]]
	r.resend(ctx, first)
	r.reject(ctx, first)
	r.sendFuture(ctx, first)
	r.drop(ctx, first)
	r.disconnectOpen(ctx, first)
	r.pushed()
	r.checkOnce(readerOnce)
	r.permitted(readerPermitted)
	for _, id := range []string{readerNames, readerEncoding} {
		if _, decided := r.checks[id]; !decided {
			r.decide(id, Unseen, "it gave no answer")
		}
	}
}

func (r *Rig) deliver() string { return subjects.Deliver(r.config.Role, r.config.Agent, peer) }

func (r *Rig) active() []byte { return r.encode(r.list()) }

func (r *Rig) list() bcp.SubscriptionsActive {
	list := bcp.SubscriptionsActive{Type: bcp.TypeSubscriptionsActive}
	for _, c := range r.mesh.Channels {
		for _, s := range c.Subscriptions {
			list.Subscriptions = append(list.Subscriptions, bcp.ActiveSubscription{SubscriptionID: s.ID, Controller: c.Controller, Spec: s.Spec})
		}
	}
	return list
}

// activate sends the Reader its subscriptions until it acknowledges them.
func (r *Rig) activate(ctx context.Context, id string) bool {
	_, ok := r.persist(ctx, peer, bcp.DeliveryID(fresh()), r.active())
	if ok {
		r.decide(id, Passed, "")
	}
	return ok
}

// judge decides a check by the answer, if one came.
func (r *Rig) judge(id string, q question, reply string, came bool) {
	if !came {
		r.decide(id, Failed, "no answer came")
		return
	}
	in, ok := r.read(r.messagesOn(reply)[0].data)
	if !ok {
		r.decide(id, Failed, "the answer is not well-formed")
		return
	}
	r.check(readerNames, in.QueryID == q.id, "an answer names another query")
	validator, err := bcp.Compile(q.spec, bcp.Settings{Sealed: true})
	if err != nil {
		r.decide(id, Failed, err.Error()) // a built-in spec; it does not happen
		return
	}
	if in.NotEnoughInformation {
		r.check(id, validator.AllowsNotEnoughInformation(), "not_enough_information is no answer here")
		return
	}
	v := validator.Judge(in.Raw)
	r.check(id, v.Outcome != bcp.Reject, "the answer does not match its spec: "+v.Reason.String())
}

// read decodes a message in the agent's encoding. One in the other encoding
// only fails that check.
func (r *Rig) read(data []byte) (bcp.Incoming, bool) {
	in, code := bcp.ParseResponse(data, r.config.Encoding)
	if code == "" {
		r.decide(readerEncoding, Passed, "")
		return in, true
	}
	other := bcp.JSON
	if r.config.Encoding == bcp.JSON {
		other = bcp.MessagePack
	}
	if in, code = bcp.ParseResponse(data, other); code == "" {
		r.decide(readerEncoding, Failed, "an answer is in the other encoding")
	}
	return in, code == ""
}

// result sends the Reader the result of its answer.
func (r *Rig) result(ctx context.Context, q question, accepted bool) {
	v := bcp.ValidationResult{Type: bcp.TypeValidationResult, QueryID: q.id, Success: true, Status: bcp.StatusDelivered, Detail: "Delivered"}
	if !accepted {
		v.Success, v.Status, v.Code, v.Detail = false, bcp.StatusRefused, bcp.ValidationFailed, "the answer does not match its spec"
	}
	id := bcp.DeliveryID(fresh())
	if c, decided := r.checks[readerResults]; decided && c.Result == Failed {
		r.publish(r.deliver(), r.attempt(id, 0), r.encode(v)) // no further wait
		return
	}
	_, ok := r.persist(ctx, peer, id, r.encode(v))
	r.check(readerResults, ok, "no acknowledgement came")
}

func (r *Rig) resend(ctx context.Context, spec bcp.Spec) {
	q := r.ask(spec)
	r.answered(ctx, r.send(q, 0))
	r.check(readerResent, r.answered(ctx, r.send(q, 1)), "no answer came on the new reply subject")
}

func (r *Rig) reject(ctx context.Context, spec bcp.Spec) {
	q := r.ask(spec)
	r.answered(ctx, r.send(q, 0))
	r.result(ctx, q, false)
	r.check(readerRejected, r.answered(ctx, r.send(q, 1)), "no answer came after the rejection")
}

// laterCode is not one of today's codes.
const laterCode bcp.Code = "later_code"

// sendFuture sends what a newer gateway may send: a list, a query and a result with
// members that the Reader does not know, and an unknown code.
func (r *Rig) sendFuture(ctx context.Context, spec bcp.Spec) {
	_, ok := r.persist(ctx, peer, bcp.DeliveryID(fresh()), r.extended(r.list()))
	r.check(readerLater, ok, "no acknowledgement of bcp_subscriptions_active came")
	q := r.ask(spec)
	r.publish(r.query(), r.reply(q, 0), r.extended(bcp.Query{Type: bcp.TypeQuery, QueryID: q.id, Controller: peer, Spec: q.spec}))
	r.check(readerLater, r.answered(ctx, r.reply(q, 0)), "no answer came to a query")
	if r.checks[readerResults].Result == Failed {
		return // it does not accept any
	}
	_, ok = r.persist(ctx, peer, bcp.DeliveryID(fresh()), r.extended(bcp.ValidationResult{
		Type: bcp.TypeValidationResult, QueryID: q.id, Status: bcp.StatusRefused, Code: laterCode, Detail: "of a newer gateway",
	}))
	r.check(readerLater, ok, "no acknowledgement of bcp_validation_result came")
}

// drop sends what must be dropped, and then a query.
func (r *Rig) drop(ctx context.Context, spec bcp.Spec) {
	foreign, other, another, unknown := r.ask(spec), r.ask(spec), r.ask(spec), r.ask(spec)
	wants := subjects.Reply(bcp.RoleReader, bystander, foreign.id, 0)
	r.publish(r.query(), wants, r.body(foreign))

	borrowed := r.ask(spec)
	r.publish(r.query(), r.reply(borrowed, 0), r.body(other))

	r.publish(r.query(), r.reply(another, 0), r.encode(bcp.Query{Type: bcp.TypeQuery, QueryID: another.id, Controller: bystander, Spec: spec}))

	// A type of the same length, so that the message is valid in both encodings.
	unknown.spec = bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "shape", Type: bcp.TypeBoolean}}}
	r.publish(r.query(), r.reply(unknown, 0), bytes.Replace(r.body(unknown), []byte("boolean"), []byte("polygon"), 1))

	for _, broken := range r.broken(spec) {
		r.publish(r.query(), r.reply(broken.question, 0), broken.data)
	}
	r.publish(r.query(), "", r.body(r.ask(spec))) // there is nowhere to answer

	sound := r.ask(spec)
	r.check(readerMalformed, r.answered(ctx, r.send(sound, 0)), "no answer came to the query after them")
	r.quiet(ctx)
	r.check(readerForeign, len(r.messagesOn(wants)) == 0 && !r.refused(wants), "it answered on another agent's subject")
	r.check(readerOther, len(r.messagesOn(r.reply(borrowed, 0))) == 0, "it answered on the reply subject of another query")
	r.check(readerController, len(r.messagesOn(r.reply(another, 0))) == 0, "it answered")
	for _, broken := range r.broken(spec) {
		if len(r.messagesOn(r.reply(broken.question, 0))) > 0 {
			r.decide(readerMalformed, Failed, "it answered a message that is not well-formed")
		}
	}
	r.check(readerUnknown, !r.answeredWrongly(r.reply(unknown, 0)), "it answered with something")
}

// answeredWrongly reports whether an answer other than not_enough_information came.
func (r *Rig) answeredWrongly(reply string) bool {
	return slices.ContainsFunc(r.messagesOn(reply), func(h heard) bool {
		in, ok := r.read(h.data)
		return !ok || !in.NotEnoughInformation
	})
}

func (r *Rig) refused(subject string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.denials, func(d server.Denial) bool { return d.Subject == subject })
}

type brokenQuery struct {
	question
	data []byte
}

// broken returns messages that no Reader may answer; the same at each call.
func (r *Rig) broken(spec bcp.Spec) []brokenQuery {
	at := func(n int) question { return question{bcp.QueryID(fmt.Sprintf("broken-%d", n)), spec} }
	kind := r.encode(bcp.Query{Type: "bcp_inquiry", QueryID: at(2).id, Controller: peer, Spec: spec})
	whole := r.body(at(0))
	list := []brokenQuery{{at(0), whole[:len(whole)-3]}, {at(1), nil}, {at(2), kind}, {at(3), bytes.Repeat([]byte{0xff}, 64)}}
	if r.config.Encoding == bcp.JSON {
		list = append(list, brokenQuery{at(4), []byte("[]")})
	}
	return list
}

// disconnectOpen disconnects the Reader while a query is open.
func (r *Rig) disconnectOpen(ctx context.Context, spec bcp.Spec) {
	if !r.rejoin(ctx) {
		r.decide(readerReturns, Failed, "it did not come back")
		return
	}
	if !r.activate(ctx, readerActive) {
		r.decide(readerReturns, Failed, "it came back, and did not acknowledge its subscriptions")
		return
	}
	q := r.ask(spec)
	r.check(readerReturns, r.answered(ctx, r.send(q, 0)), "it came back, and did not answer")
}

// pushed judges what the Reader pushed meanwhile.
func (r *Rig) pushed() {
	r.mu.Lock()
	list := slices.Clone(r.heard)
	r.mu.Unlock()
	seen := false
	for _, h := range list {
		if h.to.Kind == subjects.KindPush {
			seen = true
			r.check(readerPushes, r.push(h).Success, "a push does not match its subscription")
		}
	}
	if !seen {
		r.decide(readerPushes, Unseen, "it did not push")
	}
}

// push judges one push as a gateway does.
func (r *Rig) push(h heard) bcp.ValidationResult {
	v := bcp.ValidationResult{
		Type: bcp.TypeValidationResult, SubscriptionID: h.to.Subscription, Status: bcp.StatusRefused,
		Code: bcp.ValidationFailed, Detail: bcp.ValidationFailed.Info().Text,
	}
	in, code := bcp.ParseResponse(h.data, r.config.Encoding)
	for _, c := range r.mesh.Channels {
		for _, s := range c.Subscriptions {
			if code != "" || s.ID != h.to.Subscription || in.SubscriptionID != s.ID || in.Controller != c.Controller {
				continue
			}
			if validator, err := bcp.Compile(s.Spec, bcp.Settings{Subscriptions: 1}); err == nil && validator.Judge(in.Raw).Outcome != bcp.Reject {
				v.Success, v.Status, v.Code, v.Detail = true, bcp.StatusDelivered, "", "Published to controller "+string(c.Controller)
			}
		}
	}
	return v
}

// respond answers messages that the agent sends on its own initiative.
func (r *Rig) respond(to subjects.Subject, m *nats.Msg) {
	if m.Reply == "" {
		return
	}
	var answer any
	switch to.Kind {
	case subjects.KindPush:
		answer = r.push(heard{to: to, data: m.Data})
	case subjects.KindSession:
		answer = struct {
			Session bcp.SessionID `json:"session_id"`
		}{"conformance"}
	case subjects.KindAsk:
		answer = r.receipt(to, m.Data)
	default:
		return
	}
	_ = r.nc.Publish(subjects.Answer(r.config.Role, r.config.Agent, m.Reply), r.encode(answer)) // the agent asks again
}
