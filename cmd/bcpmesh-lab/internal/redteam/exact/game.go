package exact

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// Game is a mesh with a simulated clock, played to the end in every way that an
// adversary can: the Readers, their content, and the people who decide about
// held items. One Controller plays against it with a fixed strategy.
// [Game.Search] then compares the bound of bcp/CAPACITY.md with everything that
// the Controller could get.
//
// Everything runs on a real [state.State]: each decision goes through its record,
// and each branch begins with a checkpoint.
type Game struct {
	Config     state.Config
	Controller bcp.AgentName
	// Planner says that not the Controller, but the planner of its kernel is the one that
	// hears.
	Planner bool
	// Ticks are the moments at which somebody acts, in order. At each of them
	// due decisions are made, the Controller gets what has been released, the
	// adversary makes a move, and the Controller acts.
	Ticks []time.Time
	// End is when the Controller gets the last message; nobody acts any more.
	End time.Time
	// Moves returns the adversary's alternatives at a tick, in this position. A
	// move that does nothing is one of them.
	Moves func(p *Position) []Move
	// Act is the Controller's strategy. It may depend only on what the
	// Controller got.
	Act func(p *Position)
}

// Move is the adversary's action at one tick.
type Move func(p *Position)

// Position is the state of one play of a [Game].
type Position struct {
	Tick    int
	Heard   []string      // messages to the Controller, without ids
	Queries []bcp.QueryID // accepted ones, in order
	Items   []bcp.ItemID  // held ones, in order

	game              *Game
	state             *state.State
	run               kernel.RunID    // the newest
	sessions          []bcp.SessionID // whose ids the Controller knows
	moments           int
	nominal, capacity bcp.Bits          // settled on the Controller's channels
	charged           []event           // with the charges
	heard             [sha256.Size]byte // of Heard
	err               error
}

// Now is the time of the position.
func (p *Position) Now() time.Time {
	if p.Tick == len(p.game.Ticks) {
		return p.game.End
	}
	return p.game.Ticks[max(0, p.Tick)]
}

// State is the state of the position, to look at.
func (p *Position) State() *state.State { return p.state }

func (p *Position) moment() bcp.Moment {
	p.moments++
	return bcp.Moment{Now: p.Now(), Fresh: fmt.Sprintf("%024d", p.moments), Salt: [16]byte{1}}
}

// branch is an equal position, made from a checkpoint of the state.
func (p *Position) branch() *Position {
	next := *p
	next.Heard, next.Queries, next.Items = slices.Clip(p.Heard), slices.Clip(p.Queries), slices.Clip(p.Items)
	next.sessions, next.charged = slices.Clip(p.sessions), slices.Clip(p.charged)
	checkpoint, err := p.state.Checkpoint()
	if err == nil {
		next.state, err = state.Restore(p.game.Config, checkpoint)
	}
	if err != nil {
		next.fail(err)
	}
	return &next
}

func (p *Position) failed() error {
	return fmt.Errorf("%w, where the controller heard\n%s", p.err, strings.Join(p.Heard, "\n"))
}

func (p *Position) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// commit sends a decision through its record and applies it.
func (p *Position) commit(d bcp.Decision) bcp.Decision {
	if p.err != nil || d.Code == bcp.RateLimited { // which has no record
		return d
	}
	if d.Says() {
		if err := d.Seal(gameKey); err != nil {
			p.fail(err)
		}
	}
	record, err := bcp.EncodeDecision(&d)
	if err == nil {
		d, err = bcp.DecodeDecision(record)
	}
	if err == nil {
		err = d.Open(gameKey)
	}
	if err == nil {
		err = p.state.Apply(&d, bcp.RecordDigest(record))
	}
	if err != nil {
		p.fail(err)
		return d
	}
	if d.Verdict == bcp.Hold && !d.Repeat {
		p.Items = append(p.Items, d.Item)
	}
	var charge bcp.Bits
	if line, moves := d.Line(); moves && line.Controller == p.game.Controller && d.Kind != bcp.KindAsk {
		charge = d.Capacity
		p.nominal += d.Nominal
		p.capacity += d.Capacity
	}
	p.note(&d, charge)
	return d
}

// event is an end of a query, or a push, in the release slot that ends then.
type event struct {
	slot    time.Time
	what    string
	part    string // the query or subscription
	charge  bcp.Bits
	answers bool // an answer to the query was accepted or held, so it is priced as one
	push    bool
	run     bool // how a run ended, or an error of a plan
}

