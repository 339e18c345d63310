package state

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// State is everything that a gateway remembers: budgets, sessions, open
// queries, undelivered messages, first outcomes. Decide methods look and do
// not touch; Apply changes. Applying the decisions of a journal in order makes
// the same State again.
//
// A State is owned by one goroutine.
type State struct {
	mesh        *bcp.Mesh
	constraints bcp.ConstraintCompiler
	context     bcp.Digest

	memory
	agents      map[bcp.AgentName]*agentState // of the definitions
	channels    map[bcp.ChannelKey]*channelState
	allAgents   map[bcp.AgentName]*agentState // and those of the past
	allChannels map[bcp.ChannelKey]*channelState
	open        map[bcp.QueryID]*queryState                   // those of queries that have not ended
	openWith    map[bcp.AgentName]map[bcp.QueryID]*queryState // the same by their Readers
	deadline    deadlines
	waiting     map[bcp.DeliveryID]bcp.ChannelKey // deliveries that are not acknowledged
	noticed     map[bcp.DeliveryID]agentRole      // notices that are not acknowledged
	crossed     []bcp.ChannelKey                  // channels whose alert_bits were reached, not yet recorded
	crons       []cron
	verify      bcp.Verifier
	passkeys    bcp.PasskeyVerifier
	compiled    map[compiledSpec]*bcp.Validator // memo of asks' specs
	prepared    *Prepared                       // the spec of the ask that is decided about
	runs        *kernel.State
}

// memory is what the records alone make, whatever the definitions are, besides agents and
// channels: a checkpoint has its fields, and those of all that it is made of, but for what a
// tag leaves out. That follows from the rest or from the definitions, or was said.
type memory struct {
	last      lastDecision
	head      bcp.Digest            // of the newest record
	origin    int64                 // time of the first decision
	idle      int64                 // the newest recorded idle_timeout, 0 for none
	begun     int64                 // when the schedules of the newest definitions began, 0 for never
	prompted  map[scheduleKey]int64 // the newest run of each since then that is decided
	queries   map[bcp.QueryID]*queryState
	endings   []bcp.QueryID // queries that ended, oldest first
	items     map[bcp.ItemID]*itemState
	decided   []decidedItem // items that were decided or expired, oldest first
	firsts    firstOutcomes
	envelopes map[bcp.DeliveryID]*envelope
	alerts    []alert                         // not yet recorded
	endorsed  map[bcp.ChannelKey]endorsements // of a channel, or of the calls of a kernel, whose key has no Reader
	roles     roleState
	watch     *contract.Watch
	suspended map[bcp.AgentName]bool // nothing is taken from them until the operator lifts it
	share     journalShare
}

// lastDecision is what the decisions to come need of the one before.
type lastDecision struct {
	Seq     uint64
	Time    int64
	Context bcp.Digest
}

// compiledSpec is a spec of a channel's ask, in canonical JSON.
type compiledSpec struct {
	channel bcp.ChannelKey
	spec    string
}

// agentState is what belongs to one agent over all its channels.
type agentState struct {
	definition bcp.Agent `msgpack:"-"`
	// asks and answers are its channels as Controller and as Reader, in the order of
	// the definitions.
	asks, answers []*channelState `msgpack:"-"`
	pastAsks      []*channelState `msgpack:"-"`
	askTotal      bcp.Bits        `msgpack:"-"` // the part of its total budget that asks may take
	reported      bcp.Taint       // TaintLow until somebody reports more
	exposure      bcp.Taint       // the greatest of all its sessions: what it learnt, it may tell
	told          bcp.Bits        // capacity of all that was released to it since it last began anew
	forgot        int64           // when it did; 0 is never
	session       sessionState
	arrivals      []arrival    // the next release first
	renewed       int64        // when it last had its channels open new epochs
	refusals      refusalCount // its own fault
	gathered      refusalCount // of others' making
	reports       refusalCount
	// unavailable says that the agent's command could not be started (PROTOCOL
	// P9.2).
	unavailable bool
	sources     []string // what was reported, each once
	egress      egressState
	usage       usageState
	notices     []notice // oldest first
}

