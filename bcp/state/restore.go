package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract/watch"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Restore makes the state that a checkpoint was made of, under the definitions of c: the one
// that the journal up to there makes under them. It fails with [ErrCheckpoint] where the
// bytes cannot be used.
func Restore(c Config, checkpoint []byte) (*State, error) {
	saved, err := readCheckpoint(checkpoint)
	if err != nil {
		return nil, err
	}
	return restore(c, saved)
}

func restore(c Config, saved *savedState) (*State, error) {
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	if err := s.openRuns(saved.Runs); err != nil {
		return nil, err
	}
	if err := saved.check(); err != nil {
		return nil, err
	}
	if err := s.restore(saved); err != nil {
		return nil, err
	}
	return s, nil
}

func readCheckpoint(checkpoint []byte) (*savedState, error) {
	parts, checkpoint, err := bcp.CutSaid(checkpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if rest, ok := wire.SkipMsgpack(checkpoint, maxCheckpointDepth); !ok || len(rest) > 0 {
		return nil, fmt.Errorf("%w: it is not one whole value", ErrCheckpoint)
	}
	dec := msgpack.NewDecoder(bytes.NewReader(checkpoint))
	if n, err := dec.DecodeArrayLen(); err != nil || n < 1 {
		return nil, fmt.Errorf("%w: it is no list", ErrCheckpoint)
	}
	if version, err := dec.DecodeInt(); err != nil || version != checkpointVersion {
		return nil, fmt.Errorf("%w: it has version %d", ErrCheckpoint, version)
	}
	var saved savedState
	if err := msgpack.Unmarshal(checkpoint, &saved); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	said, err := openVault(parts)
	if err != nil {
		return nil, err
	}
	if saved.said(said); !said.emptied() {
		return nil, errSaved
	}
	return &saved, nil
}

var errSaved = fmt.Errorf("%w: it contradicts itself", ErrCheckpoint)

// check refuses what names agents or channels twice, or channels that are not there.
func (saved *savedState) check() error {
	agents, channels := make(map[bcp.AgentName]bool, len(saved.Agents)), make(map[int]bool, len(saved.Channels))
	for i := range saved.Agents {
		name := saved.Agents[i].Name
		if agents[name] {
			return errSaved
		}
		agents[name] = true
	}
	for i := range saved.Channels {
		key := saved.Channels[i].Key
		if channels[key] || key < 0 || key >= len(saved.Keys) {
			return errSaved
		}
		channels[key] = true
	}
	return nil
}

func (saved *savedState) key(i int) bcp.ChannelKey {
	return bcp.ChannelKey{Controller: saved.Keys[i].Controller, Reader: saved.Keys[i].Reader}
}

// restore fills a new state.
func (s *State) restore(saved *savedState) error {
	last, err := bcp.DecodeDecision(saved.Last)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	s.last, s.head, s.origin = lastDecision{last.Seq, last.Time, last.Context}, saved.Head, saved.Origin
	s.roles = restoreRoles(saved.Roles, saved.Revocations)
	for i := range saved.Calls {
		c := &saved.Calls[i]
		list, ok := restoreEndorsements(c.Endorsements, true)
		if !ok || len(s.calls[c.Kernel]) > 0 {
			return errSaved
		}
		s.calls[c.Kernel] = list
	}
	for i := range saved.Agents {
		if err := s.restoreAgent(&saved.Agents[i]); err != nil {
			return err
		}
	}
	for i := range saved.Channels {
		c := &saved.Channels[i]
		if err := s.restoreChannel(c, s.addChannel(saved.key(c.Key))); err != nil {
			return err
		}
	}
	s.queries = make(map[bcp.QueryID]*queryState, len(saved.Open)+len(saved.Ended))
	s.endings = make([]bcp.QueryID, 0, len(saved.Ended))
	for i := range saved.Open {
		if err := s.restoreQuery(saved, &saved.Open[i]); err != nil {
			return err
		}
	}
	for i := range saved.Ended {
		q := &saved.Ended[i]
		if err := s.restoreQuery(saved, q); err != nil || phase(q.Phase) != phaseEnded {
			return cmp.Or(err, errSaved)
		}
		s.endings = append(s.endings, q.ID)
	}
	for i := range saved.Items {
		if err := s.restoreItem(saved, &saved.Items[i]); err != nil {
			return err
		}
	}
	for i := range saved.Firsts {
		if err := s.restoreFirst(&saved.Firsts[i]); err != nil {
			return err
		}
	}
	for _, d := range saved.Decided {
		s.decided = append(s.decided, decidedItem{id: d.ID, at: d.At, code: d.Code, content: d.Content, channel: bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader}})
	}
	for _, t := range saved.Deadlines {
		s.addTimer(timer{at: t.At, query: t.Query, item: t.Item})
	}
	s.begun, s.idle = saved.Begun, saved.Idle
	for _, p := range saved.Prompted {
		s.prompted[scheduleKey{p.Agent, p.Schedule, p.Message}] = p.Run
	}
	s.scheduleAll()
	if s.watch, err = watch.Restore(saved.Watch); err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	for _, share := range saved.Share {
		s.share.add(share.Agent, share.Bytes)
	}
	for _, name := range saved.Suspended {
		s.suspended[name] = true
	}
	for _, a := range saved.Alerts {
		if a.Key == -1 && a.Kind == bcp.AlertSuspect {
			s.alerts = append(s.alerts, alert{kind: a.Kind, suspect: bcp.Seen{Agent: a.Agent, Rule: a.Rule, Count: a.Count}})
			continue
		}
		if a.Key < 0 || a.Key >= len(saved.Keys) || s.channel(saved.key(a.Key)) == nil {
			return errSaved
		}
		s.alerts = append(s.alerts, alert{channel: saved.key(a.Key), kind: a.Kind, epoch: a.Epoch})
	}
	if err := s.restoreEnvelopes(saved.Envelopes); err != nil {
		return err
	}
	for _, ch := range s.channels {
		s.noteThreshold(ch)
	}
	return s.consistent(saved)
}

