package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A checkpoint is everything that a State remembers, as bytes: with it a start
// reads the end of the journal instead of all of it. It is a memo of the journal
// and never the truth. [Restore] makes of it exactly the state that the whole
// journal would make, under whatever definitions: Apply reads the records alone.

// checkpointVersion is in front. Another version is refused: the journal is
// read once, and a new checkpoint made.
const checkpointVersion = 21

// maxCheckpointDepth is that of an anomaly of a push of a window of a channel.
const maxCheckpointDepth = 11

// ErrCheckpoint says that the bytes are no checkpoint of this version, or contradict
// themselves.
var ErrCheckpoint = errors.New("the checkpoint cannot be used")

// Checkpoint writes the state down: the same bytes for the same state. It begins with what
// was said ([bcp.CutSaid]), which has to be sealed before it is stored.
func (s *State) Checkpoint() ([]byte, error) {
	last, err := bcp.EncodeDecision(&bcp.Decision{Seq: s.last.Seq, Time: s.last.Time, Context: s.last.Context})
	if err != nil {
		return nil, err
	}
	saved := savedState{Version: checkpointVersion, Context: s.context, Idle: s.idle, Begun: s.begun, Last: last, Head: s.head, Origin: s.origin}
	if saved.Runs, err = s.saveRuns(); err != nil {
		return nil, err
	}
	saved.Roles, saved.Revocations = s.roles.save()
	if saved.Watch, err = s.watch.Save(); err != nil {
		return nil, err
	}
	saved.Suspended, saved.Share = slices.Sorted(maps.Keys(s.suspended)), s.share.save()
	saved.Envelopes = s.saveEnvelopes()
	for _, kernel := range slices.Sorted(maps.Keys(s.calls)) {
		saved.Calls = append(saved.Calls, savedCalls{Kernel: kernel, Endorsements: s.calls[kernel].save()})
	}
	keys := s.keys(&saved)
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.agents)), maps.Keys(s.past.agents))
	slices.Sort(names)
	for _, name := range names {
		a, err := saveAgent(name, s.agent(name))
		if err != nil {
			return nil, err
		}
		saved.Agents = append(saved.Agents, a)
	}
	for i, k := range saved.Keys {
		key := bcp.ChannelKey{Controller: k.Controller, Reader: k.Reader}
		c := saveChannel(s.channel(key))
		c.Key = i
		saved.Channels = append(saved.Channels, c)
	}
	for id, q := range s.open {
		saved.Open = append(saved.Open, saveQuery(id, q, keys))
	}
	slices.SortFunc(saved.Open, func(a, b savedQuery) int { return cmp.Compare(a.Accepted, b.Accepted) })
	saved.Ended = make([]savedQuery, 0, len(s.endings))
	for _, id := range s.endings {
		saved.Ended = append(saved.Ended, saveQuery(id, s.queries[id], keys))
	}
	for _, id := range slices.Sorted(maps.Keys(s.items)) {
		saved.Items = append(saved.Items, saveItem(s.items[id], keys))
	}
	saved.Firsts = make([]savedFirst, 0, s.firsts.count)
	for key, f := range s.firsts.all() {
		saved.Firsts = append(saved.Firsts, saveFirst(key, &f))
	}
	for _, d := range s.decided {
		saved.Decided = append(saved.Decided, savedDecided{ID: d.id, At: d.at, Code: d.code, Content: d.content, Controller: d.channel.Controller, Reader: d.channel.Reader})
	}
	for _, t := range s.deadline {
		if t.subscription != "" || t.cron > 0 || t.void || s.obsolete(t) { // its window says it, or the definitions do
			continue
		}
		saved.Deadlines = append(saved.Deadlines, savedTimer{At: t.at, Query: t.query, Item: t.item})
	}
	slices.SortFunc(saved.Deadlines, func(a, b savedTimer) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Query, b.Query), cmp.Compare(a.Item, b.Item))
	})
	for _, a := range s.alerts {
		key, ok := keys[a.channel]
		if !ok {
			key = -1
		}
		saved.Alerts = append(saved.Alerts, savedAlert{Key: key, Kind: a.kind, Epoch: a.epoch, Agent: a.suspect.Agent, Rule: a.suspect.Rule, Count: a.suspect.Count})
	}
	for key, run := range s.prompted {
		saved.Prompted = append(saved.Prompted, savedPrompted{Agent: key.agent, Schedule: key.schedule, Message: key.message, Run: run})
	}
	slices.SortFunc(saved.Prompted, func(a, b savedPrompted) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Schedule, b.Schedule), cmp.Compare(a.Message, b.Message))
	})
	said := vault{}
	saved.said(&said)
	parts, err := said.save()
	if err != nil {
		return nil, fmt.Errorf("encoding a checkpoint: %w", err)
	}
	buf := bytes.NewBuffer(parts)
	enc := msgpack.NewEncoder(buf)
	enc.UseCompactInts(true)
	if err := enc.Encode(&saved); err != nil {
		return nil, fmt.Errorf("encoding a checkpoint: %w", err)
	}
	return buf.Bytes(), nil
}

