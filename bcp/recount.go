package bcp

import (
	"fmt"
	"maps"
	"slices"
)

// Recount adds up the charges of a journal from its decisions alone, without
// the definitions and without the state that made them: what the ledger, the
// state and each record's own balance must agree with (PROTOCOL P4.5). The zero
// value has counted nothing.
type Recount struct {
	Pools map[PoolKey]Balance
	open  map[QueryID]reservation
}

// PoolKey names one epoch of a channel.
type PoolKey struct {
	ChannelKey
	Epoch uint64
}

type reservation struct {
	pool              PoolKey
	nominal, capacity Bits
}

// Begin has a new count begin behind the checkpoint that a truncated journal
// begins behind.
func (r *Recount) Begin(checkpoint []byte) error {
	saved, err := readCheckpoint(checkpoint)
	if err != nil {
		return err
	}
	known := func(key int) bool { return key >= 0 && key < len(saved.Keys) }
	r.Pools, r.open = make(map[PoolKey]Balance), make(map[QueryID]reservation)
	for _, c := range saved.Channels {
		if !known(c.Key) {
			return errSaved
		}
		for _, p := range c.Pools {
			r.Pools[PoolKey{saved.key(c.Key), p.Epoch}] = p.Balance
		}
	}
	for _, q := range saved.Open {
		if !known(q.Key) {
			return errSaved
		}
		if phase(q.Phase) != phaseHeld { // its answer was charged
			r.open[q.ID] = reservation{PoolKey{saved.key(q.Key), q.Epoch}, q.Nominal, q.Capacity}
		}
	}
	return nil
}

// Add counts the next decision. It is an error where the decision settles what
// was never reserved, or records another balance than the charges up to it
// amount to; it is counted all the same.
func (r *Recount) Add(d *Decision) error {
	key, ok := d.Channel()
	if !ok || d.Repeat {
		return nil
	}
	if r.Pools == nil {
		r.Pools, r.open = make(map[PoolKey]Balance), make(map[QueryID]reservation)
	}
	pool := PoolKey{key, d.Epoch}
	b := r.Pools[pool]
	switch {
	case d.Kind == KindAsk && d.Unfunded:
		if d.Category == 2 {
			b.Cat2Queries++
		}
	case d.Kind == KindAsk && d.accepted():
		r.open[d.Query] = reservation{pool, d.Nominal, d.Capacity}
		b.Reserved += d.Nominal
		b.ReservedCapacity += d.Capacity
		if d.Category == 2 {
			b.Cat2Queries++
		}
	case d.Kind == KindPush && d.accepted():
		b.Settled += d.Nominal
		b.Pushed += d.Nominal
		b.SettledCapacity += d.Capacity
	case (d.Kind == KindAnswer || d.Kind == KindExpire || d.Kind == KindApproval) && (d.Delivery != "" || d.Verdict == Hold) && !d.Prepaid && d.Query != "":
		q, open := r.open[d.Query]
		if !open || q.pool != pool {
			return fmt.Errorf("decision %d settles a query that reserved nothing in epoch %d", d.Seq, d.Epoch)
		}
		delete(r.open, d.Query)
		b.Reserved -= q.nominal
		b.ReservedCapacity -= q.capacity
		b.Settled += d.Nominal
		b.SettledCapacity += d.Capacity
	default:
		return nil
	}
	r.Pools[pool] = b
	if b != d.Balance {
		return fmt.Errorf("decision %d records %s settled and %s reserved in epoch %d; its charges amount to %s and %s",
			d.Seq, d.Balance.Settled, d.Balance.Reserved, d.Epoch, b.Settled, b.Reserved)
	}
	return nil
}

// PoolBalance is what one epoch of a channel holds.
type PoolBalance struct {
	Controller AgentName `json:"controller"`
	Reader     AgentName `json:"reader"`
	Epoch      uint64    `json:"epoch"`
	Balance    Balance   `json:"balance"`
}

// Key returns the epoch's name.
func (p *PoolBalance) Key() PoolKey {
	return PoolKey{ChannelKey{Controller: p.Controller, Reader: p.Reader}, p.Epoch}
}

// Pools returns what the state holds of the channels' current epochs, and of
// those before it in which something is still open, sorted by channel and
// epoch. Epochs without a charge are left out.
func (s *State) Pools() []PoolBalance {
	all := []PoolBalance{}
	for i := range s.mesh.Channels {
		key := s.mesh.Channels[i].ChannelKey
		ch := s.channels[key]
		if ch.epoch.started == 0 && ch.opening.slot == 0 {
			continue
		}
		for _, epoch := range slices.Sorted(maps.Keys(ch.pools)) {
			all = append(all, PoolBalance{key.Controller, key.Reader, epoch, ch.pools[epoch].Balance})
		}
	}
	return all
}

// Reconciliation is what a recount of the journal found.
type Reconciliation struct {
	Decisions uint64 `json:"decisions"` // of the journal that were counted
	Lines     uint64 `json:"lines"`     // of the ledger that were compared
	Behind    uint64 `json:"behind"`    // decisions that the ledger does not show yet
	// Pools are the epochs of the state, as the journal amounts to them.
	Pools       []PoolBalance `json:"pools"`
	Differences []Difference  `json:"differences"`
	More        uint64        `json:"more_differences,omitzero"` // beyond MaxDifferences
}

// Difference is one disagreement with the journal's charges.
type Difference struct {
	Where Book   `json:"where"`
	Seq   uint64 `json:"seq,omitzero"` // of the decision
	Text  string `json:"text"`
}

// Book says whose figure it is that differs.
type Book string

// The books that a recount is compared with.
const (
	BookJournal Book = "journal" // the balances that decisions record
	BookLedger  Book = "ledger"  // the projection
	BookState   Book = "state"   // the gateway's
)

// MaxDifferences is how many are told one by one.
const MaxDifferences = 100

// Differ notes a difference.
func (r *Reconciliation) Differ(where Book, seq uint64, format string, args ...any) {
	if len(r.Differences) >= MaxDifferences {
		r.More++
		return
	}
	r.Differences = append(r.Differences, Difference{where, seq, fmt.Sprintf(format, args...)})
}

// CompareState compares the state's books with the recount of the same decisions.
func (r *Recount) CompareState(found *Reconciliation, state []PoolBalance) {
	found.Pools = []PoolBalance{}
	for _, p := range state {
		want := r.Pools[p.Key()]
		if want != p.Balance {
			found.Differ(BookState, 0, "%s and %s, epoch %d: the state has %s settled and %s reserved; the charges amount to %s and %s",
				p.Controller, p.Reader, p.Epoch, p.Balance.Settled, p.Balance.Reserved, want.Settled, want.Reserved)
		}
		p.Balance = want
		found.Pools = append(found.Pools, p)
	}
}
