package state

import (
	"github.com/bcpmesh/bcpmesh/bcp"
)

// What a decision of a channel must be to follow from the state, whatever the
// definitions of today are. A gateway's own decisions always are; a journal that
// lies is found here or by its balances, before it leads anywhere.

// check refuses a decision about things that are not there, were there before,
// or belong to another channel, and figures that no decision has.
func (s *State) check(d *bcp.Decision, ch *channelState) error {
	if d.Nominal < 0 || d.Capacity < 0 || d.Attempt < 0 {
		return errUnfounded
	}
	ok := s.checkEndorsed(d, ch.definition.ChannelKey)
	if !ok {
		return errUnfounded
	}
	switch d.Kind {
	case bcp.KindAsk:
		ok = d.Verdict == bcp.Reject || d.Accepted() && d.Query != "" && s.queries[d.Query] == nil && ch.follows(d.Epoch) && s.holds(d)
	case bcp.KindPush:
		ok = d.Accepted() == (d.Delivery != "" || d.Item != "" || d.Gathered()) && (!d.Gathered() || d.Release > d.Time) && (d.Verdict == bcp.Reject || d.Accepted() && ch.follows(d.Epoch) && s.holds(d))
	case bcp.KindAnswer:
		ok = s.checkAnswer(d, ch)
	case bcp.KindExpire:
		ok = s.checkExpire(d, ch)
	case bcp.KindAlert:
		ok = d.Epoch <= ch.newest()
	case bcp.KindApproval:
		ok = s.checkApproval(d, ch)
	case bcp.KindBatch:
		ok = s.checkBatch(d, ch)
	case bcp.KindPropose, bcp.KindHand:
		ok = d.Verdict == bcp.Reject || d.Verdict == bcp.Hold && s.holds(d)
	}
	if !ok {
		return errUnfounded
	}
	return nil
}

// follows reports whether a new charge may belong to this epoch: the newest, the
// next, or one that is kept for the pushes of a slot.
func (ch *channelState) follows(epoch uint64) bool {
	return epoch <= ch.newest()+1 && (epoch >= ch.epoch.number || ch.pools[epoch] != nil)
}

// holds reports whether the decision makes an item exactly if it holds
// something.
func (s *State) holds(d *bcp.Decision) bool {
	return (d.Verdict == bcp.Hold) == (d.Item != "") && s.items[d.Item] == nil
}

func (s *State) checkAnswer(d *bcp.Decision, ch *channelState) bool {
	q := s.queries[d.Query]
	if d.Delivery == "" && d.Item == "" {
		return d.Verdict == bcp.Reject && (d.Attempt == 0 || q != nil && q.channel == ch.definition.ChannelKey && d.Attempt <= q.attempt+1)
	}
	heard := d.Delivery != "" || d.Verdict == bcp.Hold && q != nil && q.category == 3
	return q != nil && q.phase == phaseSent && heard && (d.Accepted() || d.Verdict == bcp.Reject) && s.charges(d, ch, q) && s.holds(d)
}

func (s *State) checkExpire(d *bcp.Decision, ch *channelState) bool {
	q := s.queries[d.Query]
	if d.Item != "" {
		it := s.items[d.Item]
		if it == nil || it.Controller != d.Controller || it.Reader != d.Reader || it.Query != d.Query {
			return false
		}
		if it.Query == "" {
			return d.Delivery == "" && d.Verdict == 0 && d.Epoch == ch.newest()
		}
	}
	if q == nil || d.Delivery == "" || d.Verdict != 0 || q.phase == phaseEnded || q.item != d.Item {
		return false
	}
	return s.charges(d, ch, q)
}

// charges reports whether the decision charges no more than its query reserved,
// to the epoch where it did.
func (s *State) charges(d *bcp.Decision, ch *channelState, q *queryState) bool {
	return q.channel == ch.definition.ChannelKey && d.Epoch == q.epoch && d.Nominal <= q.nominal && d.Capacity <= q.capacity
}

// checkApproval refuses a decision about an item that is not there, and one that
// lets something other through than the item's kind allows.
func (s *State) checkApproval(d *bcp.Decision, ch *channelState) bool {
	if d.Verdict != bcp.Accept {
		return d.Verdict == bcp.Reject && d.Delivery == "" && d.Notice == ""
	}
	it := s.items[d.Item]
	if it == nil || it.Channel() != ch.definition.ChannelKey || it.Query != d.Query {
		return false
	}
	q := s.queries[d.Query]
	switch {
	case it.Kind == bcp.ItemProposal || it.Kind == bcp.ItemHanded:
		return d.Notice == "" && d.Delivery == "" && d.Release == 0
	case it.Query == "":
		return d.Notice != ""
	case q == nil || q.item != d.Item || !s.charges(d, ch, q):
		return false
	case it.Kind == bcp.ItemEscalation:
		return q.phase == phaseGate && (d.Delivery == "") == (d.Outcome == "") && d.Notice == ""
	default:
		return q.phase == phaseHeld && d.Prepaid && d.Delivery != "" && d.Notice != ""
	}
}