// channelState is one channel's budget, escalations and outbox.
type channelState struct {
	definition    bcp.Channel                           `msgpack:"-"`
	subscriptions map[bcp.SubscriptionID]*bcp.Validator `msgpack:"-"`
	settings      bcp.Settings                          `msgpack:"-"`

	controller *agentState `msgpack:"-"`
	epoch      epochState  // as asks see it
	opening    opening     // by pushes of the newest slot
	kept       kept
	pools      map[uint64]*pool
	flow       flow     // of all pools
	pushTotal  bcp.Bits `msgpack:"-"` // the part of its Controller's total budget that pushes may take
	window     slidingWindow
	alerted    uint64 // epoch of the last alert of alert_bits
	exhausted  uint64 // epoch of the last alert of exhaustion
	spending   spending
	pushes     map[bcp.SubscriptionID]*pushState

	session     bcp.SessionID // that escalations belongs to
	escalations int
	armed       int   // category 1 queries that ended without an answer
	arming      int   // as many more, once the Controller hears of it
	armingAt    int64 // when it does
	failed      bool  // more escalations were tried than the session has

	pending int `msgpack:"-"` // items that count against max_pending_approvals
	outbox  []Outgoing
	// ends and holds are how many of outbox end a query, or say that its answer is
	// held.
	ends, holds int `msgpack:"-"`
}

// queryState is a query from its acceptance to the end of its memory.
type queryState struct {
	channel   bcp.ChannelKey
	session   bcp.SessionID
	epoch     uint64
	category  bcp.Category
	validator *bcp.Validator `msgpack:"-"` // nil where the definitions of today do not compile it, and once it ended
	prices    bcp.Prices     `msgpack:"-"` // zero once it ended
	spec      []byte         `msgpack:"-"` // as it was asked, until it ended
	nominal   bcp.Bits       // reserved, like capacity
	capacity  bcp.Bits
	accepted  uint64
	since     int64 // when it was accepted
	deadline  int64
	attempt   int
	phase     phase
	sent      bool       // to the Reader, at some time
	unfunded  bool       // it never will be
	item      bcp.ItemID // at phaseGate and phaseHeld
	cancelled bool       // by its session's end, or unfunded
	ended     int64      // when phase became phaseEnded
	heard     bcp.Code   // what a Reader hears that answers it then
	others    int        // answers that came when it was answered
}

type phase uint8

const (
	phaseGate  phase = 1 // the escalation waits for a person
	phaseSent  phase = 2 // with the Reader
	phaseHeld  phase = 3 // the answer waits for a person
	phaseEnded phase = 4
)

// Config is what a State is built from.
type Config struct {
	Mesh        *bcp.Mesh
	Constraints bcp.ConstraintCompiler
	// Verify checks the signatures of approvers; nil denies every decision.
	Verify bcp.Verifier
	// VerifyPasskey checks those of approvers who have a passkey; nil denies them.
	VerifyPasskey bcp.PasskeyVerifier
	// Schedules reads cron schedules; nil prompts nobody.
	Schedules bcp.ScheduleParser
	// Definitions is the digest of the definition files, and Version that of
	// the program: both go into every decision's context.
	Definitions bcp.Digest
	Version     string
}

// New returns the state of a mesh without history. It fails where a
// subscription does not compile.
func New(c Config) (*State, error) {
	s := &State{
		mesh: c.Mesh, constraints: c.Constraints, verify: c.Verify, passkeys: c.VerifyPasskey,
		agents: make(map[bcp.AgentName]*agentState), allAgents: make(map[bcp.AgentName]*agentState),
		channels: make(map[bcp.ChannelKey]*channelState), allChannels: make(map[bcp.ChannelKey]*channelState),
		open:     make(map[bcp.QueryID]*queryState),
		openWith: make(map[bcp.AgentName]map[bcp.QueryID]*queryState),
		compiled: make(map[compiledSpec]*bcp.Validator),
		waiting:  make(map[bcp.DeliveryID]bcp.ChannelKey),
		noticed:  make(map[bcp.DeliveryID]agentRole),
		memory: memory{
			queries:   make(map[bcp.QueryID]*queryState),
			items:     make(map[bcp.ItemID]*itemState),
			envelopes: make(map[bcp.DeliveryID]*envelope),
			roles:     roleState{map[roleKey]acceptedRole{}, map[string]int64{}},
			endorsed:  make(map[bcp.ChannelKey]endorsements),
			share:     journalShare{of: make(map[bcp.AgentName]int64)},
			watch:     contract.NewWatch(), suspended: make(map[bcp.AgentName]bool), prompted: make(map[scheduleKey]int64),
		},
	}
	s.context = contextDigest(c)
	if err := s.openRuns(nil); err != nil {
		return nil, err
	}
	for _, a := range c.Mesh.Agents {
		s.agents[a.Name] = newAgentState(a)
	}
	var compiler bcp.Compiler
	for _, definition := range c.Mesh.Channels {
		controller, reader := s.agents[definition.Controller], s.agents[definition.Reader]
		if controller == nil || reader == nil {
			return nil, errors.New("a channel needs both its agents")
		}
		ch := newChannelState(definition, controller)
		ch.settings = definition.Settings(c.Mesh, c.Constraints)
		if err := ch.compileSubscriptions(&compiler); err != nil {
			return nil, err
		}
		s.channels[definition.ChannelKey] = ch
		controller.asks, reader.answers = append(controller.asks, ch), append(reader.answers, ch)
	}
	maps.Copy(s.allAgents, s.agents)
	maps.Copy(s.allChannels, s.channels)
	for name, a := range s.agents { // whose asks and pushes are decided by their parts
		totals := s.mesh.Totals(name)
		a.askTotal = totals.Asks
		for key, part := range totals.Pushes {
			s.channels[key].pushTotal = part
		}
	}
	if err := s.readSchedules(c.Schedules); err != nil {
		return nil, err
	}
	return s, nil
}