func (s *State) restoreAgent(saved *savedAgent) error {
	a := s.addAgent(saved.Name)
	a.reported, a.exposure, a.told, a.forgot, a.renewed = saved.Reported, saved.Exposure, saved.Told, saved.Forgot, saved.Renewed
	a.refusals = refusalCount{minute: saved.RefusedIn, count: saved.Refused}
	a.gathered = refusalCount{minute: saved.GatheredIn, count: saved.Gathered}
	a.reports = refusalCount{minute: saved.ReportsIn, count: saved.Reports}
	pool, err := guard.RestorePool(saved.Egress)
	if err != nil {
		return errSaved
	}
	if a.usage.tokens, err = guard.RestorePool(saved.Tokens); err != nil {
		return errSaved
	}
	if a.usage.money, err = guard.RestorePool(saved.Money); err != nil {
		return errSaved
	}
	a.usage.warned, a.usage.alerted = saved.Warned, saved.Alerted
	a.usage.fault, a.usage.since = bcp.ModelFault{Fault: saved.Fault, Status: saved.FaultStatus}, saved.FaultSince
	a.egress.pool, a.egress.alerted = pool, saved.EgressAlerted
	a.egress.refusals = refusalCount{minute: saved.EgressRefusedIn, count: saved.EgressRefused}
	a.unavailable, a.sources = saved.Unavailable, saved.Sources
	from := &saved.Session
	a.session = sessionState{
		id: from.ID, begun: from.Begun, byDelivery: from.ByDelivery, closed: from.Closed, since: from.Since, touched: from.Touched,
		provoked: from.Provoked, provokedEnd: from.ProvokedEnd, exposure: from.Exposure,
	}
	if from.Begun {
		a.session.quotes = quotations{}
	}
	if len(from.Quotes)%16 != 0 || len(from.Quotes) > 0 && !from.Begun {
		return errSaved
	}
	for b := from.Quotes; len(b) > 0; b = b[16:] {
		a.session.quotes[[8]byte(b)] = int64(binary.BigEndian.Uint64(b[8:]))
	}
	for i := range from.Releases {
		a.session.releases = append(a.session.releases, from.Releases[i].restore())
	}
	for i := range saved.Arrivals {
		r := &saved.Arrivals[i]
		if r.Delivery == "" || len(r.Runs)%8 != 0 || i > 0 && r.At < saved.Arrivals[i-1].At {
			return errSaved
		}
		next := arrival{at: r.At, delivery: r.Delivery, session: r.Session, late: r.Late, exposure: r.Exposure, told: r.Told, full: r.Full, release: r.Release.restore()}
		for b := r.Runs; len(b) > 0; b = b[8:] {
			next.runs = append(next.runs, [8]byte(b))
		}
		a.arrivals = append(a.arrivals, next)
	}
	for _, n := range saved.Notices {
		notice := Notice{ID: n.ID, Agent: saved.Name, Role: n.Role, Peer: n.Peer, schedule: n.Schedule}
		var result bcp.ValidationResult
		var prompt bcp.Prompt
		var err error
		if n.Prompt {
			err = json.Unmarshal(n.Message, &prompt, json.RejectUnknownMembers(true))
			prompt.Time = time.Unix(0, n.Time).UTC()
			notice.Message = prompt
		} else {
			err = json.Unmarshal(n.Message, &result, json.RejectUnknownMembers(true))
			result.PushID = bcp.ClientID(n.PushID)
			notice.Message, notice.held = result, n.Time
		}
		if _, twice := s.noticed[n.ID]; err != nil || twice {
			return errSaved
		}
		a.notices = append(a.notices, notice)
		s.noticed[n.ID] = agentRole{saved.Name, n.Role}
	}
	return nil
}

