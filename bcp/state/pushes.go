package state

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// pushState is what a channel remembers of the pushes of one subscription.
type pushState struct {
	rate   bcp.Rate `msgpack:"-"` // of the definitions, like window
	window int64    `msgpack:"-"` // whose pushes are one delivery; 0 for none
	times  []int64  // of the newest that were accepted, as many as any rate counts

	released int64 // release of the last one
	before   int64 // the last one before that slot

	batches []batch // what waits for the end of its window, the next end first
}

// findPushes returns what is remembered of a subscription; one that the definitions
// do not have any more has its history all the same.
func (ch *channelState) findPushes(id bcp.SubscriptionID) *pushState {
	p := ch.pushes[id]
	if p == nil {
		p = &pushState{}
		ch.pushes[id] = p
	}
	return p
}

// empty reports whether there is nothing to remember.
func (p *pushState) empty() bool { return len(p.times) == 0 && p.released == 0 && len(p.batches) == 0 }

// notePush remembers a push that was accepted or held.
func (ch *channelState) notePush(d *bcp.Decision) {
	p := ch.findPushes(d.Subscription)
	p.times = append(p.times, d.Time)
	for len(p.times) > bcp.MaxRateCount || d.Time-p.times[0] >= int64(bcp.MaxRateSpan) {
		p.times = p.times[1:]
	}
	if d.Verdict != bcp.Accept {
		return // a held push is no delivery
	}
	if d.Release > p.released {
		p.before, p.released = p.released, d.Release
	}
}

// next is the time from which the rate has room for a push.
func (p *pushState) next() int64 {
	if p.rate.Count == 0 || len(p.times) < p.rate.Count {
		return 0
	}
	return p.times[len(p.times)-p.rate.Count] + int64(p.rate.Span)
}

// RetryAfter is how long a Reader that hears rate_limited has to wait: for the
// next minute where it used up its refusals, until the subscription's max_rate has
// room, or until its window ends, which has as much as it takes. It is 0 where
// nothing of that stands against a push.
func (s *State) RetryAfter(now time.Time, reader, controller bcp.AgentName, id bcp.SubscriptionID) time.Duration {
	at := max(s.last.Time, now.UnixNano())
	until := at
	if s.limited(reader, at) {
		until = at - at%int64(time.Minute) + int64(time.Minute)
	}
	if ch := s.channels[bcp.ChannelKey{Controller: controller, Reader: reader}]; ch != nil {
		if p := ch.pushes[id]; p != nil {
			until = max(until, p.next())
			if p.crowded(until) {
				until = p.end(until)
			}
		}
	}
	return time.Duration(until - at)
}

// slotsSince counts the release slots since the subscription's last push, or since
// the journal began at origin. Pushes of one slot are all counted from an earlier
// one, or their prices would tell which came first. Other deliveries do not count:
// CAPACITY.md says why they must not. A window's pushes are in the slot of its end,
// and the earlier one is the first in which a push of the last window could have
// come by itself: no push costs less than it would alone.
func (ch *channelState) slotsSince(p *pushState, now, origin int64) uint64 {
	interval := int64(ch.definition.ReleaseInterval)
	if interval <= 0 || origin == 0 {
		return 1
	}
	slot, since := ch.slot(now), p.released
	if p.window > 0 {
		slot = p.end(now)
	}
	if since >= slot {
		since = p.before
	}
	if since == 0 || since >= slot {
		since = ch.slot(origin)
	} else if p.window > 0 {
		since = max(since-p.window+interval, ch.slot(origin))
	}
	return uint64(max(1, (slot-since)/interval+1))
}
