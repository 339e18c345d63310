package agents_test

import (
	"context"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// sendRaw publishes bytes as a newer gateway would write them.
func (g *gateway) sendRaw(subject, reply, text string) {
	g.t.Helper()
	noError(g.t, g.nc.PublishRequest(subject, reply, []byte(text)))
	g.flush()
}

// Agents go on under a newer gateway: what they know of its messages reaches their
// handlers, and what they do not know they leave alone.
//
// covers P2.7, P9.3, P9.1
func TestAgentsUnderANewerGateway(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
	lists, results, asked := make(chan []bcp.ActiveSubscription, 4), make(chan bcp.ValidationResult, 4), make(chan agents.Query, 4)
	r := reader(t, s.ClientURL(), agents.Options{}, func(_ context.Context, q agents.Query) (any, error) {
		asked <- q
		return urgent, nil
	}, func(r *agents.Reader) {
		r.OnSubscriptions(func(list []bcp.ActiveSubscription) { lists <- list })
		r.OnResult(func(v bcp.ValidationResult) { results <- v })
	})
	listed := func(id bcp.DeliveryID, later string) {
		g.sendRaw(subjects.Deliver(bcp.RoleReader, researcher, bcp.Gateway), subjects.Reply(bcp.RoleReader, researcher, id, 0),
			`{`+later+`"type":"bcp_subscriptions_active","subscriptions":[{"subscription_id":"mail","controller":"main","max_rate":"9/y","category":1,"fields":[{"name":"urgent","type":"boolean","unit":"none"}]},`+
				`{"subscription_id":"hues","controller":"main","category":1,"fields":[{"name":"c","type":"colour"}]}]}`)
		next(t, replies, "the acknowledgement")
	}
	listed("h1", `"version":2,`)
	if got := next(t, lists, "the list"); len(got) != 1 || got[0].SubscriptionID != "mail" || got[0].Fields[0].Type != bcp.TypeBoolean {
		t.Errorf("the list is %+v", got)
	}
	listed("h2", `"version":3,`) // which is no news to it
	query := func(id, kind string) {
		g.sendRaw(subjects.Query(researcher, main), subjects.Reply(bcp.RoleReader, researcher, bcp.QueryID(id), 0),
			`{"type":"bcp_query","query_id":"`+id+`","controller":"main","priority":{"of":[1.5,null]},"category":1,"fields":[{"name":"urgent","type":"`+kind+`"}]}`)
	}
	query("q1", "colour") // what it is asked it does not know
	query("q2", "boolean")
	q := next(t, asked, "the query")
	failIf(t, q.QueryID != "q2", "asked %+v", q)
	next(t, replies, "the answer")
	g.sendRaw(subjects.Deliver(bcp.RoleReader, researcher, main), subjects.Reply(bcp.RoleReader, researcher, "r1", 0),
		`{"because":"x","type":"bcp_validation_result","query_id":"q2","success":false,"status":"refused","code":"too_late","detail":"x"}`)
	v := next(t, results, "the result")
	failIf(t, v.Code != "too_late", "the result is %+v", v)
	next(t, replies, "the receipt")
	none(t, lists, "the same list again")
	stats := r.Stats()
	failIf(t, stats.Malformed != 1 || stats.Duplicates != 1, "%+v", stats)

	deliveries := make(chan bcp.Delivery, 4)
	receiver(t, s.ClientURL(), agents.Options{}, func(_ context.Context, d bcp.Delivery) error {
		deliveries <- d
		return nil
	})
	g.sendRaw(subjects.Deliver(bcp.RoleController, main, researcher), subjects.Reply(bcp.RoleController, main, "d1", 0),
		`{"later":[],"type":"bcp_response_delivery","delivery_id":"d1","query_id":"q2","category":1,"from_agent":"researcher","outcome":"deferred","bandwidth_bits":1.5,"capacity_bits":2.5,"taint":"extreme","channel_mode":"bcp"}`)
	if d := next(t, deliveries, "the delivery"); d.Outcome != "deferred" || d.Taint.String() != "high" || d.BandwidthBits != bcp.Bit+bcp.Bit/2 {
		t.Errorf("the delivery is %+v", d)
	}
	sessions := g.listen(subjects.All(subjects.KindSession))
	controller := agents.NewController(connect(t, s.ClientURL(), agents.Options{Name: main}))
	ended := resultOf(func() ([]bcp.ChannelView, error) { return controller.Channels(within(t)) })
	m := next(t, sessions, "the question for channels")
	noError(t, m.Respond([]byte(`{"type":"bcp_channels","channels":[{"reader":"researcher","later":1,"subscriptions":[{"subscription_id":"hues","controller":"main","category":1,"fields":[{"name":"c","type":"colour"}]}]}]}`)))
	list := next(t, ended, "the channels")
	failIf(t, list.err != nil || len(list.value) != 1 || list.value[0].Reader != researcher || len(list.value[0].Subscriptions) != 0,
		"the channels are %+v", list)
}
