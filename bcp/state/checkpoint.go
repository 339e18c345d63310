package state

import (
	"fmt"
	"maps"
	"math"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A checkpoint is everything that a State remembers, as bytes: with it a start
// reads the end of the journal instead of all of it. It is a memo of the journal
// and never the truth. [Restore] makes of it exactly the state that the whole
// journal would make, under whatever definitions: Apply reads the records alone.

// checkpointVersion is in front. Another version is refused: the journal is read once, and a
// new checkpoint made. The fields of all that is remembered are the format: whoever changes
// them changes it.
const checkpointVersion = 24

// contents are those of a checkpoint, without what was said.
type contents struct {
	agents   map[bcp.AgentName]*agentState // also past ones, as of channels
	channels map[bcp.ChannelKey]*channelState
	runs     []bcp.SavedRun
	*memory
}

// Checkpoint writes the state down: the same bytes for the same state. It begins with what
// was said ([bcp.CutSaid]), which has to be sealed before it is stored.
func (s *State) Checkpoint() ([]byte, error) {
	runs := s.runs.Save()
	all := contents{s.allAgents, make(map[bcp.ChannelKey]*channelState), runs, &s.memory}
	for key, ch := range s.allChannels {
		saved := *ch
		saved.pushes = maps.Clone(ch.pushes)
		maps.DeleteFunc(saved.pushes, func(_ bcp.SubscriptionID, p *pushState) bool { return p.empty() })
		all.channels[key] = &saved
	}
	said := vault{parts: map[part][][]byte{}}
	s.said(&said, runs)
	b, err := said.save()
	for _, p := range [...]any{new(checkpointVersion), &all} {
		if err == nil {
			b, err = bcp.AppendSaved(b, p)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("encoding a checkpoint: %w", err)
	}
	return b, nil
}

// Restore makes the state that a checkpoint was made of, under the definitions of c: the one
// that the journal up to there makes under them. It fails with [ErrCheckpoint] where the
// bytes cannot be used.
func Restore(c Config, checkpoint []byte) (*State, error) { return restore(c, checkpoint, false) }

// RestoreBare is [Restore] without the keys of what was said, as if that were erased.
func RestoreBare(c Config, checkpoint []byte) (*State, error) { return restore(c, checkpoint, true) }

func restore(c Config, checkpoint []byte, bare bool) (*State, error) {
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	parts, checkpoint, err := bcp.CutSaid(checkpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if bare {
		parts = nil
	}
	said, err := openVault(parts)
	if err != nil {
		return nil, err
	}
	version, all := 0, contents{memory: &s.memory}
	if checkpoint, err = bcp.CutSaved(checkpoint, &version); err != nil || version != checkpointVersion {
		return nil, fmt.Errorf("%w: it has version %d", ErrCheckpoint, version)
	}
	if checkpoint, err = bcp.CutSaved(checkpoint, &all); err != nil || len(checkpoint) > 0 || !s.firsts.restore() {
		return nil, fmt.Errorf("%w: it is not whole", ErrCheckpoint)
	}
	for name, a := range all.agents {
		s.addAgent(name).remember(a)
	}
	for key, ch := range all.channels {
		s.addChannel(key).remember(ch)
	}
	if !s.indexQueries() {
		return nil, errSaved
	}
	if s.said(said, all.runs); !said.emptied() {
		return nil, errSaved
	}
	if err := s.openRuns(all.runs); err != nil {
		return nil, err
	}
	if err := s.index(); err != nil {
		return nil, err
	}
	return s, nil
}

// indexQueries tells the queries that are open from those that ended.
func (s *State) indexQueries() bool {
	maps.Copy(s.open, s.queries)
	for _, id := range s.endings {
		if q := s.open[id]; q == nil || q.phase != phaseEnded {
			return false
		}
		delete(s.open, id)
	}
	for _, q := range s.open {
		if q.phase < phaseGate || q.phase >= phaseEnded {
			return false
		}
	}
	for _, q := range s.queries {
		if s.allChannels[q.channel] == nil {
			return false
		}
	}
	return true
}

// index finds what is remembered by all that it has to be found by, and has what waits for
// its time wait. It fails where that contradicts itself: sums that a checkpoint gets wrong
// would be spent.
func (s *State) index() error {
	for name, a := range s.allAgents {
		if !s.indexAgent(name, a) {
			return errSaved
		}
	}
	for _, ch := range s.allChannels {
		if !s.indexChannel(ch) {
			return errSaved
		}
	}
	for id, q := range s.open {
		if !s.indexQuery(id, q) {
			return errSaved
		}
	}
	for id, it := range s.items {
		if !s.indexItem(id, it) {
			return errSaved
		}
	}
	for id, e := range s.envelopes {
		if id == "" || s.allAgents[e.controller] == nil || e.values < 1 || e.values > bcp.MaxFields {
			return errSaved
		}
	}
	for key, list := range s.endorsed {
		if calls := key.Reader == ""; !list.valid(calls) || !calls && s.allChannels[key] == nil {
			return errSaved
		}
	}
	for _, a := range s.alerts {
		if a.kind != bcp.AlertSuspect && s.allChannels[a.channel] == nil {
			return errSaved
		}
	}
	if !s.watch.Valid() {
		return errSaved
	}
	for _, bytes := range s.share.of {
		s.share.all += bytes
	}
	s.scheduleAll()
	return s.addUp()
}

func (s *State) indexAgent(name bcp.AgentName, a *agentState) bool {
	for i := range a.notices {
		n := &a.notices[i]
		if s.Waits(n.id) {
			return false
		}
		s.noticed[n.id] = agentRole{name, n.role}
	}
	for i := range a.arrivals {
		if a.arrivals[i].delivery == "" || i > 0 && a.arrivals[i].at < a.arrivals[i-1].at {
			return false
		}
	}
	return (a.session.begun || len(a.session.quotes) == 0) && a.egress.pool.Valid() && a.usage.tokens.Valid() && a.usage.money.Valid()
}

func (s *State) indexChannel(ch *channelState) bool {
	for id, p := range ch.pushes {
		for i := range p.batches {
			b := &p.batches[i]
			if b.count < 1 || len(b.pushes) > b.count || i > 0 && b.release <= p.batches[i-1].release {
				return false
			}
			s.wakeForBatch(ch, id, b.release)
		}
	}
	ch.pending, ch.ends, ch.holds = 0, 0, 0
	for i := range ch.outbox {
		out := &ch.outbox[i]
		if _, twice := s.waiting[out.DeliveryID]; twice {
			return false
		}
		s.waiting[out.DeliveryID] = ch.definition.ChannelKey
		ch.count(out, 1)
	}
	for _, p := range ch.pools {
		p.open, p.held = 0, 0
	}
	if s.channels[ch.definition.ChannelKey] == ch {
		s.noteThreshold(ch)
	}
	return ch.pools[ch.epoch.number] != nil
}

func (s *State) indexQuery(id bcp.QueryID, q *queryState) bool {
	ch, it := s.allChannels[q.channel], s.items[q.item]
	p := ch.pools[q.epoch]
	switch {
	case p == nil, (it == nil) == (q.phase != phaseSent), q.nominal < 0, q.capacity < 0:
		return false
	case q.reserves():
		p.open++
	default:
		p.held++
	}
	s.begin(id, q)
	if q.validator == nil && !q.unfunded {
		q.validator, q.prices, _ = s.asked(q.spec, q.nominal, q.capacity, q.category, ch)
	}
	if q.phase == phaseSent || q.cancelled {
		s.addTimer(timer{at: q.deadline, query: id})
	}
	s.wakeForVoid(id, q)
	return true
}

func (s *State) indexItem(id bcp.ItemID, it *itemState) bool {
	ch, q := s.allChannels[it.Channel()], s.queries[it.Query]
	if ch == nil || it.Query != "" && (q == nil || q.channel != it.Channel() || q.item != id) {
		return false
	}
	it.ID, it.Subscription = id, it.subscription
	if p, ok := parseProposal(it.content); ok && it.Kind == bcp.ItemProposal {
		it.Subscription = p.Subscription.ID
	}
	if it.counted {
		ch.pending++
	}
	s.addTimer(timer{at: it.Deadline.UnixNano(), item: id})
	return true
}

// addUp holds the pools against the queries that they are the sums of.
func (s *State) addUp() error {
	sums := make(map[*pool]bcp.Balance)
	for _, q := range s.open {
		if q.reserves() {
			p := s.allChannels[q.channel].pools[q.epoch]
			sum := sums[p]
			if q.nominal > math.MaxInt64-sum.Reserved || q.capacity > math.MaxInt64-sum.ReservedCapacity {
				return errSaved
			}
			sum.Reserved, sum.ReservedCapacity = sum.Reserved+q.nominal, sum.ReservedCapacity+q.capacity
			sums[p] = sum
		}
	}
	for key, ch := range s.allChannels {
		for number, p := range ch.pools {
			if sum := sums[p]; sum.Reserved != p.Reserved || sum.ReservedCapacity != p.ReservedCapacity {
				return fmt.Errorf("%w: epoch %d of %s and %s is not the sum of its queries", ErrCheckpoint, number, key.Controller, key.Reader)
			}
		}
	}
	return nil
}
