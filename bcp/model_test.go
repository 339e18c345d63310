package bcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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
	held     []*modelPush
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

type modelPush struct {
	ch       *modelChannel
	deadline time.Time
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
	for _, q := range m.queries {
		if q.ch == c && q.state == "held" {
			n++
		}
	}
	for _, p := range m.held {
		if p.ch == c {
			n++
		}
	}
	return n
}

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
		m.deliver(q.ch)
		return "", Held
	}
	m.finish(q, "done", AlreadyAnswered, q.prices.Nominal, q.prices.Capacity)
	m.deliver(q.ch)
	return "", ""
}

func (m *model) push(c *modelChannel, value string, nominal, capacity Bits) Code {
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
		m.held = append(m.held, &modelPush{ch: c, deadline: m.now.Add(c.ApprovalTTL)})
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
	if d.Query == "" {
		for i, p := range m.held {
			if p.ch.Controller == d.Controller && p.ch.Reader == d.Reader && !m.now.Before(p.deadline) {
				m.held = slices.Delete(m.held, i, i+1)
				return ""
			}
		}
		return "no push is due"
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

// left is what the model still expects to be due.
func (m *model) left() (n int) {
	for _, q := range m.queries {
		if q.state != "done" && (q.cancel && q.state != "held" || !m.now.Before(q.deadline)) {
			n++
		}
	}
	for _, p := range m.held {
		if !m.now.Before(p.deadline) {
			n++
		}
	}
	return n
}

var modelValues = map[string]map[string]string{
	"yes":  {"good": `{"ok":true}`, "bad": `{"ok":1}`, "odd": `{"ok":true}`},
	"num":  {"good": `{"n":7}`, "bad": `{"n":1024}`, "odd": `{"n":7}`},
	"text": {"good": `{"q":"fine"}`, "bad": `{}`, "odd": answerWord(heldAnswer)},
}

// modelMesh is small in everything, so that every limit is met.
func modelMesh() *Mesh {
	mesh := testMesh()
	mesh.MaxRefusals = 1 << 30
	mesh.Channels = slices.DeleteFunc(mesh.Channels, func(c Channel) bool { return c.Reader == "relay" || c.Controller == "relay" })
	for _, key := range []ChannelKey{{"clerk", "web"}} {
		mesh.Channels = append(mesh.Channels, testChannel(key.Controller, key.Reader))
	}
	for i := range mesh.Channels {
		c := &mesh.Channels[i]
		c.MaxEscalations, c.MaxRetries, c.MaxCat2Queries, c.MaxPendingApprovals = 1<<30, 2, 3, 2
		c.Budget, c.PushBudget, c.ApprovalTTL, c.CapacityBudget = Bits(120+60*i)*Bit, 100*Bit, 2*time.Hour, Bits(4000*(i+1))*Bit
		c.Subscriptions = testMesh().Channels[1].Subscriptions[:4]
	}
	return mesh
}

// covers BCP-60, BCP-78, BCP-145, BCP-174, SUB-94, P3.10, P4.3, P4.4, P4.5, P7.4, P7.6, P9.2, A-RACE, A-RDRRESET
func TestRandomHistoriesAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		mesh := modelMesh()
		w := newWorld(t, mesh)
		m := newModel(mesh)
		replica, replayed := w.fresh(), 0
		keys := make([]ChannelKey, 0, len(mesh.Channels))
		for _, c := range mesh.Channels {
			keys = append(keys, c.ChannelKey)
		}
		var told, heldPushes Bits // what deliveries say, and what was held before any
		var history []string
		fail := func(format string, args ...any) {
			r.Helper()
			r.Fatalf("%s\n%s", strings.Join(history, "\n"), fmt.Sprintf(format, args...))
		}
		note := func(d *Decision) {
			if out, ok := d.Message(); ok && d.Kind != KindAsk {
				told += out.BandwidthBits
			}
			if d.Kind == KindPush && d.Verdict == Hold {
				heldPushes += d.Nominal
			}
		}
		for step := range rapid.IntRange(20, 250).Draw(r, "steps") {
			m.event = step + 1
			key := rapid.SampledFrom(keys).Draw(r, "channel")
			c := m.channels[key]
			act := rapid.SampledFrom([]string{"ask", "ask", "answer", "answer", "answer", "push", "wait", "wait", "open", "close", "ack"}).Draw(r, "act")
			var line string
			var want Code
			var outcome Code
			switch act {
			case "ask":
				spec := rapid.SampledFrom([]string{"yes", "num", "name", "text", "three"}).Draw(r, "spec")
				v, _, err := w.state.validator(w.state.channels[key], mustSpec(t, spec))
				if err != nil {
					t.Fatal(err)
				}
				line = fmt.Sprintf("ask %s %s %s why=so", key.Controller, key.Reader, spec)
				var q *modelQuery
				if want, q = m.ask(c, spec, v.spec.Category, v.Prices()); q != nil {
					q.id = QueryID(fmt.Sprintf("q%06d", w.moments+1))
					if v.spec.Category == 3 {
						outcome = Held
					}
				}
			case "answer":
				if len(m.queries) == 0 {
					continue
				}
				from := max(0, len(m.queries)-8) // mostly recent ones
				if rapid.IntRange(0, 9).Draw(r, "old") == 0 {
					from = 0
				}
				n := rapid.IntRange(from, len(m.queries)-1).Draw(r, "query")
				q := m.queries[n]
				reader := q.ch.Reader
				if rapid.IntRange(0, 9).Draw(r, "foreign") == 0 {
					reader = "web"
				}
				kind := rapid.SampledFrom([]string{"good", "good", "bad", "nei", "junk", "odd"}).Draw(r, "value")
				value := modelValues[q.spec][kind]
				if kind == "nei" || kind == "junk" {
					value = kind
				} else if value == "" {
					value, kind = `{"summary":1}`, "bad"
				} else if kind == "odd" && q.spec != "text" {
					kind = "good"
				}
				try := q.tries + rapid.IntRange(-1, 1).Draw(r, "try")
				line = fmt.Sprintf("answer %s %d %s try=%d", reader, n+1, value, try)
				want, outcome = m.answer(q, reader, kind, try)
			case "push":
				sub := rapid.SampledFrom([]string{"alarm", "note", "memo"}).Draw(r, "subscription")
				spec, kind := map[string]string{"alarm": "yes", "note": "text"}[sub], rapid.SampledFrom([]string{"good", "bad", "odd"}).Draw(r, "value")
				value := modelValues[spec][kind]
				switch {
				case sub == "memo":
					if value, kind = `{"summary":"a_b"}`, "odd"; step%5 == 0 {
						value, kind = answerWord(longSum), "bad"
					}
				case kind == "odd" && sub != "note":
					kind = "good"
				}
				line = fmt.Sprintf("push %s %s %s %s", key.Reader, key.Controller, sub, value)
				p := w.state.channels[key].subscriptions[SubscriptionID(sub)].Prices()
				want = m.push(c, kind, p.Nominal, p.Capacity+PushTiming(1))
			case "wait":
				d := rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, 61 * time.Minute, 3 * time.Hour, 25 * time.Hour}).Draw(r, "time")
				m.now = m.now.Add(d)
				history = append(history, "wait "+d.String())
				w.act("wait " + d.String())
				for w.act("due")[0] != "nothing" {
					m.event++
					if why := m.due(&w.last); why != "" {
						fail("due: %s", why)
					}
					note(&w.last)
				}
				if n := m.left(); n > 0 {
					fail("%d things are due and were not decided", n)
				}
			case "open":
				line = "open " + string(key.Controller)
				m.act(m.sessions[key.Controller])
			case "close":
				line = "close " + string(key.Controller)
				m.close(m.sessions[key.Controller], key.Controller)
			case "ack":
				history = append(history, "ack")
				w.act("ack " + string(key.Controller))
			}
			if line != "" {
				history = append(history, line)
				words := w.act(line)
				note(&w.last)
				if d := &w.last; d.Code != want || d.Outcome != outcome || want == "" && d.Verdict == Reject {
					fail("want %q %q, got %v", want, outcome, words)
				}
			}
			for _, key := range keys {
				epoch, got, _ := w.state.Balance(key)
				c := m.channels[key]
				if want := c.balance(c.epoch); epoch != c.epoch || got != want {
					fail("%v: epoch %d holds %+v, want %d %+v", key, epoch, got, c.epoch, want)
				}
				for e := uint64(1); e <= c.epoch; e++ {
					if b := c.balance(e); b.Spent() > c.Budget || b.Pushed > c.PushBudget || b.SpentCapacity() > c.CapacityBudget || b.Reserved < 0 {
						fail("%v: epoch %d spent %+v", key, e, b)
					}
				}
				if s := m.sessions[key.Controller]; c.epoch > uint64(1+s.renewals) {
					fail("%v: epoch %d after %d renewals by its Controller", key, c.epoch, s.renewals)
				}
			}
			if step%10 == 0 || step < 10 {
				replayed = catchUp(t, replica, w, replayed)
				if a, b := dump(w.state), dump(replica); a != b {
					fail("the journal replays to another state:\n%s", cmp.Diff(a, b))
				}
			}
		}
		var settled Bits
		for _, c := range m.channels {
			for e := uint64(1); e <= c.epoch; e++ {
				settled += c.balance(e).Settled
			}
		}
		if told+heldPushes != settled {
			fail("deliveries say %s and held pushes %s, settled are %s", told, heldPushes, settled)
		}
	})
}