func newAgentState(a bcp.Agent) *agentState {
	policy, _ := guard.ParsePolicy(a.Egress.Hosts) // what is no entry matches nothing
	return &agentState{definition: a, reported: bcp.TaintLow, exposure: bcp.TaintLow, session: sessionState{exposure: bcp.TaintLow},
		egress: egressState{policy: policy, pool: guard.NewPool()}, usage: usageState{tokens: guard.NewPool(), money: guard.NewPool()}}
}

func newChannelState(definition bcp.Channel, controller *agentState) *channelState {
	ch := &channelState{definition: definition, controller: controller, epoch: epochState{number: 1}, pools: map[uint64]*pool{1: {}}, pushes: map[bcp.SubscriptionID]*pushState{}}
	ch.window.span = int64(definition.BudgetWindow) // until a charge says another
	for _, sub := range definition.Subscriptions {
		ch.pushes[sub.ID] = &pushState{rate: sub.MaxRate, window: int64(sub.BatchWindow)}
	}
	return ch
}

func (ch *channelState) compileSubscriptions(compiler *bcp.Compiler) error {
	n := len(ch.definition.Subscriptions)
	ch.subscriptions = make(map[bcp.SubscriptionID]*bcp.Validator, n)
	for _, sub := range ch.definition.Subscriptions {
		v, err := compiler.Compile(sub.Spec, ch.settings.OfSubscription(sub, n))
		if err != nil {
			return fmt.Errorf("subscription %s of %s: %w", sub.ID, ch.definition.Controller, err)
		}
		ch.subscriptions[sub.ID] = v
	}
	return nil
}

// Versions names the program and the Unicode tables that decide with it.
func Versions(program string) string { return "bcpmesh " + program + "; " + text.Versions() }

// contextDigest covers everything besides the history that a verdict depends
// on (PROTOCOL P11.3).
func contextDigest(c Config) bcp.Digest {
	h := sha256.New()
	h.Write(c.Definitions[:])
	h.Write([]byte(text.DefaultRules().Digest()))
	names := make([]string, 0, len(c.Mesh.Vocabularies))
	for name := range c.Mesh.Vocabularies {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(h, "%q %q\n", name, c.Mesh.Vocabularies[name])
	}
	fmt.Fprintf(h, "%q\n", Versions(c.Version))
	return bcp.Digest(h.Sum(nil))
}

// Last returns the number of the newest decision, 0 before the first.
func (s *State) Last() uint64 { return s.last.Seq }

// Head returns the digest of the newest record, for the next decision's Prev.
func (s *State) Head() bcp.Digest { return s.head }

// now is journal time: it never goes back (PROTOCOL P4.4).
func (s *State) now(m bcp.Moment) int64 { return max(s.last.Time, m.Now.UnixNano()) }

// next begins a decision.
func (s *State) next(m bcp.Moment, kind bcp.DecisionKind) bcp.Decision {
	return bcp.Decision{Seq: s.last.Seq + 1, Prev: s.head, Time: s.now(m), Kind: kind, Context: s.context, Private: bcp.Private{Salt: m.Salt}}
}

