package bcp

import (
	"fmt"
	"slices"
	"time"
)

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
}

type modelChannel struct {
	Channel
	entries []modelEntry
	opened  int // event of the first charge of the epoch
	epoch   uint64
}

// modelEntry is one line of the account: of a reservation, its release, a
// settlement, a push.
type modelEntry struct {
	epoch                     uint64
	reserved, settled, pushed Bits
	reservedC, settledC       Bits
	cat2                      int
}

type modelSession struct {
	number, renewed   int // renewed: event of the newest renewal
	renewals          int
	begun, byDelivery bool
	closed            bool
	touched           time.Time
	provoked          *time.Time // end of the newest session of a delivery since the newest renewal
}

type modelQuery struct {
	id       QueryID
	ch       *modelChannel
	spec     string
	epoch    uint64
	session  int
	prices   Prices
	deadline time.Time
	tries    int
	state    string // gate, sent, held, done
	cancel   bool
	sent     bool
	heard    Code
	ended    time.Time
}

// modelItem waits for a person: a push, or, where q is set, its query.
type modelItem struct {
	id       ItemID
	ch       *modelChannel
	q        *modelQuery
	spec     string
	gate     bool
	deadline time.Time
	gone     Code // why it does not wait any more
	at       time.Time
}

func newModel(mesh *Mesh) *model {
	m := &model{idle: mesh.IdleTimeout, channels: map[ChannelKey]*modelChannel{}, sessions: map[AgentName]*modelSession{}}
	for _, c := range mesh.Channels {
		m.channels[c.ChannelKey] = &modelChannel{Channel: c, epoch: 1}
		m.sessions[c.Controller] = &modelSession{}
	}
	return m
}

func (c *modelChannel) balance(epoch uint64) (b Balance) {
	for _, e := range c.entries {
		if e.epoch == epoch {
			b.Reserved += e.reserved
			b.Settled += e.settled
			b.Pushed += e.pushed
			b.ReservedCapacity += e.reservedC
			b.SettledCapacity += e.settledC
			b.Cat2Queries += e.cat2
		}
	}
	return b
}

func (m *model) open(s *modelSession) bool {
	return s.begun && !s.closed && m.now.Before(s.touched.Add(m.idle))
}

// act is a Controller's own act; it tells whether it renews.
func (m *model) act(s *modelSession) (renews bool) {
	if !m.open(s) {
		provoked := m.provoked(s)
		renews = provoked == nil || !m.now.Before(provoked.Add(m.idle))
		*s = modelSession{number: s.number + 1, renewed: s.renewed, renewals: s.renewals, begun: true, provoked: provoked}
		if renews {
			s.renewed, s.renewals, s.provoked = m.event, s.renewals+1, nil
		}
	}
	s.touched = m.now
	return renews
}

// provoked is the end of the newest session that a delivery began, if no
// session has renewed since.
func (m *model) provoked(s *modelSession) *time.Time {
	if !s.byDelivery {
		return s.provoked
	}
	end := s.touched
	if !s.closed {
		end = end.Add(m.idle)
	}
	return &end
}

func (m *model) deliver(c *modelChannel) {
	s := m.sessions[c.Controller]
	if !m.open(s) {
		*s = modelSession{number: s.number + 1, renewed: s.renewed, renewals: s.renewals, begun: true, byDelivery: true, provoked: m.provoked(s)}
	}
	s.touched = m.now
}

// epochFor is the epoch of a charge now.
func (m *model) epochFor(c *modelChannel, s *modelSession) uint64 {
	if len(c.entries) > 0 && s.renewed > c.opened {
		return c.epoch + 1
	}
	return c.epoch
}

func (m *model) charge(c *modelChannel, e modelEntry) {
	if e.epoch > c.epoch || len(c.entries) == 0 {
		c.epoch, c.opened = e.epoch, m.event
	}
	c.entries = append(c.entries, e)
}

func (m *model) pending(c *modelChannel) (n int) {
	for _, it := range m.items {
		if it.ch == c && it.gone == "" && !it.gate {
			n++
		}
	}
	return n
}

func (m *model) hold(c *modelChannel, q *modelQuery, spec string) {
	m.items = append(m.items, &modelItem{ch: c, q: q, spec: spec, gate: q != nil && q.state == "gate", deadline: m.now.Add(c.ApprovalTTL)})
}