// note adds the charges of a decision.
func (p *Position) note(d *bcp.Decision, charge bcp.Bits) {
	key, _ := d.Channel()
	c, ok := p.game.Config.Mesh.Channel(key)
	ends := d.Delivery != "" || d.Verdict == bcp.Hold || d.Verdict == bcp.Accept
	unfunded := d.Kind == bcp.KindExpire && d.Outcome == bcp.BudgetExhausted // follows from the pushes of its slot
	if !ok || c.Controller != p.game.Controller || !ends || unfunded {
		if charge > 0 {
			p.fail(fmt.Errorf("%s are charged for what nobody hears: %s %s", charge, d.Kind, d.Outcome))
		}
		return
	}
	switch d.Kind {
	case bcp.KindAnswer, bcp.KindPush, bcp.KindExpire, bcp.KindApproval:
		slot := d.At()
		if c.ReleaseInterval > 0 {
			slot = slot.Truncate(c.ReleaseInterval).Add(c.ReleaseInterval)
		}
		query := slices.Index(p.Queries, d.Query)
		e := event{slot: slot, what: fmt.Sprintf("%s %s %d%s %s %s %s %v", d.Kind, d.Reader, query, d.Subscription, d.Event, d.Outcome, d.Payload, d.Anomalies),
			part: subscriptionPart(d.Reader, d.Subscription), charge: charge, push: d.Kind == bcp.KindPush}
		if query >= 0 {
			e.part, e.answers = fmt.Sprint("query ", query+1), d.Verdict == bcp.Hold || d.Kind == bcp.KindAnswer && d.Verdict == bcp.Accept && d.Outcome == ""
		}
		p.charged = append(p.charged, e)
	}
}

func subscriptionPart(reader bcp.AgentName, id bcp.SubscriptionID) string {
	return fmt.Sprintf("subscription %s of %s", id, reader)
}

var gameKey = func() bcp.SealingKey {
	key, err := bcp.NewSealingKey([32]byte{7})
	if err != nil {
		panic(err)
	}
	return key
}()

// releaseDue makes due decisions, each at its time, and passes what was released to the
// Controller.
func (p *Position) releaseDue() {
	for p.err == nil {
		at, due := p.state.NextDue()
		if !due || at.After(p.Now()) {
			break
		}
		m := p.moment()
		m.Now = at
		if d, due := p.state.DecideDue(m); due {
			p.commit(d)
		}
	}
	for runs, due := p.state.Runs(), true; due; {
		m := p.moment()
		m.Now = p.state.JournalTime(m)
		var c kernel.Change
		if c, due = runs.DecideDue(m); due {
			p.record(m, &c, "")
		}
	}
	for _, key := range p.state.ChannelsOf(p.game.Controller) {
		for p.err == nil {
			out := p.state.Outbox(key)
			if len(out) == 0 || out[0].Release.After(p.Now()) {
				break
			}
			p.tell("%s", p.plain(out[0].Delivery))
			d, ok := p.state.DecideAcknowledge(p.moment(), p.game.Controller, bcp.RoleController, out[0].DeliveryID)
			if !ok {
				p.fail(fmt.Errorf("delivery %s cannot be acknowledged", out[0].DeliveryID))
			}
			p.commit(d)
		}
	}
}

// plain encodes a delivery without its random parts.
func (p *Position) plain(m bcp.Delivery) string {
	m.DeliveryID = ""
	if m.QueryID != "" {
		m.QueryID = bcp.QueryID(fmt.Sprint("query ", slices.Index(p.Queries, m.QueryID)+1))
	}
	b, err := json.Marshal(m, json.Deterministic(true))
	if err != nil {
		p.fail(err)
	}
	return string(b)
}

func (p *Position) tell(format string, args ...any) {
	line := fmt.Sprintf("%d: ", p.Tick) + fmt.Sprintf(format, args...)
	p.Heard = append(p.Heard, line)
	p.heard = sha256.Sum256(append(p.heard[:], line...))
}

// Ask is an act of the Controller. It reports whether the ask was accepted.
func (p *Position) Ask(reader bcp.AgentName, body string) bool {
	d := p.commit(p.state.DecideAsk(p.moment(), p.game.Controller, reader, []byte(body)))
	if d.Verdict != bcp.Accept && d.Verdict != bcp.Hold {
		p.tell("refused: %s", d.Code)
		return false
	}
	p.Queries = append(p.Queries, d.Query)
	p.tell("accepted: %s, %s, %s left", d.Nominal, d.Capacity, d.Remaining)
	return true
}

