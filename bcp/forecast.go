package bcp

import "time"

// Forecast is what the budgets of a channel have room for now, by the rules that
// decide: as many queries and pushes are accepted if they come at once, and no
// more.
type Forecast struct {
	Controller AgentName `json:"controller"`
	Reader     AgentName `json:"reader"`
	Queries    Room      `json:"queries"`
	Pushes     Room      `json:"pushes"`
	// Frees says when the sliding window gives back what, soonest first.
	Frees []Freed `json:"window_frees"`
}

// Room is what one kind of charge finds.
type Room struct {
	Epoch   uint64       `json:"epoch"` // that the next charge belongs to
	Opens   bool         `json:"opens"` // with it; until then the epoch of before is shown
	Budgets []BudgetRoom `json:"budgets"`
	Fits    []Fit        `json:"fits"`
}

// BudgetRoom is what one budget has left.
type BudgetRoom struct {
	Key   string `json:"key"` // of the definition
	Limit Bits   `json:"limit_bits"`
	Left  Bits   `json:"left_bits"`
}

// Fit is how often one form of a query, or a subscription, fits.
type Fit struct {
	Form         string         `json:"form,omitempty"` // of a query
	Subscription SubscriptionID `json:"subscription_id,omitempty"`
	Category     Category       `json:"category"`
	Nominal      Bits           `json:"nominal_bits"`
	Capacity     Bits           `json:"capacity_bits"`
	Times        int            `json:"times"`
	Until        Check          `json:"until"` // what refuses the next one
}

// Freed is a part of the window that is forgotten.
type Freed struct {
	At   time.Time `json:"at"`
	Bits Bits      `json:"bits"`
}

// queryForms stand for the queries of their category.
var queryForms = []struct {
	name string
	spec Spec
}{
	{"a boolean", Spec{Category: 1, Fields: []Field{{Name: "answer", Type: TypeBoolean}}}},
	{"a number of 1 to 100", Spec{Category: 1, Fields: []Field{{Name: "answer", Type: TypeInteger, Min: new(int64(1)), Max: new(int64(100))}}}},
	{"a date", Spec{Category: 2, Questions: []Question{{ID: "answer", Question: "When?", MaxWords: 3, ExpectedFormat: FormatDate}}}},
	{"a text of 10 words", Spec{Category: 2, Questions: []Question{{ID: "answer", Question: "What?", MaxWords: 10, ExpectedFormat: FormatShortText}}}},
	{"a summary of 100 words", Spec{Category: 3, Directive: "Sum it up.", MaxWords: 100}},
}

// Forecasts returns the forecast of every channel, sorted by controller, then
// reader.
func (s *State) Forecasts(now time.Time) []Forecast {
	all := []Forecast{}
	for i := range s.mesh.Channels {
		all = append(all, s.forecast(Moment{Now: now}, s.channels[s.mesh.Channels[i].ChannelKey]))
	}
	return all
}

func (s *State) forecast(m Moment, ch *channelState) Forecast {
	c := &ch.definition
	f := Forecast{Controller: c.Controller, Reader: c.Reader, Frees: []Freed{}}
	ask, push := s.next(m, KindAsk), s.next(m, KindPush)
	ask.Controller, push.Controller = c.Controller, c.Controller
	s.sessionOf(&ask, m, c.Controller, false)
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
			f.Frees = append(f.Frees, Freed{time.Unix(0, at).UTC(), p.sum})
		}
	}
	return f
}

// roomFor is what a charge of this decision finds; it sets the decision's epoch.
func (s *State) roomFor(d *Decision, ch *channelState) Room {
	if d.Epoch = ch.epochOf(d); d.Kind == KindPush {
		d.Epoch, _ = ch.pushEpoch(d.Time)
	}
	r := Room{Epoch: d.Epoch, Opens: d.Epoch > ch.newest(), Budgets: []BudgetRoom{}, Fits: []Fit{}}
	limits, n := s.limits(d, ch)
	for _, l := range limits[:n] {
		r.Budgets = append(r.Budgets, BudgetRoom{l.check.Info().Key, l.limit, max(0, l.left)})
	}
	return r
}

// fewest lowers the number to what a check lets through, which must come in the
// order of the checks.
func (f *Fit) fewest(check Check, times int64) {
	if times < int64(f.Times) {
		f.Times, f.Until = int(max(0, times)), check
	}
}

// within lowers the number to what the budgets let through.
func (f *Fit) within(s *State, d *Decision, ch *channelState) {
	limits, n := s.limits(d, ch)
	for _, l := range limits[:n] {
		if price := l.price(f.Nominal, f.Capacity); price > 0 || l.left < 0 {
			f.fewest(l.check, int64(l.left/max(1, price)))
		}
	}
}

func (s *State) queriesThatFit(d Decision, ch *channelState, v *Validator, form string) Fit {
	c := &ch.definition
	d.Category = v.Spec().Category
	f := Fit{Form: form, Category: d.Category, Nominal: v.Prices().Nominal, Capacity: v.Prices().Reserve(), Times: maxOutbox + 1}
	if check, code := s.escalate(&d, ch, ch.anyJustification()); code != "" {
		f.fewest(check, 0)
	}
	left, each := c.MaxEscalations, d.Category == 3 || c.BaseCategory == 1
	if ch.session == d.Session {
		left -= ch.escalations
	}
	if d.Escalation && (each || ch.armedAt(d.Time) > left) {
		f.fewest(CheckEscalations, int64(left))
	}
	if d.Category == 2 && c.MaxCat2Queries >= 0 {
		f.fewest(CheckCat2Queries, int64(c.MaxCat2Queries-ch.pool(d.Epoch).Cat2Queries))
	}
	f.within(s, &d, ch)
	if s.agents[c.Reader].unavailable && c.ReleaseInterval == 0 {
		f.fewest(CheckReader, 0)
	}
	f.fewest(CheckOutbox, int64(maxOutbox-ch.queries()))
	return f
}

func (s *State) pushesThatFit(d Decision, ch *channelState, id SubscriptionID) Fit {
	v := ch.subscriptions[id]
	f := Fit{Subscription: id, Category: v.Spec().Category, Times: maxOutbox + 1}
	f.Nominal, f.Capacity = ch.pushPrice(v, ch.pushes[id], d.Time, s.origin)
	if p := ch.pushes[id]; p.rate.Count > 0 {
		f.fewest(CheckRate, int64(p.left(d.Time)))
	}
	if p := ch.pushes[id]; p.window > 0 {
		f.fewest(CheckBatch, int64(p.batchRoom(d.Time)))
	}
	f.within(s, &d, ch)
	if f.Category == 3 { // each waits for a person first
		f.fewest(CheckQueue, int64(ch.definition.MaxPendingApprovals-ch.pending))
	} else {
		f.fewest(CheckOutbox, int64(maxOutbox-ch.gathered()))
	}
	if ch.gathered() >= maxOutbox {
		f.fewest(CheckOutbox, 0)
	}
	if s.agents[ch.definition.Controller].unavailable {
		f.fewest(CheckController, 0)
	}
	return f
}
