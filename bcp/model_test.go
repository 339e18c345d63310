package bcp

import "time"

// modelWindow is how long names wait for each other.
const modelWindow = 10 * time.Minute

// modelRate is how many pushes of a boolean there may be in an hour.
const modelRate = 2

// model is a second, slow account of the same rules, written from PROTOCOL P3.10,
// P4, P6.2, P7 and P9.2: it keeps everything that ever happened and adds it up
// anew each time.
type model struct {
	now      time.Time
	event    int
	idle     time.Duration
	channels map[ChannelKey]*modelChannel
	sessions map[AgentName]*modelSession
	queries  []*modelQuery
	items    []*modelItem
	away     map[AgentName]bool // agents whose command could not be started
	results  map[AgentName]int  // final results that a Reader has not acknowledged
}

type modelChannel struct {
	Channel
	entries map[uint64][]Balance   // of each epoch: reservations, their release, settlements, pushes
	batches map[time.Time]bool     // ends of windows that something waits for
	pushes  map[string][]time.Time // by spec: those that were accepted
	opened  int                    // event of the first charge of the epoch
	epoch   uint64
}

type modelSession struct {
	number, renewed, renewals int // renewed: event of the newest renewal
	byDelivery                bool
	until                     time.Time // its end
	provoked                  time.Time // end of the newest session of a delivery since the newest renewal
}

// modelQuery is a query, or, where its state is push, a push that is held.
type modelQuery struct {
	id              QueryID
	ch              *modelChannel
	spec, state     string // gate, sent, held, push, done
	epoch           uint64
	session, tries  int
	prices          Prices
	deadline, ended time.Time
	cancel, sent    bool
	heard           Code
}

// modelItem waits for a person.
type modelItem struct {
	id           ItemID
	q            *modelQuery
	gone         Code // why it does not wait any more, since at
	deadline, at time.Time
}

func newModel(mesh *Mesh) *model {
	m := &model{now: time.Unix(1_800_000_000, 0), idle: mesh.IdleTimeout, channels: map[ChannelKey]*modelChannel{}, sessions: map[AgentName]*modelSession{},
		away: map[AgentName]bool{}, results: map[AgentName]int{}}
	for _, c := range mesh.Channels {
		m.channels[c.ChannelKey] = &modelChannel{Channel: c, epoch: 1, entries: map[uint64][]Balance{}, pushes: map[string][]time.Time{}, batches: map[time.Time]bool{}}
		m.sessions[c.Controller] = &modelSession{}
	}
	return m
}

func (m *model) late(at time.Time) bool { return !m.now.Before(at) }

func (c *modelChannel) balance(epoch uint64) (b Balance) {
	for _, e := range c.entries[epoch] {
		b = Balance{b.Settled + e.Settled, b.Reserved + e.Reserved, b.Pushed + e.Pushed,
			b.SettledCapacity + e.SettledCapacity, b.ReservedCapacity + e.ReservedCapacity, b.Cat2Queries + e.Cat2Queries}
	}
	return b
}

// touch is an act of the controller or the operator (renew), or a delivery.
func (m *model) touch(s *modelSession, by string) {
	begins := m.late(s.until)
	if begins {
		if s.byDelivery {
			s.provoked = s.until
		}
		s.number, s.byDelivery = s.number+1, by == "delivery"
	}
	if by == "operator" || begins && by == "controller" && m.late(s.provoked.Add(m.idle)) {
		s.renewed, s.renewals = m.event, s.renewals+1
		if begins {
			s.provoked = time.Time{}
		}
	}
	s.until = m.now.Add(m.idle)
}

func (m *model) close(s *modelSession, controller AgentName) {
	if !m.late(s.until) {
		s.until = m.now
	}
	for _, q := range m.queries {
		if q.ch.Controller == controller && q.session == s.number && (q.state == "sent" || q.state == "gate") {
			q.cancel = true
		}
	}
}

// epochFor is the epoch of a charge now.
func (c *modelChannel) epochFor(s *modelSession) uint64 {
	if len(c.entries) > 0 && s.renewed > c.opened {
		return c.epoch + 1
	}
	return c.epoch
}