// Session is an act of the Controller: open or close.
func (p *Position) Session(verb string) {
	d := p.commit(p.state.DecideSession(p.moment(), p.game.Controller, fmt.Appendf(nil, `{"verb":%q}`, verb)))
	if !slices.Contains(p.sessions, d.Session) {
		p.sessions = append(p.sessions, d.Session)
	}
	p.tell("%s: %s, session %d", verb, d.Code, slices.Index(p.sessions, d.Session))
}

// Look is an act of the Controller: it asks for its channels.
func (p *Position) Look() {
	for _, c := range p.state.Channels(p.game.Controller, p.Now()).Channels {
		var escalations []bool
		for _, cost := range c.Costs {
			escalations = append(escalations, cost.Escalation)
		}
		p.tell("%s: %s left, %d and %v escalations, %d queries", c.Reader, c.Remaining, c.Escalations, escalations, c.Cat2Queries)
	}
}

// Answer is a move of a Reader about the nth accepted query, from 0.
func (p *Position) Answer(n int, response string) {
	_, reader, attempt, open := p.state.Open(p.Queries[n])
	if !open {
		return
	}
	body := fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,"response":%s}`, p.Queries[n], response)
	if response == "not_enough_information" {
		body = fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,"not_enough_information":true}`, p.Queries[n])
	}
	p.commit(p.state.DecideAnswer(p.moment(), reader, p.Queries[n], attempt, body))
}

// Push is a move of a Reader.
func (p *Position) Push(reader bcp.AgentName, id bcp.SubscriptionID, response string) {
	body := fmt.Appendf(nil, `{"type":"bcp_response","subscription_id":%q,"controller":%q,"response":%s}`, id, p.game.Controller, response)
	p.commit(p.state.DecidePush(p.moment(), reader, p.game.Controller, id, body))
}

// Judge is a move of a person about the nth held item, from 0, if it still
// waits.
func (p *Position) Judge(n int, act bcp.Act) {
	it := slices.IndexFunc(p.state.Items(), func(it bcp.Item) bool { return it.ID == p.Items[n] })
	if it < 0 {
		return
	}
	item := p.state.Items()[it]
	channel, _ := p.game.Config.Mesh.Channel(bcp.ChannelKey{Controller: item.Controller, Reader: item.Reader})
	view, _ := p.state.View(channel.Approvers[0], item.ID)
	a := bcp.Approval{Item: item.ID, SHA256: view.SHA256, Expires: item.Deadline.Truncate(time.Second), Signature: base64.StdEncoding.EncodeToString([]byte("x"))}
	if act == bcp.RejectItem {
		a.Reason = "no"
		a.SHA256 = sha256.Sum256([]byte(a.Reason))
	}
	body, err := bcp.Encode(a, bcp.JSON)
	if err != nil {
		p.fail(err)
	}
	if d := p.commit(p.state.DecideApproval(p.moment(), channel.Approvers[0], bcp.Sender{Key: "key"}, act, body)); d.Verdict != bcp.Accept {
		p.fail(fmt.Errorf("a person's decision is refused: %s", d.Code))
	}
}

// Process is a move of an agent whose command cannot be started, or can again.
func (p *Position) Process(agent bcp.AgentName, event string) {
	p.commit(p.state.DecideEvent(p.moment(), bcp.Decision{Kind: bcp.KindProcess, Agent: agent, Event: event}))
}

// limits fails the play if more was spent of a budget than there is.
func (p *Position) limits() {
	var total bcp.Bits
	for _, pool := range p.state.Pools() {
		c, _ := p.game.Config.Mesh.Channel(bcp.ChannelKey{Controller: pool.Controller, Reader: pool.Reader})
		b := pool.Balance
		if b.Spent() > c.Budget || b.Pushed > c.PushBudget || c.CapacityBudget > 0 && b.SpentCapacity() > c.CapacityBudget {
			p.fail(fmt.Errorf("epoch %d of %s and %s holds %+v", pool.Epoch, pool.Controller, pool.Reader, b))
		}
		if epoch, _, _ := p.state.Balance(c.ChannelKey); c.Controller == p.game.Controller && epoch == pool.Epoch {
			total += b.Spent()
		}
	}
	if a, _ := p.game.Config.Mesh.Agent(p.game.Controller); a.TotalBudget > 0 && total > a.TotalBudget {
		p.fail(fmt.Errorf("%s of total_budget_bits are spent", total))
	}
}
