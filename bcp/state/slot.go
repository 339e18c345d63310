package state

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A channel with a release_interval releases at the slots of a grid. Within a slot
// its Controller is told nothing of what Readers and people do in it, and so the
// answers to its asks do not depend on that either. An ask is refused by what there
// was when the slot began, and by the Controller's own asks since. Pushes and asks
// share what is left as they come: where pushes of this very slot have taken what an
// ask needs, the ask is accepted and unfunded, and ends when the slot does, with
// their deliveries (CAPACITY.md, 3).

// slot is the next moment at which the channel releases.
func (ch *channelState) slot(now int64) int64 {
	interval := int64(ch.definition.ReleaseInterval)
	if interval <= 0 {
		return now
	}
	return now - now%interval + interval
}

// slotted is slot, and 0 where the channel has none.
func (ch *channelState) slotted(now int64) int64 {
	if ch.definition.ReleaseInterval <= 0 {
		return 0
	}
	return ch.slot(now)
}

// slotBegan is when the slot of a time began; without slots that is now.
func (ch *channelState) slotBegan(now int64) int64 {
	return ch.slot(now) - int64(max(0, ch.definition.ReleaseInterval))
}

// amounts are bits of both kinds.
type amounts struct{ nominal, capacity bcp.Bits }

func (a *amounts) add(nominal, capacity bcp.Bits) {
	a.nominal, a.capacity = a.nominal+nominal, a.capacity+capacity
}

// flow is what one release slot moved: what asks reserved, what unfunded asks would
// have, what pushes settled, and what queries that ended gave back.
type flow struct {
	slot                          int64 // its end, 0 for none
	asked, unfunded, pushed, back amounts
}

// flowIn returns the flow of a slot: nothing, if it is of another.
func (f *flow) flowIn(slot int64) flow {
	if slot == 0 || f.slot != slot {
		return flow{}
	}
	return *f
}

// addDecision adds what d moves; q is the query that it ends or holds.
func (f *flow) addDecision(d *bcp.Decision, q *queryState) {
	if d.Slot == 0 {
		return
	}
	if f.slot != d.Slot {
		*f = flow{slot: d.Slot}
	}
	switch {
	case d.Unfunded:
		f.unfunded.add(d.Nominal, d.Capacity)
	case d.Kind == bcp.KindAsk:
		f.asked.add(d.Nominal, d.Capacity)
	case d.Kind == bcp.KindPush:
		f.pushed.add(d.Nominal, d.Capacity)
	case q.reserves():
		f.back.add(q.nominal-d.Nominal, q.capacity-d.Capacity)
	}
}

// usage is what was used of a limit, and what this slot moved of it.
type usage struct{ used, unfunded, pushed, back bcp.Bits }

// seen is what the Controller takes to be used: what was when the slot began, and
// all that it asked since.
func (u usage) seen() bcp.Bits { return u.used - u.pushed + u.back + u.unfunded }

// taken is what was when the slot began, and all that was reserved and pushed since:
// what comes back is not used again before the next.
func (u usage) taken() bcp.Bits { return u.used + u.back }

// spent is what is used of an epoch in nominal bits.
func (ch *channelState) spent(epoch uint64, now int64) usage {
	f := ch.epochFlow(epoch, now)
	return usage{ch.pool(epoch).Spent(), f.unfunded.nominal, f.pushed.nominal, f.back.nominal}
}

// spentCapacity is what is used of an epoch in capacity bits.
func (ch *channelState) spentCapacity(epoch uint64, now int64) usage {
	f := ch.epochFlow(epoch, now)
	return usage{ch.pool(epoch).SpentCapacity(), f.unfunded.capacity, f.pushed.capacity, f.back.capacity}
}

// windowed is what is used of the sliding window. It slides by slots, where there
// are any.
func (ch *channelState) windowed(now int64) usage {
	f := ch.flow.flowIn(ch.slotted(now))
	return usage{ch.window.over(int64(ch.definition.BudgetWindow)).sum(ch.slotBegan(now)) + ch.reserved(), f.unfunded.nominal, f.pushed.nominal, f.back.nominal}
}

// asked is what asks used of an epoch, as the Controller knows it.
func (ch *channelState) asked(epoch uint64, now int64) bcp.Bits {
	u := ch.spent(epoch, now)
	return u.seen() - (ch.pool(epoch).Pushed - u.pushed)
}

// epochFlow is what this slot moved in an epoch.
func (ch *channelState) epochFlow(epoch uint64, now int64) flow {
	if p := ch.pools[epoch]; p != nil {
		return p.flow.flowIn(ch.slotted(now))
	}
	return flow{}
}

// firstPlace is the place of the first subscription.
const firstPlace = 2

// slotPlace is where a subscription's deliveries are within their release slot. One that
// the definitions do not have, and a query, is in front of all.
func (ch *channelState) slotPlace(id bcp.SubscriptionID) uint64 {
	if ch.definition.ReleaseInterval <= 0 {
		return 0
	}
	return firstPlace + uint64(slices.IndexFunc(ch.definition.Subscriptions, func(sub bcp.Subscription) bool { return sub.ID == id }))
}
