package state

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// A checkpoint is everything that a State remembers, as bytes: with it a start
// reads the end of the journal instead of all of it. It is a memo of the journal
// and never the truth. [Restore] makes of it exactly the state that the whole
// journal would make, under whatever definitions: Apply reads the records alone.

// checkpointVersion is in front. Another version is refused: the journal is
// read once, and a new checkpoint made. The fields of all that is remembered are the format:
// whoever changes them changes it.
const checkpointVersion = 22

// maxCheckpointDepth is that of an anomaly of a push of a window of a channel.
const maxCheckpointDepth = 11

// ErrCheckpoint says that the bytes are no checkpoint of this version, or contradict
// themselves.
var ErrCheckpoint = errors.New("the checkpoint cannot be used")

var errSaved = fmt.Errorf("%w: it contradicts itself", ErrCheckpoint)

// Checkpoint writes the state down: the same bytes for the same state. It begins with what
// was said ([bcp.CutSaid]), which has to be sealed before it is stored.
func (s *State) Checkpoint() ([]byte, error) {
	runs, err := s.saveRuns()
	if err != nil {
		return nil, err
	}
	said := vault{parts: map[part][][]byte{}}
	s.said(&said, runs)
	parts, err := said.save()
	if err != nil {
		return nil, fmt.Errorf("encoding a checkpoint: %w", err)
	}
	buf := bytes.NewBuffer(parts)
	c := coder{enc: msgpack.NewEncoder(buf), keys: s.channelKeys()}
	version := int64(checkpointVersion)
	if c.object(s.contents(&version, &runs)); c.err != nil {
		return nil, fmt.Errorf("encoding a checkpoint: %w", c.err)
	}
	return buf.Bytes(), nil
}

// Restore makes the state that a checkpoint was made of, under the definitions of c: the one
// that the journal up to there makes under them. It fails with [ErrCheckpoint] where the
// bytes cannot be used.
func Restore(c Config, checkpoint []byte) (*State, error) {
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	parts, checkpoint, err := bcp.CutSaid(checkpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	said, err := openVault(parts)
	if err != nil {
		return nil, err
	}
	if rest, ok := wire.SkipMsgpack(checkpoint, maxCheckpointDepth); !ok || len(rest) > 0 {
		return nil, fmt.Errorf("%w: it is not one whole value", ErrCheckpoint)
	}
	var version int64
	var runs []bcp.SavedRun
	peek := coder{dec: msgpack.NewDecoder(bytes.NewReader(checkpoint))}
	peek.length(0)
	if peek.value(&version); version != checkpointVersion {
		return nil, fmt.Errorf("%w: it has version %d", ErrCheckpoint, version)
	}
	read := coder{dec: msgpack.NewDecoder(bytes.NewReader(checkpoint))}
	if read.object(s.contents(&version, &runs)); read.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, read.err)
	}
	if s.said(said, runs); !said.emptied() {
		return nil, errSaved
	}
	if err := s.openRuns(runs); err != nil {
		return nil, err
	}
	if err := s.index(); err != nil {
		return nil, err
	}
	return s, nil
}

// codedBy is what a function writes or reads.
type codedBy func(*coder)

func (f codedBy) code(c *coder) { f(c) }

// contents are those of a checkpoint, without what was said.
func (s *State) contents(version *int64, runs *[]bcp.SavedRun) []any {
	return append([]any{
		version, codedBy(codeKeys), codedBy(s.codeAgents), codedBy(s.codeChannels), codedBy(s.codeQueries), &s.firsts, runs,
	}, s.fields()...)
}

func codeKeys(c *coder) {
	n := c.length(len(c.keys))
	if c.enc == nil {
		c.keys = make([]bcp.ChannelKey, max(0, n))
	}
	for i := range c.keys {
		key := &c.keys[i]
		if c.object([]any{&key.Controller, &key.Reader}); i > 0 && c.keys[i-1].Compare(*key) >= 0 {
			c.fail()
		}
	}
}

func (s *State) codeAgents(c *coder) {
	names, last := s.agentNames(), bcp.AgentName("")
	all := each(names, func(name bcp.AgentName) agentState { return *s.agent(name) })
	table(c, len(names), all, func(name bcp.AgentName, a agentState) bool {
		s.addAgent(name).remember(&a)
		ascends := name > last
		last = name
		return ascends
	})
}