func (m *model) charge(c *modelChannel, epoch uint64, b Balance) {
	if epoch > c.epoch || len(c.entries) == 0 {
		c.epoch, c.opened = epoch, m.event
	}
	c.entries[epoch] = append(c.entries[epoch], b)
}

func (m *model) full(c *modelChannel) bool {
	n := 0
	for _, it := range m.items {
		if it.q.ch == c && it.gone == "" && it.q.state != "gate" {
			n++
		}
	}
	return n >= c.MaxPendingApprovals
}

// drop ends an item, and tells the Reader whose answer it was.
func (m *model) drop(it *modelItem, code Code) {
	it.gone, it.at = code, m.now
	if it.q.state != "gate" {
		m.results[it.q.ch.Reader] = min(m.results[it.q.ch.Reader]+1, maxNotices)
	}
}

func (m *model) ask(c *modelChannel, spec string, category Category, p Prices) (Code, *modelQuery) {
	session := *m.sessions[c.Controller]
	m.touch(&session, "controller")
	epoch := c.epochFor(&session)
	b := c.balance(epoch)
	switch {
	case category == 2 && c.MaxCat2Queries >= 0 && b.Cat2Queries >= c.MaxCat2Queries:
		return QueryLimitReached, nil
	case b.Spent()+p.Nominal > c.Budget, b.SpentCapacity()+p.Reserve() > c.CapacityBudget:
		return BudgetExhausted, nil
	case m.away[c.Reader]:
		return ReaderUnavailable, nil
	}
	*m.sessions[c.Controller] = session
	q := &modelQuery{ch: c, spec: spec, epoch: epoch, session: session.number, prices: p, deadline: m.now.Add(c.QueryTTL), state: "sent", sent: true}
	reserved := Balance{Reserved: p.Nominal, ReservedCapacity: p.Reserve()}
	switch category {
	case 2:
		reserved.Cat2Queries = 1
	case 3:
		q.state, q.sent = "gate", false
		m.items = append(m.items, &modelItem{q: q, deadline: m.now.Add(q.ch.ApprovalTTL)})
	}
	m.charge(c, epoch, reserved)
	m.queries = append(m.queries, q)
	return "", q
}

// finish settles a query; its Controller hears of it, unless it is a summary that is held, or cancelled.
func (m *model) finish(q *modelQuery, state string, heard, outcome Code) Code {
	p := q.prices
	e := Balance{Reserved: -p.Nominal, Settled: p.Nominal, ReservedCapacity: -p.Reserve(), SettledCapacity: p.Capacity}
	if outcome != "" && outcome != Held {
		e.Settled, e.SettledCapacity = min(Bit, p.Nominal), p.FailedCapacity
	}
	m.charge(q.ch, q.epoch, e)
	q.state, q.heard, q.ended = state, heard, m.now
	if outcome != Cancelled && (state != "held" || outcome == Held) {
		m.touch(m.sessions[q.ch.Controller], "delivery")
	}
	return outcome
}

// answer returns the code that the Reader hears, and what the Controller does.
func (m *model) answer(q *modelQuery, reader AgentName, value string, try int) (heard, outcome Code) {
	switch {
	case q.ch.Reader != reader, !q.sent, q.state == "done" && m.late(q.ended.Add(24*time.Hour)):
		heard = QueryUnknown
	case q.state != "sent":
		heard = q.heard
	case q.cancel:
		heard = Cancelled
	case m.late(q.deadline):
		heard = QueryExpired
	}
	if heard != "" {
		if value == "junk" {
			heard = Malformed
		}
		return heard, ""
	}
	heard = map[string]Code{"junk": Malformed, "bad": ValidationFailed}[value]
	if value == "odd" && m.full(q.ch) {
		heard = ApprovalQueueFull
	}
	switch {
	case heard != "" && try < q.tries:
	case heard != "" && q.tries < q.ch.MaxRetries:
		q.tries++
	case heard != "":
		outcome = m.finish(q, "done", AlreadyAnswered, Rejected)
	case value == "nei":
		outcome = m.finish(q, "done", AlreadyAnswered, NotEnoughInformation)
	case value != "odd":
		m.finish(q, "done", AlreadyAnswered, "")
	default:
		if q.spec != "three" {
			outcome = Held
		}
		m.finish(q, "held", AlreadyAnswered, outcome)
		m.items = append(m.items, &modelItem{q: q, deadline: m.now.Add(q.ch.ApprovalTTL)})
	}
	return heard, outcome
}

