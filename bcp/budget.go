package bcp

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

// fits reports whether the channel's budgets have room for a charge in the
// decision's epoch.
func (s *State) fits(d *Decision, ch *channelState, nominal, capacity Bits) bool {
	c, b := &ch.definition, ch.pool(d.Epoch)
	switch {
	case b.Spent()+nominal > c.Budget:
		return false
	case d.Kind == KindPush && b.Pushed+nominal > c.PushBudget:
		return false
	case c.CapacityBudget > 0 && b.SpentCapacity()+capacity > c.CapacityBudget:
		return false
	case c.WindowBudget > 0 && ch.window.sum(d.Time)+ch.reserved()+nominal > c.WindowBudget:
		return false
	}
	total := s.agents[c.Controller].definition.TotalBudget
	return total == 0 || s.spentBy(d, c.Controller)+nominal <= total
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
