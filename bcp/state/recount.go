package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// Recount adds up the charges of a journal from its decisions alone, without
// the definitions and without the state that made them: what the ledger, the
// state and each record's own balance must agree with (PROTOCOL P4.5). The zero
// value has counted nothing.
type Recount struct {
	Pools map[bcp.PoolKey]bcp.Balance
	open  map[bcp.QueryID]reservation
}

type reservation struct {
	pool              bcp.PoolKey
	nominal, capacity bcp.Bits
}

// Begin has a new count begin after the checkpoint that a truncated journal
// begins after. What was said moves no bits: it is left out, sealed or not.
func (r *Recount) Begin(checkpoint []byte) error {
	s, err := RestoreBare(Config{Mesh: new(bcp.Mesh)}, checkpoint)
	if err != nil {
		return err
	}
	r.Pools, r.open = make(map[bcp.PoolKey]bcp.Balance), make(map[bcp.QueryID]reservation)
	for key, ch := range s.allChannels {
		for epoch, p := range ch.pools {
			r.Pools[bcp.PoolKey{ChannelKey: key, Epoch: epoch}] = p.Balance
		}
	}
	for id, q := range s.open {
		if q.reserves() { // else its answer was charged
			r.open[id] = reservation{bcp.PoolKey{ChannelKey: q.channel, Epoch: q.epoch}, q.nominal, q.capacity}
		}
	}
	return nil
}

// Add counts the next decision. It is an error where the decision settles what
// was never reserved, or records another balance than the charges up to it
// amount to; it is counted all the same.
func (r *Recount) Add(d *bcp.Decision) error {
	key, ok := d.Channel()
	if !ok || d.Repeat {
		return nil
	}
	if r.Pools == nil {
		r.Pools, r.open = make(map[bcp.PoolKey]bcp.Balance), make(map[bcp.QueryID]reservation)
	}
	pool := bcp.PoolKey{ChannelKey: key, Epoch: d.Epoch}
	b := r.Pools[pool]
	switch {
	case d.Kind == bcp.KindAsk && d.Unfunded:
		if d.Category == 2 {
			b.Cat2Queries++
		}
	case d.Kind == bcp.KindAsk && d.Accepted():
		r.open[d.Query] = reservation{pool, d.Nominal, d.Capacity}
		b.Reserved += d.Nominal
		b.ReservedCapacity += d.Capacity
		if d.Category == 2 {
			b.Cat2Queries++
		}
	case d.Kind == bcp.KindPush && d.Accepted():
		b.Settled += d.Nominal
		b.Pushed += d.Nominal
		b.SettledCapacity += d.Capacity
	case (d.Kind == bcp.KindAnswer || d.Kind == bcp.KindExpire || d.Kind == bcp.KindApproval) && (d.Delivery != "" || d.Verdict == bcp.Hold) && !d.Prepaid && d.Query != "":
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

// Pools returns what the state holds of the channels' current epochs, and of
// those before it in which something is still open, sorted by channel and
// epoch. Epochs without a charge are left out.
func (s *State) Pools() []bcp.PoolBalance {
	all := []bcp.PoolBalance{}
	for i := range s.mesh.Channels {
		key := s.mesh.Channels[i].ChannelKey
		ch := s.channels[key]
		if ch.epoch.started == 0 && ch.opening.slot == 0 {
			continue
		}
		for _, epoch := range slices.Sorted(maps.Keys(ch.pools)) {
			all = append(all, bcp.PoolBalance{Controller: key.Controller, Reader: key.Reader, Epoch: epoch, Balance: ch.pools[epoch].Balance})
		}
	}
	return all
}

// CompareState compares the state's books with the recount of the same decisions.
func (r *Recount) CompareState(found *status.Reconciliation, state []bcp.PoolBalance) {
	found.Pools = []bcp.PoolBalance{}
	for _, p := range state {
		want := r.Pools[p.Key()]
		if want != p.Balance {
			found.Differ(status.BookState, 0, "%s and %s, epoch %d: the state has %s settled and %s reserved; the charges amount to %s and %s",
				p.Controller, p.Reader, p.Epoch, p.Balance.Settled, p.Balance.Reserved, want.Settled, want.Reserved)
		}
		p.Balance = want
		found.Pools = append(found.Pools, p)
	}
}
