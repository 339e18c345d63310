package state

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// ListsChannels reports whether a Controller's session message asks for its
// channels, which changes nothing and so is not decided. Messages of one that is
// refused for the rest of the minute are left to [State.DecideSession].
func (s *State) ListsChannels(m bcp.Moment, controller bcp.AgentName, body []byte) bool {
	if s.limited(controller, s.now(m)) {
		return false
	}
	message, code := bcp.ParseSession(body, s.Encoding(controller))
	return code == "" && message.Verb == bcp.VerbChannels
}

// Channels returns a Controller's channels, sorted by Reader.
func (s *State) Channels(controller bcp.AgentName, now time.Time) bcp.Channels {
	list := bcp.Channels{Type: bcp.TypeChannels, Channels: []bcp.ChannelView{}}
	if a := s.agents[controller]; a != nil {
		for _, ch := range a.asks {
			list.Channels = append(list.Channels, s.channelView(ch, bcp.Moment{Now: now}))
		}
	}
	return list
}

// queryForms stand for the queries of their category.
var queryForms = []struct {
	name string
	spec bcp.Spec
}{
	{"a boolean", bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "answer", Type: bcp.TypeBoolean}}}},
	{"a number of 1 to 100", bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "answer", Type: bcp.TypeInteger, Min: new(int64(1)), Max: new(int64(100))}}}},
	{"a date", bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "answer", Question: "When?", MaxWords: 3, ExpectedFormat: bcp.FormatDate}}}},
	{"a text of 10 words", bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "answer", Question: "What?", MaxWords: 10, ExpectedFormat: bcp.FormatShortText}}}},
	{"a summary of 100 words", bcp.Spec{Category: 3, Directive: "Sum it up.", MaxWords: 100}},
}

func (s *State) channelView(ch *channelState, m bcp.Moment) bcp.ChannelView {
	c := &ch.definition
	reader := &s.agents[c.Reader].definition
	ask := s.next(m, bcp.KindAsk)
	ask.Controller = c.Controller
	s.setSession(&ask, m, c.Controller, false)
	ask.Epoch = ch.decisionEpoch(&ask)
	v := bcp.ChannelView{Reader: c.Reader, Description: reader.Description, MaxCategory: c.MaxCategory, BaseCategory: c.BaseCategory,
		Budget: c.Budget, Remaining: max(0, c.Budget-ch.spent(ask.Epoch, ask.Time).seen()),
		MaxEscalations: c.MaxEscalations, Cat2Queries: ch.pool(ask.Epoch).Cat2Queries, MaxCat2Queries: c.MaxCat2Queries,
		MaxArgumentBytes: c.MaxArgumentBytes, Subscriptions: s.activeSubscriptions(ch), Costs: []bcp.Cost{}}
	if ch.session == ask.Session {
		v.Escalations = ch.escalations
	}
	for _, form := range queryForms {
		compiled, _, err := s.validator(ch, form.spec)
		if err != nil || form.spec.Category > c.MaxCategory {
			continue
		}
		d := ask
		d.Category = form.spec.Category
		s.escalate(&d, ch, nil)
		v.Costs = append(v.Costs, bcp.Cost{Form: form.name, Category: d.Category, Nominal: compiled.Prices().Nominal,
			Capacity: compiled.Prices().Reserve(), Escalation: d.Escalation})
	}
	return v
}

// AgentWaits counts for each agent what waits; agents for which nothing does are left
// out.
func (s *State) AgentWaits() map[bcp.AgentName]status.Wait {
	all := make(map[bcp.AgentName]status.Wait)
	add := func(agent bcp.AgentName, change func(*status.Wait)) {
		w := all[agent]
		change(&w)
		all[agent] = w
	}
	for _, q := range s.open {
		if q.waits() {
			add(q.channel.Reader, func(w *status.Wait) { w.Queries++ })
			add(q.channel.Controller, func(w *status.Wait) { w.Answers++ })
		}
	}
	for key, ch := range s.channels {
		if n := len(ch.outbox); n > 0 {
			add(key.Controller, func(w *status.Wait) { w.Deliveries += n })
		}
	}
	for _, it := range s.Items() {
		add(it.Controller, func(w *status.Wait) { w.Held++ })
		add(it.Reader, func(w *status.Wait) { w.Held++ })
	}
	return all
}