// keys lists every channel that the state knows of, and returns their places.
func (s *State) keys(saved *savedState) map[bcp.ChannelKey]int {
	keys := make(map[bcp.ChannelKey]int)
	for key := range s.channels {
		keys[key] = 0
	}
	for key := range s.past.channels {
		keys[key] = 0
	}
	for i, key := range slices.SortedFunc(maps.Keys(keys), bcp.ChannelKey.Compare) {
		keys[key] = i
		saved.Keys = append(saved.Keys, savedKey{Controller: key.Controller, Reader: key.Reader})
	}
	return keys
}

func saveAgent(name bcp.AgentName, a *agentState) (savedAgent, error) {
	session := &a.session
	saved := savedAgent{
		Name: name, Reported: a.reported, Exposure: a.exposure, Told: a.told, Forgot: a.forgot, Renewed: a.renewed, RefusedIn: a.refusals.minute, Refused: a.refusals.count,
		GatheredIn: a.gathered.minute, Gathered: a.gathered.count, ReportsIn: a.reports.minute, Reports: a.reports.count,
		Unavailable: a.unavailable, Sources: a.sources,
		Session: savedSession{
			ID: session.id, Begun: session.begun, ByDelivery: session.byDelivery, Closed: session.closed, Since: session.since, Touched: session.touched,
			Provoked: session.provoked, ProvokedEnd: session.provokedEnd, Exposure: session.exposure, Quotes: session.quotes.save(),
		},
	}
	var err error
	if saved.Egress, err = a.egress.pool.Save(); err != nil {
		return savedAgent{}, err
	}
	if saved.Tokens, err = a.usage.tokens.Save(); err != nil {
		return savedAgent{}, err
	}
	if saved.Money, err = a.usage.money.Save(); err != nil {
		return savedAgent{}, err
	}
	saved.Warned, saved.Alerted = a.usage.warned, a.usage.alerted
	saved.Fault, saved.FaultStatus, saved.FaultSince = a.usage.fault.Fault, a.usage.fault.Status, a.usage.since
	saved.EgressAlerted, saved.EgressRefusedIn, saved.EgressRefused = a.egress.alerted, a.egress.refusals.minute, a.egress.refusals.count
	for _, r := range session.releases {
		saved.Session.Releases = append(saved.Session.Releases, saveRelease(r))
	}
	for i := range a.arrivals {
		r := &a.arrivals[i]
		saved.Arrivals = append(saved.Arrivals, savedArrival{At: r.at, Delivery: r.delivery, Session: r.session, Late: r.late, Exposure: r.exposure, Told: r.told, Full: r.full,
			Release: saveRelease(r.release), Runs: saveRuns(r.runs)})
	}
	for _, n := range a.notices {
		notice := savedNotice{ID: n.ID, Role: n.Role, Peer: n.Peer, Schedule: n.schedule, Time: n.held}
		message := n.Message
		switch m := message.(type) {
		case bcp.Prompt:
			notice.Prompt, notice.Time = true, m.Time.UnixNano()
			m.Time = time.Time{}
			message = m
		case bcp.ValidationResult:
			notice.PushID, m.PushID = []byte(m.PushID), ""
			message = m
		}
		if notice.Message, err = json.Marshal(message, json.Deterministic(true)); err != nil {
			return savedAgent{}, err
		}
		saved.Notices = append(saved.Notices, notice)
	}
	return saved, nil
}

func saveRuns(runs [][8]byte) (b []byte) {
	for _, run := range runs {
		b = append(b, run[:]...)
	}
	return b
}

func saveRelease(r bcp.Release) savedRelease {
	return savedRelease{Reader: r.Reader, Query: r.Query, Subscription: r.Subscription, Category: r.Category, Outcome: r.Outcome,
		Content: r.Content, Nominal: r.Nominal, Time: r.Time.UnixNano()}
}

// save writes each run and its release, sorted by run.
func (q quotations) save() []byte {
	b := make([]byte, 0, 16*len(q))
	for _, run := range slices.SortedFunc(maps.Keys(q), func(a, b [8]byte) int { return bytes.Compare(a[:], b[:]) }) {
		b = binary.BigEndian.AppendUint64(append(b, run[:]...), uint64(q[run]))
	}
	return b
}

func (l endorsements) save() (saved []savedEndorsement) {
	for i := range l {
		e := &l[i]
		saved = append(saved, savedEndorsement{ID: e.id, By: e.by, Subscription: e.subscription, Tool: e.tool, Spec: e.spec, Codes: e.codes, Given: e.given, Until: e.until,
			Uses: e.uses, Bits: e.bits, UsesLeft: e.usesLeft, BitsLeft: e.bitsLeft})
	}
	return saved
}

