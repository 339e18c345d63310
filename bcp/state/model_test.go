package state

import (
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// modelWindow is how long names wait for each other.
const modelWindow = 10 * time.Minute

// modelRate is how many pushes of a boolean there may be in an hour.
const modelRate = 2

// model is a second, slow account of the same rules, written from PROTOCOL P3.10,
// P4, P6.2, P7 (with endorsements, P7.8) and P9.2: it keeps everything that ever happened and adds it up
// anew each time.
type model struct {
	now      time.Time
	event    int
	idle     time.Duration
	channels map[bcp.ChannelKey]*modelChannel
	sessions map[bcp.AgentName]*modelSession
	queries  []*modelQuery
	items    []*modelItem
	away     map[bcp.AgentName]bool // agents whose command could not be started
	results  map[bcp.AgentName]int  // final results that a Reader has not acknowledged
	endorsed []*modelEndorsement
	without  int // answers that were released without a person, and were to be held
}

// modelEndorsement lets answers with a URL through.
type modelEndorsement struct {
	id, sub string
	ch      *modelChannel
	uses    int
	bits    bcp.Bits
	until   time.Time
}

type modelChannel struct {
	bcp.Channel
	entries map[uint64][]bcp.Balance // of each epoch: reservations, their release, settlements, pushes
	batches map[time.Time]bool       // ends of windows that something waits for
	pushes  map[string][]time.Time   // by spec: those that were accepted
	opened  int                      // event of the first charge of the epoch
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
	id              bcp.QueryID
	ch              *modelChannel
	spec, state     string // gate, sent, held, push, done
	epoch           uint64
	session, tries  int
	prices          bcp.Prices
	deadline, ended time.Time
	cancel, sent    bool
	heard           bcp.Code
}

// modelItem waits for a person.
type modelItem struct {
	id           bcp.ItemID
	q            *modelQuery
	gone         bcp.Code // why it does not wait any more, since at
	deadline, at time.Time
}

func newModel(mesh *bcp.Mesh) *model {
	m := &model{now: time.Unix(1_800_000_000, 0), idle: mesh.IdleTimeout, channels: map[bcp.ChannelKey]*modelChannel{}, sessions: map[bcp.AgentName]*modelSession{},
		away: map[bcp.AgentName]bool{}, results: map[bcp.AgentName]int{}}
	for _, c := range mesh.Channels {
		m.channels[c.ChannelKey] = &modelChannel{Channel: c, epoch: 1, entries: map[uint64][]bcp.Balance{}, pushes: map[string][]time.Time{}, batches: map[time.Time]bool{}}
		m.sessions[c.Controller] = &modelSession{}
	}
	return m
}

func (m *model) late(at time.Time) bool { return !m.now.Before(at) }

func (c *modelChannel) balance(epoch uint64) (b bcp.Balance) {
	for _, e := range c.entries[epoch] {
		b = bcp.Balance{Settled: b.Settled + e.Settled, Reserved: b.Reserved + e.Reserved, Pushed: b.Pushed + e.Pushed,
			SettledCapacity: b.SettledCapacity + e.SettledCapacity, ReservedCapacity: b.ReservedCapacity + e.ReservedCapacity, Cat2Queries: b.Cat2Queries + e.Cat2Queries}
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

func (m *model) close(s *modelSession, controller bcp.AgentName) {
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

func (m *model) charge(c *modelChannel, epoch uint64, b bcp.Balance) {
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
func (m *model) drop(it *modelItem, code bcp.Code) {
	it.gone, it.at = code, m.now
	if it.q.state != "gate" {
		m.results[it.q.ch.Reader] = min(m.results[it.q.ch.Reader]+1, maxNotices)
	}
}

func (m *model) ask(c *modelChannel, spec string, category bcp.Category, p bcp.Prices) (bcp.Code, *modelQuery) {
	session := *m.sessions[c.Controller]
	m.touch(&session, "controller")
	epoch := c.epochFor(&session)
	b := c.balance(epoch)
	switch {
	case category == 2 && c.MaxCat2Queries >= 0 && b.Cat2Queries >= c.MaxCat2Queries:
		return bcp.QueryLimitReached, nil
	case b.Spent()+p.Nominal > c.Budget, b.SpentCapacity()+p.Reserve() > c.CapacityBudget:
		return bcp.BudgetExhausted, nil
	case m.away[c.Reader]:
		return bcp.ReaderUnavailable, nil
	}
	*m.sessions[c.Controller] = session
	q := &modelQuery{ch: c, spec: spec, epoch: epoch, session: session.number, prices: p, deadline: m.now.Add(c.QueryTTL), state: "sent", sent: true}
	reserved := bcp.Balance{Reserved: p.Nominal, ReservedCapacity: p.Reserve()}
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

// endorse returns what the person hears.
func (m *model) endorse(given modelEndorsement, length time.Duration) bcp.Code {
	remembered := 0
	for _, e := range m.endorsed {
		if e.ch == given.ch && e.id == given.id {
			return bcp.AlreadyDecided
		}
		if e.ch == given.ch && !m.late(e.until) {
			remembered++
		}
	}
	switch rule := given.ch.Endorse; {
	case length <= 0:
		return bcp.ItemExpired
	case given.uses > rule.MaxUses, given.bits > rule.MaxBits, length > rule.MaxTime:
		return bcp.NotPermitted
	case remembered >= 32:
		return bcp.ApprovalQueueFull
	}
	m.endorsed = slices.DeleteFunc(m.endorsed, func(e *modelEndorsement) bool { return e.ch == given.ch && m.late(e.until) })
	given.until = m.now.Add(length)
	m.endorsed = append(m.endorsed, &given)
	return ""
}

func (m *model) revoke(c *modelChannel, id string) bcp.Code {
	for _, e := range m.endorsed {
		if e.ch == c && e.id == id {
			if e.uses == 0 {
				return bcp.AlreadyDecided
			}
			e.uses, e.bits = 0, 0
			return ""
		}
	}
	return bcp.ItemNotFound
}

// holds reports whether a person has to see a value, and what lets it through if not.
func (m *model) holds(c *modelChannel, sub, value string, capacity bcp.Bits) (held bool, by *modelEndorsement) {
	if value != "url" {
		return value == "odd", nil
	}
	for _, e := range m.endorsed {
		if e.ch == c && e.sub == sub && e.uses > 0 && e.bits >= capacity && !m.late(e.until) {
			return false, e
		}
	}
	return true, nil
}

// use counts an endorsement down.
func (m *model) use(e *modelEndorsement, capacity bcp.Bits) {
	if e != nil {
		e.uses, e.bits, m.without = e.uses-1, e.bits-capacity, m.without+1
	}
}

// finish settles a query; its Controller hears of it, unless it is a summary that is held, or cancelled.
func (m *model) finish(q *modelQuery, state string, heard, outcome bcp.Code) bcp.Code {
	p := q.prices
	e := bcp.Balance{Reserved: -p.Nominal, Settled: p.Nominal, ReservedCapacity: -p.Reserve(), SettledCapacity: p.Capacity}
	if outcome != "" && outcome != bcp.Held {
		e.Settled, e.SettledCapacity = min(bcp.Bit, p.Nominal), p.FailedCapacity
	}
	m.charge(q.ch, q.epoch, e)
	q.state, q.heard, q.ended = state, heard, m.now
	if outcome != bcp.Cancelled && (state != "held" || outcome == bcp.Held) {
		m.touch(m.sessions[q.ch.Controller], "delivery")
	}
	return outcome
}

// answer returns the code that the Reader hears, and what the Controller does.
func (m *model) answer(q *modelQuery, reader bcp.AgentName, value string, try int) (heard, outcome bcp.Code) {
	switch {
	case q.ch.Reader != reader, !q.sent, q.state == "done" && m.late(q.ended.Add(24*time.Hour)):
		heard = bcp.QueryUnknown
	case q.state != "sent":
		heard = q.heard
	case q.cancel:
		heard = bcp.Cancelled
	case m.late(q.deadline):
		heard = bcp.QueryExpired
	}
	if heard != "" {
		if value == "junk" {
			heard = bcp.Malformed
		}
		return heard, ""
	}
	heard = map[string]bcp.Code{"junk": bcp.Malformed, "bad": bcp.ValidationFailed}[value]
	held, by := m.holds(q.ch, "", value, q.prices.Capacity)
	if held && m.full(q.ch) {
		heard = bcp.ApprovalQueueFull
	}
	switch {
	case heard != "" && try < q.tries:
	case heard != "" && q.tries < q.ch.MaxRetries:
		q.tries++
	case heard != "":
		outcome = m.finish(q, "done", bcp.AlreadyAnswered, bcp.Rejected)
	case value == "nei":
		outcome = m.finish(q, "done", bcp.AlreadyAnswered, bcp.NotEnoughInformation)
	case !held:
		m.use(by, q.prices.Capacity)
		m.finish(q, "done", bcp.AlreadyAnswered, "")
	default:
		if q.spec != "three" {
			outcome = bcp.Held
		}
		m.finish(q, "held", bcp.AlreadyAnswered, outcome)
		m.items = append(m.items, &modelItem{q: q, deadline: m.now.Add(q.ch.ApprovalTTL)})
	}
	return heard, outcome
}

func (m *model) push(c *modelChannel, spec, value string, nominal, capacity bcp.Bits) bcp.Code {
	epoch := c.epochFor(m.sessions[c.Controller])
	b := c.balance(epoch)
	held, by := m.holds(c, map[string]string{"text": "note"}[spec], value, capacity)
	recent := 0
	for _, at := range c.pushes[spec] {
		if m.now.Before(at.Add(time.Hour)) {
			recent++
		}
	}
	switch {
	case spec == "yes" && recent >= modelRate:
		return bcp.RateLimited
	case value == "bad":
		return bcp.ValidationFailed
	case value == "no":
		return bcp.Filtered
	case b.Spent()+nominal > c.Budget, b.Pushed+nominal > c.PushBudget, b.SpentCapacity()+capacity > c.CapacityBudget:
		return bcp.BudgetExhausted
	case held && m.full(c):
		return bcp.ApprovalQueueFull
	case m.away[c.Controller]:
		return bcp.ControllerUnavailable
	case held:
		m.items = append(m.items, &modelItem{q: &modelQuery{ch: c, spec: spec, state: "push"}, deadline: m.now.Add(c.ApprovalTTL)})
	case spec == "name":
		c.batches[m.now.Truncate(modelWindow).Add(modelWindow)] = true
	default:
		m.touch(m.sessions[c.Controller], "delivery")
	}
	m.use(by, capacity)
	m.charge(c, epoch, bcp.Balance{Settled: nominal, Pushed: nominal, SettledCapacity: capacity})
	c.pushes[spec] = append(c.pushes[spec], m.now)
	return ""
}

// decide returns the code that the approver hears, and what the Controller does.
func (m *model) decide(it *modelItem, act bcp.Act, valid bool) (heard, outcome bcp.Code) {
	q := it.q
	switch gate := q.state == "gate"; {
	case it.gone != "" && m.late(it.at.Add(24*time.Hour)):
		return bcp.ItemNotFound, ""
	case it.gone != "":
		return it.gone, ""
	case m.late(it.deadline), gate && q.cancel:
		return bcp.ItemExpired, ""
	case act == bcp.EditItem && (gate || !valid):
		return bcp.Malformed, ""
	}
	m.drop(it, bcp.AlreadyDecided)
	switch {
	case q.state == "gate" && act == bcp.Approve:
		q.state, q.sent, q.deadline = "sent", true, m.now.Add(q.ch.QueryTTL)
	case q.state == "gate":
		outcome = m.finish(q, "done", bcp.AlreadyAnswered, bcp.EscalationDenied)
	case q.state == "push" && act == bcp.RejectItem:
	default:
		if act == bcp.RejectItem {
			outcome = bcp.ApprovalRejected
		}
		q.state, q.ended = "done", m.now
		m.touch(m.sessions[q.ch.Controller], "delivery")
	}
	return "", outcome
}

// expire ends what is over. It returns what became of queries, and the numbers of
// pushes that nobody decided and of windows that ended.
func (m *model) expire() (ended map[bcp.QueryID]bcp.Code, pushes, windows int) {
	ended = map[bcp.QueryID]bcp.Code{}
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
		m.drop(it, bcp.ItemExpired)
		switch {
		case q.state == "push":
			pushes++
		case q.state == "held":
			q.state, q.ended, ended[q.id] = "done", m.now, bcp.ApprovalExpired
			m.touch(m.sessions[q.ch.Controller], "delivery")
		case !q.cancel:
			ended[q.id] = m.finish(q, "done", bcp.AlreadyAnswered, bcp.ApprovalExpired)
		}
	}
	for _, q := range m.queries {
		switch waits := q.state == "sent" || q.state == "gate"; {
		case waits && q.cancel:
			ended[q.id] = m.finish(q, "done", bcp.Cancelled, bcp.Cancelled)
		case q.state == "sent" && m.late(q.deadline):
			ended[q.id] = m.finish(q, "done", bcp.QueryExpired, bcp.Expired)
		}
	}
	return ended, pushes, windows
}