func (r *savedRelease) restore() bcp.Release {
	return bcp.Release{Reader: r.Reader, Query: r.Query, Subscription: r.Subscription, Category: r.Category,
		Outcome: r.Outcome, Content: r.Content, Nominal: r.Nominal, Time: time.Unix(0, r.Time).UTC()}
}

func (e savedEpoch) restore() epochState {
	return epochState{number: e.Number, started: e.Started, due: e.Due}
}

func (f savedFlow) restore() flow {
	return flow{slot: f.Slot, asked: amounts{f.Asked, f.AskedCapacity}, unfunded: amounts{f.Unfunded, f.UnfundedCapacity}, pushed: amounts{f.Pushed, f.PushedCapacity}, back: amounts{f.Returned, f.ReturnedCapacity}}
}

func (s *State) restoreChannel(c *savedChannel, ch *channelState) error {
	ch.epoch, ch.alerted, ch.exhausted = c.Epoch.restore(), c.Alerted, c.Exhausted
	ch.spending = spending{session: c.Spender, spent: c.Spent, alerted: c.SpentAlerted, past: c.Past}
	ch.opening, ch.flow = opening{c.OpeningBegan, c.OpeningSlot, c.OpeningNumber}, c.Flow.restore()
	ch.kept = kept{c.KeptSlot, c.Kept.restore()}
	ch.session, ch.escalations = c.Session, c.Escalations
	for _, saved := range c.Pushes {
		p := ch.findPushes(saved.Subscription)
		if !p.empty() {
			return errSaved
		}
		p.times, p.released, p.before = saved.Times, saved.Released, saved.Before
		for _, b := range saved.Batches {
			if p.findBatch(b.Release) != nil || b.Count < 1 || len(b.Pushes) > b.Count {
				return errSaved
			}
			p.batches = append(p.batches, batch{release: b.Release, since: b.Since, category: b.Category, count: b.Count, bytes: b.Bytes,
				nominal: b.Nominal, capacity: b.Capacity, timing: b.Timing, taint: b.Taint, pushes: restorePushed(b.Pushes)})
			s.wakeForBatch(ch, saved.Subscription, b.Release)
		}
	}
	ch.armed, ch.arming, ch.armingAt, ch.failed, ch.pending = c.Armed, c.Arming, c.ArmingAt, c.Failed, c.Pending
	ch.pools = make(map[uint64]*pool, len(c.Pools))
	for _, p := range c.Pools {
		if ch.pools[p.Epoch] != nil {
			return errSaved
		}
		ch.pools[p.Epoch] = &pool{Balance: p.Balance, open: p.Open, held: p.Held, flow: p.Flow.restore()}
	}
	if ch.pools[ch.epoch.number] == nil || len(c.Window)%2 != 0 {
		return errSaved
	}
	ch.window.span, ch.window.recorded = c.Span, c.SpanRecorded
	for w := c.Window; len(w) > 0; w = w[2:] {
		ch.window.parts = append(ch.window.parts, windowPart{begin: w[0], sum: bcp.Bits(w[1])})
	}
	var ok bool
	if ch.endorsements, ok = restoreEndorsements(c.Endorsements, false); !ok {
		return errSaved
	}
	for i := range c.Outbox {
		o := &c.Outbox[i]
		if _, twice := s.waiting[o.ID]; twice {
			return errSaved
		}
		s.waiting[o.ID] = ch.definition.ChannelKey
		ch.outbox = append(ch.outbox, Outgoing{
			Delivery: bcp.Delivery{
				Type: bcp.TypeResponseDelivery, DeliveryID: o.ID, QueryID: o.Query, SubscriptionID: o.Subscription, RunID: o.Run, Category: o.Category,
				FromAgent: ch.definition.Reader, Response: o.Response, Batch: restorePushed(o.Batch), Outcome: o.Outcome, Anomalies: o.Anomalies, BandwidthBits: o.Nominal,
				CapacityBits: o.Capacity, Taint: o.Taint, ChannelMode: "bcp",
			},
			Controller: ch.definition.Controller, Seq: o.Seq, Release: time.Unix(0, o.Release).UTC(), since: o.Since, order: o.Order,
		})
		ch.count(&ch.outbox[i], 1)
	}
	return nil
}