func refuse(d bcp.Decision, check bcp.Check, code bcp.Code) bcp.Decision {
	d.Verdict, d.Check, d.Code = bcp.Reject, check, code
	return d
}

// validator compiles an ask's spec, or returns what an equal spec compiled to.
func (s *State) validator(ch *channelState, spec bcp.Spec) (*bcp.Validator, []byte, error) {
	b, err := bcp.Encode(spec, bcp.JSON)
	if err != nil {
		return nil, nil, err
	}
	if v := s.findCompiled(ch, b); v != nil {
		return v, b, nil
	}
	var v *bcp.Validator
	if p := s.prepared; p != nil && p.mesh == s.mesh && p.channel == ch.definition.ChannelKey && p.spec == string(b) {
		v, err = p.validator, p.err
	} else {
		v, err = bcp.Compile(spec, ch.settings)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(s.compiled) >= maxCompiled {
		clear(s.compiled)
	}
	s.compiled[compiledSpec{ch.definition.ChannelKey, string(b)}] = v
	return v, b, nil
}

// Prepared is the spec of an ask, compiled before the ask is decided about. The zero value
// is of nothing.
type Prepared struct {
	mesh      *bcp.Mesh
	channel   bcp.ChannelKey
	spec      string // as validator writes it
	validator *bcp.Validator
	err       error
}

// Prepare compiles the spec of an ask under the definitions of c, if the ask gets so far:
// its conditions take long. Any goroutine may call it; nil is nothing.
func (c *Config) Prepare(key bcp.ChannelKey, body []byte) *Prepared {
	ch, ok := c.Mesh.Channel(key)
	controller, _ := c.Mesh.Agent(key.Controller)
	ask, code := bcp.ParseAsk(body, controller.Encoding, key.Reader)
	if !ok || code != "" || len(ask.Constraints) == 0 || ask.Category > ch.MaxCategory || len(ask.Arguments) > ch.MaxArgumentBytes {
		return nil
	}
	b, err := bcp.Encode(ask.Spec, bcp.JSON)
	if err != nil {
		return nil
	}
	p := &Prepared{mesh: c.Mesh, channel: key, spec: string(b)}
	p.validator, p.err = bcp.Compile(ask.Spec, ch.Settings(c.Mesh, c.Constraints))
	return p
}

// Adopt has the state use what was prepared for the message that it decides about next.
func (s *State) Adopt(p *Prepared) { s.prepared = p }

// findCompiled returns what a spec, as validator wrote it, was compiled to, or nil.
func (s *State) findCompiled(ch *channelState, spec []byte) *bcp.Validator {
	return s.compiled[compiledSpec{ch.definition.ChannelKey, string(spec)}]
}

// Open reports whether the query is with its Reader, and what the Reader was
// asked: the gateway sends it again when the Reader returns.
func (s *State) Open(id bcp.QueryID) (q bcp.Query, reader bcp.AgentName, attempt int, ok bool) {
	state := s.queries[id]
	if state == nil || !state.waits() {
		return bcp.Query{}, "", 0, false
	}
	return bcp.Query{Type: bcp.TypeQuery, QueryID: id, Controller: state.channel.Controller, Spec: state.validator.Spec()},
		state.channel.Reader, state.attempt, true
}

// OpenQueries returns the queries that are with reader, in the order in which
// they were accepted.
func (s *State) OpenQueries(reader bcp.AgentName) []bcp.QueryID {
	var ids []bcp.QueryID
	for id, q := range s.openWith[reader] {
		if q.waits() {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b bcp.QueryID) int { return int(s.queries[a].accepted) - int(s.queries[b].accepted) })
	return ids
}

// begin notes a query that is open.
func (s *State) begin(id bcp.QueryID, q *queryState) {
	s.queries[id], s.open[id] = q, q
	with := s.openWith[q.channel.Reader]
	if with == nil {
		with = make(map[bcp.QueryID]*queryState)
		s.openWith[q.channel.Reader] = with
	}
	with[id] = q
}

// ended notes that an open query has ended.
func (s *State) ended(id bcp.QueryID, q *queryState) {
	delete(s.open, id)
	with := s.openWith[q.channel.Reader]
	if delete(with, id); len(with) == 0 {
		delete(s.openWith, q.channel.Reader)
	}
}

// waits reports whether the query waits for its Reader.
func (q *queryState) waits() bool { return q.phase == phaseSent && !q.isCancelled() }

// isCancelled reports whether the next DecideDue ends the open query: it was cancelled, or
// the definitions of today do not ask it, or not at its price.
func (q *queryState) isCancelled() bool { return q.cancelled || q.validator == nil }

// reserves reports whether the query still holds its reservation: an answer
// that waits for a person is settled already.
func (q *queryState) reserves() bool {
	return q != nil && (q.phase == phaseSent || q.phase == phaseGate)
}

func (q *queryState) forgotten(now int64) bool {
	return q.phase == phaseEnded && now-q.ended >= clientMemory
}

// Balance returns a channel's current epoch and what its pool holds.
func (s *State) Balance(key bcp.ChannelKey) (epoch uint64, balance bcp.Balance, ok bool) {
	ch := s.channels[key]
	if ch == nil {
		return 0, bcp.Balance{}, false
	}
	epoch = ch.newest()
	return epoch, ch.pool(epoch), true
}

// Exposure is the greatest taint that was delivered to a Controller in its
// newest session (PROTOCOL P8.2, P8.3).
func (s *State) Exposure(controller bcp.AgentName) bcp.Taint {
	if a := s.agents[controller]; a != nil {
		session := s.sessionAt(a, s.last.Time)
		return session.exposure
	}
	return bcp.TaintUnknown
}

// Encoding returns the agent's encoding; unknown agents have none.
func (s *State) Encoding(name bcp.AgentName) bcp.Encoding {
	if a := s.agents[name]; a != nil {
		return a.definition.Encoding
	}
	return 0
}

// Subscriptions lists what a Reader may push against, sorted by Controller.
func (s *State) Subscriptions(reader bcp.AgentName) bcp.SubscriptionsActive {
	m := bcp.SubscriptionsActive{Type: bcp.TypeSubscriptionsActive, Subscriptions: []bcp.ActiveSubscription{}}
	if a := s.agents[reader]; a != nil {
		m.Tools, m.ShareQueries = a.definition.ProtocolTools(), a.definition.ShareQueries
		for _, ch := range a.answers {
			m.Subscriptions = append(m.Subscriptions, s.activeSubscriptions(ch)...)
		}
	}
	return m
}

// SharesQueries reports whether the connections of a Reader share its queries.
func (s *State) SharesQueries(reader bcp.AgentName) bool {
	a := s.agents[reader]
	return a != nil && a.definition.ShareQueries
}

// ChannelsOf returns the channels of a Controller, sorted by Reader.
func (s *State) ChannelsOf(controller bcp.AgentName) []bcp.ChannelKey {
	var keys []bcp.ChannelKey
	if a := s.agents[controller]; a != nil {
		for _, ch := range a.asks {
			keys = append(keys, ch.definition.ChannelKey)
		}
	}
	return keys
}

func (s *State) activeSubscriptions(ch *channelState) []bcp.ActiveSubscription {
	list := []bcp.ActiveSubscription{}
	for _, sub := range ch.definition.Subscriptions {
		list = append(list, bcp.ActiveSubscription{SubscriptionID: sub.ID, Controller: ch.definition.Controller,
			MaxRate: sub.MaxRate, BatchWindow: bcp.WindowText(sub.BatchWindow), PublishWhen: sub.PublishWhen, Spec: ch.subscriptions[sub.ID].Spec()})
	}
	return list
}

// ErrReplay says that a journal does not lead to the state that it records: a
// different version, a changed record, or a mistake. The gateway stops.
var ErrReplay = errors.New("replaying the journal gives another result than it records")

var errUnfounded = errors.New("it does not follow from the decisions before it")

// ErrCheckpoint says that the bytes are no checkpoint of this version, or contradict
// themselves.
var ErrCheckpoint = errors.New("the checkpoint cannot be used")

var errSaved = fmt.Errorf("%w: it contradicts itself", ErrCheckpoint)

// Limits of the State.
const (
	maxCompiled = 1024 // asks' specs that are kept compiled
	// maxRepeats is how often a client may repeat an id that was accepted before, and a
	// Reader answer a query that is answered, until each further one counts as a
	// refusal: every one of them is a record.
	maxRepeats = 8
	// maxOutbox bounds a channel's deliveries that are not acknowledged and
	// queries that are open, together.
	maxOutbox = 16384
	// clientMemory is how long the first outcome of a request_id or push_id is
	// kept, and how long an ended query is told from an unknown one.
	clientMemory = 24 * 60 * 60 * 1_000_000_000
)
