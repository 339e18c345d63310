package state

import (
	"math"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A pool's epochs (PROTOCOL P4.4). An ask opens one at once. With release slots, the
// pushes of a slot belong to the epoch that was theirs when the slot began, and one
// that they open is seen by asks from the next slot on: an act of the Controller
// within a slot does not part the pushes before it from those after it.

// epochState is an epoch of a channel, and what renews it.
type epochState struct {
	number  uint64 // from 1
	started int64  // when it was opened, 0 before its first charge
	due     int64  // the first renewal of its Controller since, 0 for none
}

// opening is an epoch that pushes of a slot open at its end.
type opening struct {
	began, slot int64 // the slot and its end, 0 for none
	number      uint64
}

// kept is the epoch that was open when a slot began in which asks opened another.
type kept struct {
	slot int64 // its end, 0 for none
	epochState
}

// pool is what one epoch of a channel holds.
type pool struct {
	bcp.Balance
	open int  `msgpack:"-"` // queries that reserved from it and have not ended
	held int  `msgpack:"-"` // answers that were charged to it and wait for a person
	flow flow // of the newest slot
}

// pool returns what an epoch holds; one that is not opened yet holds nothing.
func (ch *channelState) pool(epoch uint64) bcp.Balance {
	if p := ch.pools[epoch]; p != nil {
		return p.Balance
	}
	return bcp.Balance{}
}

// epochAt is the epoch that is open for asks at a time.
func (ch *channelState) epochAt(now int64) epochState {
	o := &ch.opening
	if o.slot == 0 || o.slot > now || o.number <= ch.epoch.number && ch.epoch.started != 0 {
		return ch.epoch
	}
	e := epochState{number: o.number, started: o.slot}
	if renewed := ch.controller.renewed; renewed >= o.began {
		e.due = renewed
	}
	return e
}

// settleEpoch has asks see the epoch that pushes of an earlier slot opened.
func (ch *channelState) settleEpoch(now int64) {
	if ch.epoch = ch.epochAt(now); ch.opening.slot <= now {
		ch.opening = opening{}
	}
}

// newest is the newest epoch of the channel, whoever opened it.
func (ch *channelState) newest() uint64 { return max(ch.epoch.number, ch.opening.number) }

// next is the epoch of a charge, of which renewals before a time count, and whether
// the charge opens it.
func (e epochState) next(now, before int64, renew int64) (number uint64, opens bool) {
	if e.started == 0 { // nothing was charged: the epoch is as good as new
		return e.number, true
	}
	if e.due != 0 && e.due < before || renew > 0 && now-e.started >= renew {
		return e.number + 1, true
	}
	return e.number, false
}

// decisionEpoch tells which epoch an ask of this decision belongs to, on any channel of
// its Controller.
func (ch *channelState) decisionEpoch(d *bcp.Decision) uint64 {
	e := ch.epochAt(d.Time)
	if d.SessionRenews && e.due == 0 {
		e.due = d.Time
	}
	number, _ := e.next(d.Time, math.MaxInt64, int64(ch.definition.BudgetRenew))
	return number
}

// pushEpoch tells which epoch a push belongs to.
func (ch *channelState) pushEpoch(now int64) (number uint64, opens bool) {
	renew := int64(ch.definition.BudgetRenew)
	if ch.slotted(now) == 0 {
		return ch.epochAt(now).next(now, math.MaxInt64, renew)
	}
	began := ch.slotBegan(now)
	e := ch.epochAt(began)
	if ch.kept.slot == ch.slot(now) {
		e = ch.kept.epochState
	}
	return e.next(began, began, renew)
}

// renew has the next charge of each of an agent's channels open an epoch.
func (a *agentState) renew(now int64) {
	for _, channels := range [...][]*channelState{a.asks, a.pastAsks} {
		for _, ch := range channels {
			if ch.settleEpoch(now); ch.epoch.started != 0 && ch.epoch.due == 0 {
				ch.epoch.due = now
			}
		}
	}
	a.renewed = now
}

// openEpoch opens the epoch of a charge, if it is a new one.
func (ch *channelState) openEpoch(d *bcp.Decision) {
	if d.Epoch <= ch.epoch.number && ch.epoch.started != 0 {
		return
	}
	if d.Kind == bcp.KindPush && d.Slot != 0 {
		if ch.opening.slot != d.Slot {
			ch.opening = opening{began: d.SlotBegan, slot: d.Slot, number: d.Epoch}
		}
		return
	}
	if d.Slot != 0 && ch.kept.slot != d.Slot {
		ch.kept = kept{d.Slot, ch.epoch}
	}
	ch.epoch = epochState{number: d.Epoch, started: d.Time}
}

// closeEpochs forgets pools that nothing can be charged to any more.
func (ch *channelState) closeEpochs(now int64) {
	for number, p := range ch.pools {
		pushes := ch.kept.slot > now && number >= ch.kept.number
		if number < ch.epoch.number && p.open == 0 && p.held == 0 && !pushes && p.flow.slot <= now {
			delete(ch.pools, number)
		}
	}
}

// balanceAfter is what the pool of d's epoch holds once d is applied; q is the
// query that d ends or holds, nil for an ask or a push.
func (ch *channelState) balanceAfter(d *bcp.Decision, q *queryState) bcp.Balance {
	b := ch.pool(d.Epoch)
	switch d.Kind {
	case bcp.KindAsk:
		if !d.Unfunded {
			b.Reserved += d.Nominal
			b.ReservedCapacity += d.Capacity
		}
		if d.Category == 2 {
			b.Cat2Queries++
		}
	case bcp.KindPush:
		b.Settled += d.Nominal
		b.Pushed += d.Nominal
		b.SettledCapacity += d.Capacity
	case bcp.KindAnswer, bcp.KindExpire, bcp.KindApproval:
		if q.reserves() {
			b.Reserved -= q.nominal
			b.ReservedCapacity -= q.capacity
			b.Settled += d.Nominal
			b.SettledCapacity += d.Capacity
		}
	}
	return b
}

// book has the decision say what it moves: the balance after it, and the slot; and the channel's
// budget_window, where those before it say another.
func (ch *channelState) book(d *bcp.Decision, q *queryState) {
	d.Balance = ch.balanceAfter(d, q)
	if span := int64(ch.definition.BudgetWindow); span != ch.window.span || !ch.window.recorded {
		d.BudgetWindow = span
	}
	if d.Slot = ch.slotted(d.Time); d.Slot != 0 {
		d.SlotBegan = ch.slotBegan(d.Time)
	}
}
