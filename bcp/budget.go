package bcp

import "time"

// A channel's pool of bits: epochs, the sliding window, and what a charge must
// fit into (PROTOCOL P4).

// sessionOf tells which session an act of a Controller, or a delivery to it,
// belongs to. It is the argument why a Reader cannot renew its own budget: only
// an act of the Controller sets renews, and none within idle_timeout of the
// end of a session that a delivery began.
func (s *State) sessionOf(d *Decision, m Moment, controller AgentName, byDelivery bool) {
	a := s.agents[controller]
	idle := int64(s.mesh.IdleTimeout)
	last := a.session
	if last.begun && !last.closed && d.Time-last.touched < idle {
		d.Session = last.id
		return
	}
	d.Session, d.SessionBegins, d.SessionByDelivery = m.session(), true, byDelivery
	provoked, ended := last.provokedUntil(idle)
	d.SessionRenews = !byDelivery && !(provoked && d.Time-ended < idle)
}

// provokedUntil returns the end of the last session that a delivery began,
// looking through the sessions since that renewed nothing: opening and closing
// twice is no way around it.
func (last *sessionState) provokedUntil(idle int64) (provoked bool, ended int64) {
	if !last.begun || !last.byDelivery {
		return last.provoked, last.provokedEnd
	}
	if last.closed {
		return true, last.touched
	}
	return true, last.touched + idle
}

// epochOf tells which epoch a charge of this decision belongs to.
func (s *State) epochOf(d *Decision, ch *channelState) uint64 {
	renewals := s.agents[ch.definition.Controller].renewals
	if d.SessionRenews {
		renewals++
	}
	renew := int64(ch.definition.BudgetRenew)
	fresh := ch.started == 0 // nothing was charged: the epoch is as good as new
	if !fresh && (renewals != ch.renewal || renew > 0 && d.Time-ch.started >= renew) {
		return ch.epoch + 1
	}
	return ch.epoch
}

// pool returns what an epoch holds; one that is not opened yet holds nothing.
func (ch *channelState) pool(epoch uint64) Balance {
	if p := ch.pools[epoch]; p != nil {
		return p.Balance
	}
	return Balance{}
}

// limit is one of the budgets that a charge must fit into.
type limit struct {
	check    Check
	limit    Bits
	left     Bits
	capacity bool // of capacity bits; nominal ones otherwise
}

// price is the part of a charge that the limit counts.
func (l *limit) price(nominal, capacity Bits) Bits {
	if l.capacity {
		return capacity
	}
	return nominal
}

// limits are the budgets of a charge of this decision, in the order in which
// they are looked at.
func (s *State) limits(d *Decision, ch *channelState) (limits [5]limit, n int) {
	c, b := &ch.definition, ch.pool(d.Epoch)
	add := func(check Check, most, used Bits, capacity bool) {
		limits[n] = limit{check, most, most - used, capacity}
		n++
	}
	add(CheckBudget, c.Budget, b.Spent(), false)
	if d.Kind == KindPush {
		add(CheckPushBudget, c.PushBudget, b.Pushed, false)
	}
	if c.CapacityBudget > 0 {
		add(CheckCapacityBudget, c.CapacityBudget, b.SpentCapacity(), true)
	}
	if c.WindowBudget > 0 {
		add(CheckWindowBudget, c.WindowBudget, ch.window.sum(d.Time)+ch.reserved(), false)
	}
	if total := s.agents[c.Controller].definition.TotalBudget; total > 0 {
		add(CheckTotalBudget, total, s.spentBy(d, c.Controller), false)
	}
	return limits, n
}

// fits reports whether the channel's budgets have room for a charge in the
// decision's epoch, and which of them has none.
func (s *State) fits(d *Decision, ch *channelState, nominal, capacity Bits) (tight limit, ok bool) {
	limits, n := s.limits(d, ch)
	for _, l := range limits[:n] {
		if l.price(nominal, capacity) > l.left {
			return l, false
		}
	}
	return limit{}, true
}

// reserved is what open queries of all epochs hold.
func (ch *channelState) reserved() Bits {
	var sum Bits
	for _, p := range ch.pools {
		sum += p.Reserved
	}
	return sum
}

// spentBy sums the epochs of a Controller's channels that a charge of this
// decision would belong to: one that is due to be renewed counts no more.
func (s *State) spentBy(d *Decision, controller AgentName) Bits {
	var sum Bits
	for key, ch := range s.channels {
		if key.Controller == controller {
			sum += ch.pool(s.epochOf(d, ch)).Spent()
		}
	}
	return sum
}

// slidingWindow sums charges over a span of journal time in windowParts parts.
// A part is forgotten as a whole and never early, so the sum is never low.
type slidingWindow struct {
	span  int64
	parts []windowPart // oldest first
}

type windowPart struct {
	begin int64
	sum   Bits
}

const windowParts = 64

func (w *slidingWindow) width() int64 { return max(1, w.span/windowParts) }

func (w *slidingWindow) sum(now int64) Bits {
	var sum Bits
	for _, p := range w.parts {
		if p.begin+w.width()+w.span > now {
			sum += p.sum
		}
	}
	return sum
}

func (w *slidingWindow) add(now int64, b Bits) {
	if w.span <= 0 || b == 0 {
		return
	}
	for len(w.parts) > 0 && w.parts[0].begin+w.width()+w.span <= now {
		w.parts = w.parts[1:]
	}
	begin := now - now%w.width()
	if n := len(w.parts); n > 0 && w.parts[n-1].begin == begin {
		w.parts[n-1].sum += b
		return
	}
	w.parts = append(w.parts, windowPart{begin: begin, sum: b})
}

// Window adds up what a channel's lines settled within a span of journal time,
// as its budget does. It is not safe for concurrent use.
type Window struct{ sliding slidingWindow }

// NewWindow returns the window of a budget_window.
func NewWindow(span time.Duration) *Window { return &Window{slidingWindow{span: int64(span)}} }

// Reach is how far back a line can still count.
func (w *Window) Reach() time.Duration { return time.Duration(w.sliding.span + w.sliding.width()) }

// Add counts a line of the ledger. Lines come in order.
func (w *Window) Add(l *LedgerLine) {
	if l.Kind != KindAsk { // which only reserves
		w.sliding.add(l.Time.UnixNano(), l.Nominal)
	}
}

// Sum is what counts at a time.
func (w *Window) Sum(at time.Time) Bits { return w.sliding.sum(at.UnixNano()) }