func (m *model) push(c *modelChannel, spec, value string, nominal, capacity Bits) Code {
	epoch := c.epochFor(m.sessions[c.Controller])
	b := c.balance(epoch)
	recent := 0
	for _, at := range c.pushes[spec] {
		if m.now.Before(at.Add(time.Hour)) {
			recent++
		}
	}
	switch {
	case spec == "yes" && recent >= modelRate:
		return RateLimited
	case value == "bad":
		return ValidationFailed
	case value == "no":
		return Filtered
	case b.Spent()+nominal > c.Budget, b.Pushed+nominal > c.PushBudget, b.SpentCapacity()+capacity > c.CapacityBudget:
		return BudgetExhausted
	case value == "odd" && m.full(c):
		return ApprovalQueueFull
	case m.away[c.Controller]:
		return ControllerUnavailable
	case value == "odd":
		m.items = append(m.items, &modelItem{q: &modelQuery{ch: c, spec: spec, state: "push"}, deadline: m.now.Add(c.ApprovalTTL)})
	case spec == "name":
		c.batches[m.now.Truncate(modelWindow).Add(modelWindow)] = true
	default:
		m.touch(m.sessions[c.Controller], "delivery")
	}
	m.charge(c, epoch, Balance{Settled: nominal, Pushed: nominal, SettledCapacity: capacity})
	c.pushes[spec] = append(c.pushes[spec], m.now)
	return ""
}

// decide returns the code that the approver hears, and what the Controller does.
func (m *model) decide(it *modelItem, act Act, valid bool) (heard, outcome Code) {
	q := it.q
	switch gate := q.state == "gate"; {
	case it.gone != "" && m.late(it.at.Add(24*time.Hour)):
		return ItemNotFound, ""
	case it.gone != "":
		return it.gone, ""
	case m.late(it.deadline), gate && q.cancel:
		return ItemExpired, ""
	case act == EditItem && (gate || !valid):
		return Malformed, ""
	}
	m.drop(it, AlreadyDecided)
	switch {
	case q.state == "gate" && act == Approve:
		q.state, q.sent, q.deadline = "sent", true, m.now.Add(q.ch.QueryTTL)
	case q.state == "gate":
		outcome = m.finish(q, "done", AlreadyAnswered, EscalationDenied)
	case q.state == "push" && act == RejectItem:
	default:
		if act == RejectItem {
			outcome = ApprovalRejected
		}
		q.state, q.ended = "done", m.now
		m.touch(m.sessions[q.ch.Controller], "delivery")
	}
	return "", outcome
}

// expire ends what is over. It returns what became of queries, and the numbers of
// pushes that nobody decided and of windows that ended.
func (m *model) expire() (ended map[QueryID]Code, pushes, windows int) {
	ended = map[QueryID]Code{}
	for _, c := range m.channels {
		for end := range c.batches {
			if m.late(end) {
				delete(c.batches, end)
				m.touch(m.sessions[c.Controller], "delivery")
				windows++
			}
		}
	}
	for _, it := range m.items {
		q := it.q
		if cancelled := q.state == "gate" && q.cancel; it.gone != "" || !cancelled && !m.late(it.deadline) {
			continue
		}
		m.drop(it, ItemExpired)
		switch {
		case q.state == "push":
			pushes++
		case q.state == "held":
			q.state, q.ended, ended[q.id] = "done", m.now, ApprovalExpired
			m.touch(m.sessions[q.ch.Controller], "delivery")
		case !q.cancel:
			ended[q.id] = m.finish(q, "done", AlreadyAnswered, ApprovalExpired)
		}
	}
	for _, q := range m.queries {
		switch waits := q.state == "sent" || q.state == "gate"; {
		case waits && q.cancel:
			ended[q.id] = m.finish(q, "done", Cancelled, Cancelled)
		case q.state == "sent" && m.late(q.deadline):
			ended[q.id] = m.finish(q, "done", QueryExpired, Expired)
		}
	}
	return ended, pushes, windows
}