func (it *modelItem) end(code Code, now time.Time) { it.gone, it.at = code, now }

func (m *model) ask(c *modelChannel, spec string, category Category, p Prices) (Code, *modelQuery) {
	session := *m.sessions[c.Controller]
	m.act(&session)
	epoch := m.epochFor(c, &session)
	b := c.balance(epoch)
	switch {
	case category == 2 && c.MaxCat2Queries >= 0 && b.Cat2Queries >= c.MaxCat2Queries:
		return QueryLimitReached, nil
	case b.Settled+b.Reserved+p.Nominal > c.Budget, b.SettledCapacity+b.ReservedCapacity+p.Reserve() > c.CapacityBudget:
		return BudgetExhausted, nil
	}
	*m.sessions[c.Controller] = session
	e := modelEntry{epoch: epoch, reserved: p.Nominal, reservedC: p.Reserve()}
	if category == 2 {
		e.cat2 = 1
	}
	m.charge(c, e)
	q := &modelQuery{ch: c, spec: spec, epoch: epoch, session: session.number, prices: p, deadline: m.now.Add(c.QueryTTL), state: "sent", sent: true}
	if category == 3 {
		q.state, q.sent, q.deadline = "gate", false, m.now.Add(c.ApprovalTTL)
		m.hold(c, q, spec)
	}
	m.queries = append(m.queries, q)
	return "", q
}

// finish settles a query that reserves.
func (m *model) finish(q *modelQuery, state string, heard Code, nominal, capacity Bits) {
	m.charge(q.ch, modelEntry{epoch: q.epoch, reserved: -q.prices.Nominal, settled: nominal, reservedC: -q.prices.Reserve(), settledC: capacity})
	q.state, q.heard, q.ended = state, heard, m.now
}

func (m *model) fail(q *modelQuery, heard Code) {
	m.finish(q, "done", heard, min(Bit, q.prices.Nominal), q.prices.FailedCapacity)
}

// answer returns the code that the Reader hears, and what the Controller does.
func (m *model) answer(q *modelQuery, reader AgentName, value string, try int) (heard, outcome Code) {
	junk := value == "junk"
	first := func(code Code) Code {
		if junk {
			return Malformed
		}
		return code
	}
	switch {
	case q.ch.Reader != reader, !q.sent, q.state == "done" && !m.now.Before(q.ended.Add(24*time.Hour)):
		return first(QueryUnknown), ""
	case q.state != "sent":
		return first(q.heard), ""
	case q.cancel:
		return first(Cancelled), ""
	case !m.now.Before(q.deadline):
		return first(QueryExpired), ""
	}
	rejected := func(code Code) (Code, Code) {
		switch {
		case try < q.tries:
		case q.tries < q.ch.MaxRetries:
			q.tries++
		default:
			m.fail(q, AlreadyAnswered)
			m.deliver(q.ch)
			return code, Rejected
		}
		return code, ""
	}
	switch value {
	case "junk":
		return rejected(Malformed)
	case "nei":
		m.fail(q, AlreadyAnswered)
		m.deliver(q.ch)
		return "", NotEnoughInformation
	case "bad":
		return rejected(ValidationFailed)
	case "odd":
		if m.pending(q.ch) >= q.ch.MaxPendingApprovals {
			return rejected(ApprovalQueueFull)
		}
		m.finish(q, "held", AlreadyAnswered, q.prices.Nominal, q.prices.Capacity)
		q.deadline = m.now.Add(q.ch.ApprovalTTL)
		m.hold(q.ch, q, q.spec)
		if q.spec == "three" {
			return "", ""
		}
		m.deliver(q.ch)
		return "", Held
	}
	m.finish(q, "done", AlreadyAnswered, q.prices.Nominal, q.prices.Capacity)
	m.deliver(q.ch)
	return "", ""
}

