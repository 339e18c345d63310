package state

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Outgoing is a delivery that its Controller has not acknowledged.
type Outgoing struct {
	bcp.Delivery
	Controller bcp.AgentName
	Seq        uint64    // of its decision
	Release    time.Time // not before
	since      int64     // when it was decided
	order      uint64    // canonical place within a release slot
}

// before reports whether a delivery goes out before one that was there first.
func (out *Outgoing) before(other *Outgoing) bool {
	if c := out.Release.Compare(other.Release); c != 0 {
		return c < 0
	}
	if c := cmp.Compare(out.order, other.order); c != 0 {
		return c < 0
	}
	return cmp.Or(bytes.Compare(out.Response, other.Response), slices.Compare(out.Anomalies, other.Anomalies)) < 0
}

// Outbox returns the deliveries of a channel that are not acknowledged, in
// release order. The caller must not change them.
func (s *State) Outbox(key bcp.ChannelKey) []Outgoing {
	if ch := s.channels[key]; ch != nil {
		return ch.outbox
	}
	return nil
}

// acknowledged takes a delivery out of the outbox. It is one of the first, since
// no others are on their way: moving those before it costs less than moving all
// after it.
func (ch *channelState) acknowledged(id bcp.DeliveryID) {
	i := ch.posted(id)
	if i < 0 {
		return
	}
	ch.count(&ch.outbox[i], -1)
	copy(ch.outbox[1:i+1], ch.outbox[:i])
	ch.outbox[0] = Outgoing{}
	ch.outbox = ch.outbox[1:]
}

// count counts what the outbox has of queries.
func (ch *channelState) count(out *Outgoing, n int) {
	switch {
	case out.QueryID == "":
	case out.Outcome == bcp.Held:
		ch.holds += n
	default:
		ch.ends += n
	}
}

// posted returns the place of a delivery in the outbox, -1 where it is not there.
func (ch *channelState) posted(id bcp.DeliveryID) int {
	for i := range ch.outbox {
		if ch.outbox[i].DeliveryID == id {
			return i
		}
	}
	return -1
}

// queries is how many queries the channel has whose end the Controller has not
// acknowledged. It is the Controller's own acts that change it.
func (ch *channelState) queries() int {
	n := ch.ends
	for _, p := range ch.pools {
		n += p.open + p.held
	}
	return n
}

// gathered is how many deliveries of pushes wait: in the outbox, or for the end of a
// window.
func (ch *channelState) gathered() int {
	n := len(ch.outbox) - ch.ends - ch.holds
	for _, p := range ch.pushes {
		n += len(p.batches)
	}
	return n
}

// dropOutbox forgets deliveries that were decided before: of a channel that is not past
// there are none.
func (s *State) dropOutbox(ch *channelState, before int64) {
	ch.outbox = slices.DeleteFunc(ch.outbox, func(out Outgoing) bool {
		gone := out.since < before
		if gone {
			ch.count(&out, -1)
			delete(s.waiting, out.DeliveryID)
		}
		return gone
	})
}