func restorePushed(saved []savedPushed) (pushes []bcp.Pushed) {
	for _, p := range saved {
		pushes = append(pushes, bcp.Pushed{Response: p.Response, Anomalies: p.Anomalies})
	}
	return pushes
}

func (s *State) restoreQuery(saved *savedState, from *savedQuery) error {
	if from.Key < 0 || from.Key >= len(saved.Keys) || s.queries[from.ID] != nil || phase(from.Phase) < phaseGate || phase(from.Phase) > phaseEnded {
		return errSaved
	}
	q := &queryState{
		channel: saved.key(from.Key), session: from.Session, epoch: from.Epoch, category: from.Category,
		nominal: from.Nominal, capacity: from.Capacity, accepted: from.Accepted, since: from.Since, deadline: from.Deadline, attempt: from.Attempt,
		phase: phase(from.Phase), sent: from.Sent, item: from.Item, cancelled: from.Cancelled, unfunded: from.Unfunded, ended: from.EndedAt, heard: from.Heard, others: from.Others,
	}
	ch := s.channel(q.channel)
	if ch == nil {
		return errSaved
	}
	if q.phase == phaseEnded {
		s.queries[from.ID] = q
		return nil
	}
	s.begin(from.ID, q)
	q.spec = from.Spec
	if q.unfunded {
		return nil
	}
	var err error
	if q.validator, q.prices, err = s.asked(q.spec, q.nominal, q.capacity, q.category, ch); err != nil && from.Asked && q.spec != nil && saved.Context == s.context {
		return errSaved
	}
	s.wakeForVoid(from.ID, q)
	return nil
}

func (s *State) restoreItem(saved *savedState, from *savedItem) error {
	if from.Key < 0 || from.Key >= len(saved.Keys) || s.items[from.ID] != nil {
		return errSaved
	}
	key := saved.key(from.Key)
	q := s.queries[from.Query]
	if s.channel(key) == nil || from.Query != "" && (q == nil || q.channel != key || q.item != from.ID) {
		return errSaved
	}
	subscription := from.Subscription
	if p, ok := parseProposal(from.Content); ok && from.Kind == bcp.ItemProposal {
		subscription = p.Subscription.ID // its Controller's word is with what was said
	}
	s.items[from.ID] = &itemState{
		Item: bcp.Item{
			ID: from.ID, Kind: from.Kind, Controller: key.Controller, Reader: key.Reader, Query: from.Query, Subscription: subscription,
			Category: from.Category, Anomalies: from.Anomalies, Taint: from.Taint, Nominal: from.Nominal, Capacity: from.Capacity,
			Since: time.Unix(0, from.Since).UTC(), Deadline: time.Unix(0, from.Deadline).UTC(),
		},
		deadline: from.Deadline, counted: from.Counted, content: from.Content, justification: from.Justification, carries: from.JustificationBits, client: bcp.ClientID(from.Client),
	}
	return nil
}