func (s *State) codeChannels(c *coder) {
	if c.length(len(c.keys)) != len(c.keys) {
		c.fail()
	}
	for _, key := range c.keys {
		var ch channelState
		if c.enc != nil {
			ch = *s.channel(key)
		}
		if c.object(ch.fields()); c.enc == nil && c.err == nil {
			s.addChannel(key).remember(&ch)
		}
	}
}

// codeQueries has those that are open, by acceptance, and then the others, as they ended.
func (s *State) codeQueries(c *coder) {
	ids := append(s.openQueries(), s.endings...)
	table(c, len(ids), each(ids, func(id bcp.QueryID) queryState { return *s.queries[id] }), func(id bcp.QueryID, q queryState) bool {
		if s.queries[id] != nil || q.phase < phaseGate || q.phase > phaseEnded || s.channel(q.channel) == nil {
			return false
		}
		if s.queries[id] = &q; q.phase == phaseEnded {
			s.endings = append(s.endings, id)
		} else {
			s.open[id] = &q
		}
		return true
	})
}

// both are the entries of two maps, in any order.
func both[K comparable, V any](one, other map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, m := range [...]map[K]V{one, other} {
			for key, value := range m {
				if !yield(key, value) {
					return
				}
			}
		}
	}
}

// agentNames are those of all agents, also past ones, sorted.
func (s *State) agentNames() []bcp.AgentName {
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.agents)), maps.Keys(s.past.agents))
	slices.Sort(names)
	return names
}

// channelKeys are those of all channels, also past ones, sorted.
func (s *State) channelKeys() []bcp.ChannelKey {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(s.channels)), maps.Keys(s.past.channels))
	slices.SortFunc(keys, bcp.ChannelKey.Compare)
	return keys
}

// openQueries are those that have not ended, as they were accepted.
func (s *State) openQueries() []bcp.QueryID {
	return slices.SortedFunc(maps.Keys(s.open), func(a, b bcp.QueryID) int {
		return cmp.Or(cmp.Compare(s.open[a].accepted, s.open[b].accepted), cmp.Compare(a, b))
	})
}

// index finds what is remembered by all that it has to be found by, and has what waits for
// its time wait. It fails where that contradicts itself: sums that a checkpoint gets wrong
// would be spent.
func (s *State) index() error {
	for name, a := range both(s.agents, s.past.agents) {
		if !s.indexAgent(name, a) {
			return errSaved
		}
	}
	for _, ch := range both(s.channels, s.past.channels) {
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
		if id == "" || s.agent(e.controller) == nil || e.values < 1 || e.values > bcp.MaxFields {
			return errSaved
		}
	}
	for _, list := range s.calls {
		if !list.valid(true) {
			return errSaved
		}
	}
	for _, a := range s.alerts {
		if a.kind != bcp.AlertSuspect && s.channel(a.channel) == nil {
			return errSaved
		}
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
	return a.session.begun || len(a.session.quotes) == 0
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
	return ch.pools[ch.epoch.number] != nil && ch.endorsements.valid(false)
}

func (s *State) indexQuery(id bcp.QueryID, q *queryState) bool {
	ch, it := s.channel(q.channel), s.items[q.item]
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
	ch, q := s.channel(it.Channel()), s.queries[it.Query]
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
			p := s.channel(q.channel).pools[q.epoch]
			sum := sums[p]
			if q.nominal > math.MaxInt64-sum.Reserved || q.capacity > math.MaxInt64-sum.ReservedCapacity {
				return errSaved
			}
			sum.Reserved, sum.ReservedCapacity = sum.Reserved+q.nominal, sum.ReservedCapacity+q.capacity
			sums[p] = sum
		}
	}
	for key, ch := range both(s.channels, s.past.channels) {
		for number, p := range ch.pools {
			if sum := sums[p]; sum.Reserved != p.Reserved || sum.ReservedCapacity != p.ReservedCapacity {
				return fmt.Errorf("%w: epoch %d of %s and %s is not the sum of its queries", ErrCheckpoint, number, key.Controller, key.Reader)
			}
		}
	}
	return nil
}