func saveChannel(ch *channelState) savedChannel {
	c := savedChannel{
		Epoch: ch.epoch.save(), Alerted: ch.alerted, Exhausted: ch.exhausted,
		Spender: ch.spending.session, Spent: ch.spending.spent, SpentAlerted: ch.spending.alerted, Past: ch.spending.past,
		Pushes: ch.savePushes(), Session: ch.session, Escalations: ch.escalations, Armed: ch.armed, Arming: ch.arming, Endorsements: ch.endorsements.save(),
		ArmingAt: ch.armingAt, Failed: ch.failed, Pending: ch.pending, Span: ch.window.span, SpanRecorded: ch.window.recorded,
		OpeningBegan: ch.opening.began, OpeningSlot: ch.opening.slot, OpeningNumber: ch.opening.number,
		KeptSlot: ch.kept.slot, Kept: ch.kept.epochState.save(), Flow: ch.flow.save(),
	}
	for _, epoch := range slices.Sorted(maps.Keys(ch.pools)) {
		p := ch.pools[epoch]
		c.Pools = append(c.Pools, savedPool{Epoch: epoch, Balance: p.Balance, Open: p.open, Held: p.held, Flow: p.flow.save()})
	}
	for _, p := range ch.window.parts {
		c.Window = append(c.Window, p.begin, int64(p.sum))
	}
	for i := range ch.outbox {
		o := &ch.outbox[i]
		c.Outbox = append(c.Outbox, savedOutgoing{
			ID: o.DeliveryID, Query: o.QueryID, Subscription: o.SubscriptionID, Run: o.RunID, Category: o.Category, Response: o.Response, Batch: savePushed(o.Batch), Outcome: o.Outcome,
			Anomalies: o.Anomalies, Nominal: o.BandwidthBits, Capacity: o.CapacityBits, Taint: o.Taint, Seq: o.Seq, Since: o.since,
			Release: o.Release.UnixNano(), Order: o.order,
		})
	}
	return c
}

func (e epochState) save() savedEpoch {
	return savedEpoch{Number: e.number, Started: e.started, Due: e.due}
}

func (f flow) save() savedFlow {
	return savedFlow{Slot: f.slot, Asked: f.asked.nominal, AskedCapacity: f.asked.capacity, Unfunded: f.unfunded.nominal, UnfundedCapacity: f.unfunded.capacity, Pushed: f.pushed.nominal, PushedCapacity: f.pushed.capacity,
		Returned: f.back.nominal, ReturnedCapacity: f.back.capacity}
}

// savePushes writes what is remembered of the subscriptions, sorted by id.
func (ch *channelState) savePushes() (saved []savedPushes) {
	for _, id := range slices.Sorted(maps.Keys(ch.pushes)) {
		if p := ch.pushes[id]; !p.empty() {
			saved = append(saved, savedPushes{Subscription: id, Times: p.times, Released: p.released, Before: p.before, Batches: p.saveBatches()})
		}
	}
	return saved
}

func (p *pushState) saveBatches() (saved []savedBatch) {
	for i := range p.batches {
		b := &p.batches[i]
		saved = append(saved, savedBatch{Release: b.release, Since: b.since, Category: b.category, Count: b.count, Bytes: b.bytes,
			Nominal: b.nominal, Capacity: b.capacity, Timing: b.timing, Taint: b.taint, Pushes: savePushed(b.pushes)})
	}
	return saved
}

func savePushed(pushes []bcp.Pushed) (saved []savedPushed) {
	for _, p := range pushes {
		saved = append(saved, savedPushed{Response: p.Response, Anomalies: p.Anomalies})
	}
	return saved
}

func saveQuery(id bcp.QueryID, q *queryState, keys map[bcp.ChannelKey]int) savedQuery {
	return savedQuery{
		ID: id, Key: keys[q.channel], Session: q.session, Epoch: q.epoch, Category: q.category, Spec: q.spec, Asked: q.validator != nil,
		Nominal: q.nominal, Capacity: q.capacity, Accepted: q.accepted, Since: q.since, Deadline: q.deadline, Attempt: q.attempt,
		Phase: uint8(q.phase), Sent: q.sent, Item: q.item, Cancelled: q.cancelled, Unfunded: q.unfunded, EndedAt: q.ended, Heard: q.heard, Others: q.others,
	}
}

func saveItem(it *itemState, keys map[bcp.ChannelKey]int) savedItem {
	return savedItem{
		ID: it.ID, Kind: it.Kind, Key: keys[it.Channel()], Query: it.Query, Subscription: it.declared(), Category: it.Category,
		Anomalies: it.Anomalies, Taint: it.Taint, Nominal: it.Nominal, Capacity: it.Capacity, Since: it.Since.UnixNano(), Deadline: it.deadline,
		Counted: it.counted, Content: it.content, Justification: it.justification, JustificationBits: it.carries, Client: []byte(it.client),
	}
}

func saveFirst(key clientKey, f *first) savedFirst {
	return savedFirst{
		Key: key[:], Digest: f.digest[:], Time: f.time, Verdict: f.verdict, Code: f.code, Reason: f.reason, Field: f.field, Query: f.query,
		Category: f.category, Nominal: f.nominal, Capacity: f.capacity, Epoch: f.epoch, Remaining: f.remains, Repeats: int(f.repeats),
	}
}
