package state

import (
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What a charge must fit into (PROTOCOL P4).

// limit is one of the budgets that a charge must fit into.
type limit struct {
	check    bcp.Check
	limit    bcp.Bits
	left     bcp.Bits // an ask is refused beyond it, and a push
	funds    bcp.Bits // what there is to reserve for an ask; no less than left but where pushes of this slot took some
	capacity bool     // of capacity bits; nominal ones otherwise
}

// price is the part of a charge that the limit counts.
func (l *limit) price(nominal, capacity bcp.Bits) bcp.Bits {
	if l.capacity {
		return capacity
	}
	return nominal
}

// limits are the budgets of a charge of this decision, in the order in which
// they are looked at.
func (s *State) limits(d *bcp.Decision, ch *channelState) (limits []limit) {
	c, push := &ch.definition, d.Kind == bcp.KindPush
	add := func(check bcp.Check, most bcp.Bits, u usage, capacity bool) {
		l := limit{check: check, limit: most, left: most - u.seen(), funds: most - u.taken(), capacity: capacity}
		if push {
			l.left = l.funds
		}
		limits = append(limits, l)
	}
	add(bcp.CheckBudget, c.Budget, ch.spent(d.Epoch, d.Time), false)
	if push {
		add(bcp.CheckPushBudget, c.PushBudget, usage{used: ch.pool(d.Epoch).Pushed}, false)
	}
	if c.CapacityBudget > 0 {
		add(bcp.CheckCapacityBudget, c.CapacityBudget, ch.spentCapacity(d.Epoch, d.Time), true)
	}
	if c.WindowBudget > 0 {
		add(bcp.CheckWindowBudget, c.WindowBudget, ch.windowed(d.Time), false)
	}
	if a := s.agents[c.Controller]; a.definition.TotalBudget > 0 && push {
		add(bcp.CheckTotalBudget, ch.pushTotal, usage{used: ch.pool(d.Epoch).Pushed}, false)
	} else if a.definition.TotalBudget > 0 {
		add(bcp.CheckTotalBudget, a.askTotal, usage{used: s.askedBy(d, a)}, false)
	}
	return limits
}

// fits reports whether the channel's budgets have room for a charge in the
// decision's epoch, and which of them has none.
func (s *State) fits(d *bcp.Decision, ch *channelState, nominal, capacity bcp.Bits) (tight limit, ok bool) {
	for _, l := range s.limits(d, ch) {
		if l.price(nominal, capacity) > l.left {
			return l, false
		}
	}
	return limit{}, true
}

// funded reports whether there is enough to reserve for an ask that fits, and which
// budget pushes of this slot have taken too much of.
func (s *State) funded(d *bcp.Decision, ch *channelState) (tight limit, ok bool) {
	for _, l := range s.limits(d, ch) {
		if l.price(d.Nominal, d.Capacity) > l.funds {
			return l, false
		}
	}
	return limit{}, true
}

// reserved is what open queries of all epochs hold.
func (ch *channelState) reserved() bcp.Bits {
	var sum bcp.Bits
	for _, p := range ch.pools {
		sum += p.Reserved
	}
	return sum
}

// askedBy sums what asks took of the epochs of a Controller's channels that a charge
// of this decision would belong to: one that is due to be renewed counts no more.
func (s *State) askedBy(d *bcp.Decision, a *agentState) bcp.Bits {
	var sum bcp.Bits
	for _, ch := range a.asks {
		sum += ch.asked(ch.decisionEpoch(d), d.Time)
	}
	return sum
}

// slidingWindow sums charges over a span of journal time in windowParts parts.
// A part is forgotten as a whole and never early, so the sum is never low.
type slidingWindow struct {
	span     int64
	recorded bool         // by a charge; else the span is of the definitions
	parts    []windowPart // oldest first
}

type windowPart struct {
	begin int64
	sum   bcp.Bits
}

const windowParts = 64

func (w *slidingWindow) width() int64 { return max(1, w.span/windowParts) }

func (w *slidingWindow) sum(now int64) bcp.Bits {
	var sum bcp.Bits
	for _, p := range w.parts {
		if p.begin+w.width()+w.span > now {
			sum += p.sum
		}
	}
	return sum
}

// over returns the window over another span. What a part holds was charged at its end at
// the latest; what a longer span would still count is forgotten.
func (w *slidingWindow) over(span int64) *slidingWindow {
	if span == w.span {
		return w
	}
	other := &slidingWindow{span: span, parts: slices.Clone(w.parts)}
	for i := range other.parts {
		other.parts[i].begin += w.width()
	}
	return other
}

// add counts bits that were settled now, as of a time that is not before.
func (w *slidingWindow) add(now, at int64, b bcp.Bits) {
	if w.span <= 0 || b == 0 {
		return
	}
	for len(w.parts) > 0 && w.parts[0].begin+w.width()+w.span <= now {
		w.parts = w.parts[1:]
	}
	begin := at - at%w.width()
	if n := len(w.parts); n > 0 && w.parts[n-1].begin == begin {
		w.parts[n-1].sum += b
		return
	}
	w.parts = append(w.parts, windowPart{begin: begin, sum: b})
}

// Window adds up what a channel's lines settled within a span of journal time,
// as its budget does. It is not safe for concurrent use.
type Window struct {
	sliding slidingWindow
	channel channelState // for its slots
}

// NewWindow returns the window of a channel's budget_window.
func NewWindow(c *bcp.Channel) *Window {
	return &Window{slidingWindow{span: int64(c.BudgetWindow), recorded: true}, channelState{definition: bcp.Channel{ReleaseInterval: c.ReleaseInterval}}}
}

// Reach is how far back a line can still count.
func (w *Window) Reach() time.Duration { return time.Duration(w.sliding.span + w.sliding.width()) }

// Add counts a line of the ledger. Lines come in order.
func (w *Window) Add(l *bcp.LedgerLine) {
	if l.Kind != bcp.KindAsk { // which only reserves
		now := l.Time.UnixNano()
		w.sliding.add(now, w.channel.slot(now), l.Nominal)
	}
}

// Sum is what counts at a time.
func (w *Window) Sum(at time.Time) bcp.Bits { return w.sliding.sum(at.UnixNano()) }