// catchUp applies what w has written since.
func catchUp(t *testing.T, s *State, w *world, from int) int {
	t.Helper()
	for _, record := range w.journal[from:] {
		d, err := DecodeDecision(record)
		if err == nil {
			err = s.Apply(&d, RecordDigest(record))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return len(w.journal)
}

// Whatever the Readers do, alone and for however long, no epoch is opened.
//
// covers SUB-133, P4.4, A-RDRRESET, A-EXHAUST
func TestReadersOpenNoEpoch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		mesh := modelMesh()
		w := newWorld(t, mesh).play(`
			ask planner mail num  => accept
			ask planner web name  => accept
			ask clerk mail text   => accept`)
		acts := []string{
			`answer mail 1 {"n":1}`, `answer mail 1 junk`, `answer web 2 nei`, `answer mail 3 ` + answerWord(heldAnswer), `answer web 1 {"n":1}`,
			`push mail planner alarm {"ok":true}`, `push mail planner memo {"summary":"a_b"}`, `push web clerk note {"q":"hello"}`, `push mail clerk alarm {"ok":false}`,
			"wait 1m", "wait 29m", "wait 31m", "wait 3h", "wait 80h", "due", "due", "due", "ack planner", "event connect mail 1",
		}
		for range rapid.IntRange(1, 200).Draw(r, "steps") {
			w.act(rapid.SampledFrom(acts).Draw(r, "act"))
		}
		for key, ch := range w.state.channels {
			if ch.epoch != 1 {
				r.Fatalf("%v is in epoch %d", key, ch.epoch)
			}
			if b := ch.pool(1); b.Spent() > ch.definition.Budget || b.Pushed > ch.definition.PushBudget {
				r.Fatalf("%v spent %+v", key, b)
			}
		}
	})
}
