package state

import (
	"cmp"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// PushCount is what became of the pushes of one subscription (PROTOCOL P12.5).
type PushCount struct {
	Controller   bcp.AgentName      `json:"controller"`
	Reader       bcp.AgentName      `json:"reader"`
	Subscription bcp.SubscriptionID `json:"subscription_id"`
	Accepted     int                `json:"accepted"`
	Held         int                `json:"held"`
	Filtered     int                `json:"filtered"`     // by publish_when
	RateLimited  int                `json:"rate_limited"` // by max_rate, or by a full window
	Invalid      int                `json:"invalid"`      // whose message or answer was not one of the spec
	Refused      int                `json:"refused"`      // for want of budget, room or a Controller
	Windows      int                `json:"windows"`      // that ended with a delivery
	Nominal      bcp.Bits           `json:"nominal_bits"`
	Capacity     bcp.Bits           `json:"capacity_bits"`
	Last         time.Time          `json:"last,omitzero"` // that was accepted or held
}

// Pushes is how many there were.
func (c *PushCount) Pushes() int {
	return c.Accepted + c.Held + c.Filtered + c.RateLimited + c.Invalid + c.Refused
}

// InvalidPercent is how many in a hundred were invalid, rounded down; 0 of none.
func (c *PushCount) InvalidPercent() int {
	return c.Invalid * 100 / max(1, c.Pushes())
}

// PushCounts counts pushes by subscription. The zero value has counted none.
type PushCounts struct {
	counts map[pushKey]*PushCount
}

type pushKey struct {
	bcp.ChannelKey
	id bcp.SubscriptionID
}

// Declare has a channel's subscriptions among the counts, also without a push.
func (c *PushCounts) Declare(ch *bcp.Channel) {
	for _, sub := range ch.Subscriptions {
		c.findCount(ch.ChannelKey, sub.ID)
	}
}

func (c *PushCounts) findCount(key bcp.ChannelKey, id bcp.SubscriptionID) *PushCount {
	if c.counts == nil {
		c.counts = make(map[pushKey]*PushCount)
	}
	at := pushKey{key, id}
	if c.counts[at] == nil {
		c.counts[at] = &PushCount{Controller: key.Controller, Reader: key.Reader, Subscription: id}
	}
	return c.counts[at]
}

// Add counts a decision, as the journal or the audit has it, if it is about a
// push. Repeats are not counted, nor is a push that no subscription was there for.
func (c *PushCounts) Add(d *bcp.Decision) {
	key, ok := d.Channel()
	if !ok || d.Subscription == "" || d.Repeat || d.Code == bcp.SubscriptionNotFound {
		return
	}
	switch d.Kind {
	case bcp.KindBatch:
		c.findCount(key, d.Subscription).Windows++
		return
	case bcp.KindRefusals:
		c.findCount(key, d.Subscription).RateLimited += max(1, d.Count)
		return
	case bcp.KindPush:
	default:
		return
	}
	count := c.findCount(key, d.Subscription)
	switch {
	case d.Verdict == bcp.Accept, d.Verdict == bcp.Hold:
		if d.Verdict == bcp.Accept {
			count.Accepted++
		} else {
			count.Held++
		}
		count.Nominal, count.Capacity, count.Last = count.Nominal+d.Nominal, count.Capacity+d.Capacity, d.At()
	case d.Code == bcp.Filtered:
		count.Filtered++
	case d.Code == bcp.ValidationFailed, d.Code == bcp.Malformed, d.Code == bcp.MessageTooLarge:
		count.Invalid++
	default:
		count.Refused++
	}
}

// List returns the counts, sorted by channel and subscription.
func (c *PushCounts) List() []PushCount {
	list := make([]PushCount, 0, len(c.counts))
	for _, count := range c.counts {
		list = append(list, *count)
	}
	slices.SortFunc(list, func(a, b PushCount) int {
		return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Reader, b.Reader), cmp.Compare(a.Subscription, b.Subscription))
	})
	return list
}
