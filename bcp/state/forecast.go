package state

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

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

// Forecasts returns the forecast of every channel, sorted by controller, then
// reader.
func (s *State) Forecasts(now time.Time) []bcp.Forecast {
	all := []bcp.Forecast{}
	for i := range s.mesh.Channels {
		all = append(all, s.forecast(bcp.Moment{Now: now}, s.channels[s.mesh.Channels[i].ChannelKey]))
	}
	return all
}

func (s *State) forecast(m bcp.Moment, ch *channelState) bcp.Forecast {
	c := &ch.definition
	f := bcp.Forecast{Controller: c.Controller, Reader: c.Reader, Frees: []bcp.Freed{}}
	ask, push := s.next(m, bcp.KindAsk), s.next(m, bcp.KindPush)
	ask.Controller, push.Controller = c.Controller, c.Controller
	s.setSession(&ask, m, c.Controller, false)
	f.Queries, f.Pushes = s.roomFor(&ask, ch), s.roomFor(&push, ch)
	for _, form := range queryForms {
		if v, _, err := s.validator(ch, form.spec); err == nil && form.spec.Category <= c.MaxCategory {
			f.Queries.Fits = append(f.Queries.Fits, s.queriesThatFit(ask, ch, v, form.name))
		}
	}
	for i := range c.Subscriptions {
		f.Pushes.Fits = append(f.Pushes.Fits, s.pushesThatFit(push, ch, c.Subscriptions[i].ID))
	}
	for _, p := range ch.window.parts {
		if at := p.begin + ch.window.width() + ch.window.span; at > ask.Time {
			f.Frees = append(f.Frees, bcp.Freed{At: time.Unix(0, at).UTC(), Bits: p.sum})
		}
	}
	return f
}

// roomFor is what a charge of this decision finds; it sets the decision's epoch.
func (s *State) roomFor(d *bcp.Decision, ch *channelState) bcp.Room {
	if d.Epoch = ch.decisionEpoch(d); d.Kind == bcp.KindPush {
		d.Epoch, _ = ch.pushEpoch(d.Time)
	}
	r := bcp.Room{Epoch: d.Epoch, Opens: d.Epoch > ch.newest(), Budgets: []bcp.BudgetRoom{}, Fits: []bcp.Fit{}}
	limits, n := s.limits(d, ch)
	for _, l := range limits[:n] {
		r.Budgets = append(r.Budgets, bcp.BudgetRoom{Key: l.check.Info().Key, Limit: l.limit, Left: max(0, l.left)})
	}
	return r
}

// fewest lowers the number to what a check lets through, which must come in the
// order of the checks.
func fewest(f *bcp.Fit, check bcp.Check, times int64) {
	if times < int64(f.Times) {
		f.Times, f.Until = int(max(0, times)), check
	}
}

// fitWithin lowers the number to what the budgets let through.
func fitWithin(f *bcp.Fit, s *State, d *bcp.Decision, ch *channelState) {
	limits, n := s.limits(d, ch)
	for _, l := range limits[:n] {
		if price := l.price(f.Nominal, f.Capacity); price > 0 || l.left < 0 {
			fewest(f, l.check, int64(l.left/max(1, price)))
		}
	}
}

func (s *State) queriesThatFit(d bcp.Decision, ch *channelState, v *bcp.Validator, form string) bcp.Fit {
	c := &ch.definition
	d.Category = v.Spec().Category
	f := bcp.Fit{Form: form, Category: d.Category, Nominal: v.Prices().Nominal, Capacity: v.Prices().Reserve(), Times: maxOutbox + 1}
	if check, code := s.escalate(&d, ch, ch.anyJustification()); code != "" {
		fewest(&f, check, 0)
	}
	left, each := c.MaxEscalations, d.Category == 3 || c.BaseCategory == 1
	if ch.session == d.Session {
		left -= ch.escalations
	}
	if d.Escalation && (each || ch.armedAt(d.Time) > left) {
		fewest(&f, bcp.CheckEscalations, int64(left))
	}
	if d.Category == 2 && c.MaxCat2Queries >= 0 {
		fewest(&f, bcp.CheckCat2Queries, int64(c.MaxCat2Queries-ch.pool(d.Epoch).Cat2Queries))
	}
	fitWithin(&f, s, &d, ch)
	if s.agents[c.Reader].unavailable && c.ReleaseInterval == 0 {
		fewest(&f, bcp.CheckReader, 0)
	}
	fewest(&f, bcp.CheckOutbox, int64(maxOutbox-ch.queries()))
	return f
}

func (s *State) pushesThatFit(d bcp.Decision, ch *channelState, id bcp.SubscriptionID) bcp.Fit {
	v := ch.subscriptions[id]
	f := bcp.Fit{Subscription: id, Category: v.Spec().Category, Times: maxOutbox + 1}
	f.Nominal, f.Capacity = ch.pushPrice(v, ch.pushes[id], d.Time, s.origin)
	if p := ch.pushes[id]; p.rate.Count > 0 {
		fewest(&f, bcp.CheckRate, int64(p.left(d.Time)))
	}
	if p := ch.pushes[id]; p.window > 0 {
		fewest(&f, bcp.CheckBatch, int64(p.batchRoom(d.Time)))
	}
	fitWithin(&f, s, &d, ch)
	if f.Category == 3 { // each waits for a person first
		fewest(&f, bcp.CheckQueue, int64(ch.definition.MaxPendingApprovals-ch.pending))
	} else {
		fewest(&f, bcp.CheckOutbox, int64(maxOutbox-ch.gathered()))
	}
	if ch.gathered() >= maxOutbox {
		fewest(&f, bcp.CheckOutbox, 0)
	}
	if s.agents[ch.definition.Controller].unavailable {
		fewest(&f, bcp.CheckController, 0)
	}
	return f
}

// anyJustification is one that the channel allows.
func (ch *channelState) anyJustification() *bcp.Escalation {
	if list := ch.settings.Vocabularies[ch.definition.JustificationVocabulary]; len(list) > 0 {
		return &bcp.Escalation{Justification: list[0]}
	}
	return &bcp.Escalation{Justification: "any"}
}