func (m *model) push(c *modelChannel, spec, value string, nominal, capacity Bits) Code {
	if value == "bad" {
		return ValidationFailed
	}
	epoch := m.epochFor(c, m.sessions[c.Controller])
	b := c.balance(epoch)
	switch {
	case b.Settled+b.Reserved+nominal > c.Budget, b.Pushed+nominal > c.PushBudget, b.SettledCapacity+b.ReservedCapacity+capacity > c.CapacityBudget:
		return BudgetExhausted
	case value == "odd" && m.pending(c) >= c.MaxPendingApprovals:
		return ApprovalQueueFull
	}
	m.charge(c, modelEntry{epoch: epoch, settled: nominal, pushed: nominal, settledC: capacity})
	if value == "odd" {
		m.hold(c, nil, spec)
	} else {
		m.deliver(c)
	}
	return ""
}

func (m *model) close(s *modelSession, controller AgentName) {
	if !s.begun || s.closed {
		return
	}
	s.closed = true
	if end := s.touched.Add(m.idle); end.Before(m.now) {
		s.touched = end
	} else {
		s.touched = m.now
	}
	for _, q := range m.queries {
		if q.ch.Controller == controller && q.session == s.number && (q.state == "sent" || q.state == "gate") {
			q.cancel = true
		}
	}
}

// due takes what the gateway decided to be due, and says why it should not be.
func (m *model) due(d *Decision) string {
	if i := slices.IndexFunc(m.items, func(it *modelItem) bool { return it.id == d.Item }); i >= 0 {
		it := m.items[i]
		if it.gone != "" || m.now.Before(it.deadline) && !(it.gate && it.q.cancel) {
			return "an item is due too early"
		}
		it.end(ItemExpired, m.now)
	}
	if d.Query == "" {
		return ""
	}
	i := slices.IndexFunc(m.queries, func(q *modelQuery) bool { return q.id == d.Query })
	q := m.queries[i]
	late := !m.now.Before(q.deadline)
	switch {
	case q.cancel && (q.state == "sent" || q.state == "gate") && d.Outcome == Cancelled:
		m.fail(q, Cancelled)
		return ""
	case q.state == "sent" && late && d.Outcome == Expired:
		m.fail(q, QueryExpired)
	case q.state == "gate" && late && d.Outcome == ApprovalExpired:
		m.fail(q, AlreadyAnswered)
	case q.state == "held" && late && d.Outcome == ApprovalExpired:
		q.state, q.ended = "done", m.now
	default:
		return fmt.Sprintf("query %+v ends as %s", *q, d.Outcome)
	}
	m.deliver(q.ch)
	return ""
}

// decide returns the code that the approver hears, and what the Controller does.
func (m *model) decide(it *modelItem, act Act, valid bool) (heard, outcome Code) {
	switch {
	case it.gone != "" && m.now.Before(it.at.Add(24*time.Hour)):
		return it.gone, ""
	case it.gone != "":
		return ItemNotFound, ""
	case !m.now.Before(it.deadline), it.q != nil && it.q.cancel && it.gate:
		return ItemExpired, ""
	case act == EditItem && (it.gate || !valid):
		return Malformed, ""
	}
	it.end(AlreadyDecided, m.now)
	q := it.q
	if q == nil {
		if act != RejectItem {
			m.deliver(it.ch)
		}
		return "", ""
	}
	switch {
	case it.gate && act == Approve:
		q.state, q.sent, q.deadline = "sent", true, m.now.Add(q.ch.QueryTTL)
		return "", ""
	case it.gate:
		m.fail(q, AlreadyAnswered)
		outcome = EscalationDenied
	default:
		q.state, q.ended = "done", m.now
		if act == RejectItem {
			outcome = ApprovalRejected
		}
	}
	m.deliver(q.ch)
	return "", outcome
}

// renew is an operator's act: new epochs, whatever the session.
func (m *model) renew(s *modelSession) {
	open := m.open(s)
	if !m.act(s) {
		s.renewed, s.renewals = m.event, s.renewals+1
		if !open {
			s.provoked = nil
		}
	}
}

// left is what the model still expects to be due.
func (m *model) left() (n int) {
	for _, q := range m.queries {
		if q.state != "done" && (q.cancel && q.state != "held" || !m.now.Before(q.deadline)) {
			n++
		}
	}
	for _, it := range m.items {
		if it.gone == "" && it.q == nil && !m.now.Before(it.deadline) {
			n++
		}
	}
	return n
}