func (s *State) restoreFirst(from *savedFirst) error {
	if len(from.Key) != len(clientKey{}) || len(from.Digest) != len(first{}.digest) || from.Repeats < 0 || from.Verdict >= 1<<verdictBits || from.Category > 3 {
		return errSaved
	}
	key := clientKey(from.Key)
	if s.firsts.find(&key) != 0 {
		return errSaved
	}
	s.firsts.add(key, &first{
		digest: [16]byte(from.Digest), time: from.Time, verdict: from.Verdict, reason: from.Reason, category: from.Category,
		nominal: from.Nominal, capacity: from.Capacity, epoch: from.Epoch, remains: from.Remaining, repeats: uint8(min(from.Repeats, maxRepeats)),
		code: from.Code, field: from.Field, query: from.Query,
	})
	return nil
}

// consistent holds the pools against the queries and items that they are the
// sums of. Sums that a checkpoint gets wrong would be spent.
func (s *State) consistent(saved *savedState) error {
	type sums struct {
		reserved, capacity bcp.Bits
		open, held         int
	}
	type epoch struct {
		channel bcp.ChannelKey
		epoch   uint64
	}
	found, pending := make(map[epoch]sums), make(map[bcp.ChannelKey]int)
	for _, q := range s.queries {
		sum := found[epoch{q.channel, q.epoch}]
		switch q.phase {
		case phaseGate, phaseSent:
			if q.nominal < 0 || q.capacity < 0 || q.nominal > math.MaxInt64-sum.reserved || q.capacity > math.MaxInt64-sum.capacity {
				return errSaved
			}
			sum.reserved, sum.capacity, sum.open = sum.reserved+q.nominal, sum.capacity+q.capacity, sum.open+1
		case phaseHeld:
			sum.held++
		default:
			continue
		}
		if it := s.items[q.item]; (it == nil) == (q.phase != phaseSent) {
			return errSaved
		}
		found[epoch{q.channel, q.epoch}] = sum
	}
	for _, it := range s.items {
		if it.counted {
			pending[it.Channel()]++
		}
	}
	pools := 0
	for _, key := range saved.Keys {
		key := bcp.ChannelKey{Controller: key.Controller, Reader: key.Reader}
		ch := s.channel(key)
		if ch == nil {
			return errSaved
		}
		if ch.pending != pending[key] {
			return fmt.Errorf("%w: %d items wait on the channel of %s and %s, and %d are there", ErrCheckpoint, ch.pending, key.Controller, key.Reader, pending[key])
		}
		for e, p := range ch.pools {
			sum, ok := found[epoch{key, e}]
			if ok {
				pools++
			}
			if sum != (sums{p.Reserved, p.ReservedCapacity, p.open, p.held}) {
				return fmt.Errorf("%w: epoch %d of %s and %s is not the sum of its queries", ErrCheckpoint, e, key.Controller, key.Reader)
			}
		}
	}
	if pools != len(found) {
		return errSaved
	}
	return nil
}

// restoreEndorsements reads those of a channel, or of the calls of a kernel.
func restoreEndorsements(saved []savedEndorsement, calls bool) (l endorsements, ok bool) {
	for _, e := range saved {
		if l.find(e.ID) != nil || !isOf(e.Codes, e.Tool) || (e.Tool != "") != calls || e.UsesLeft < 0 || e.UsesLeft > e.Uses || e.BitsLeft < 0 || e.BitsLeft > e.Bits {
			return nil, false
		}
		l = append(l, endorsement{id: e.ID, by: e.By, subscription: e.Subscription, tool: e.Tool, spec: e.Spec, codes: e.Codes, given: e.Given, until: e.Until,
			uses: e.Uses, bits: e.Bits, usesLeft: e.UsesLeft, bitsLeft: e.BitsLeft})
	}
	return l, true
}
