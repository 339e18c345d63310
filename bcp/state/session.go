package state

import (
	"cmp"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A Controller's session (PROTOCOL P9.2). It changes by the Controller's own acts
// at once, and by a delivery when that is released: nothing that the Controller
// can ask before tells it that something waits.

// sessionState is a Controller's newest session.
type sessionState struct {
	id         bcp.SessionID
	begun      bool // there is one, perhaps idle by now
	byDelivery bool
	closed     bool
	since      int64
	touched    int64 // last activity, or the end of a closed one
	// provoked says that a session which a delivery began ended at provokedEnd,
	// and that none since has renewed anything.
	provoked    bool
	provokedEnd int64
	exposure    bcp.Taint
	quotes      quotations    // what was delivered, against justifications that quote
	releases    []bcp.Release // the newest deliveries, for approvers
}

// arrival is a delivery that is not released yet.
type arrival struct {
	at       int64 // its release
	delivery bcp.DeliveryID
	session  bcp.SessionID // which it was decided to be in
	// late says that it belongs to a session that its Controller closed: it
	// begins none, and keeps none open.
	late     bool
	exposure bcp.Taint
	told     bcp.Bits // what it can tell: capacity
	full     bcp.Bits // the same for who has forgotten that it was held
	release  bcp.Release
	runs     [][8]byte // what quotations of it are known by
}

// openAt reports whether the session is open at a time.
func (session *sessionState) openAt(now, idle int64) bool {
	return session.begun && !session.closed && now-session.touched < idle
}

// begin replaces the session by a new one.
func (session *sessionState) begin(id bcp.SessionID, now, idle int64, byDelivery, renews bool) {
	next := sessionState{id: id, begun: true, byDelivery: byDelivery, since: now, touched: now, exposure: bcp.TaintLow, quotes: quotations{}}
	if !renews {
		next.provoked, next.provokedEnd = session.provokedUntil(idle)
	}
	*session = next
}

// provokedUntil returns the end of the last session that a delivery began,
// looking through the sessions since that renewed nothing: opening and closing
// twice is no way around it.
func (session *sessionState) provokedUntil(idle int64) (provoked bool, ended int64) {
	if !session.begun || !session.byDelivery {
		return session.provoked, session.provokedEnd
	}
	if session.closed {
		return true, session.touched
	}
	return true, session.touched + idle
}

// arrive has a delivery reach the session: the one that it was decided to be in, also
// where that would have ended before under a shorter idle_timeout of today, or the
// one that is open.
func (session *sessionState) arrive(a *arrival, idle int64) {
	switch {
	case a.late:
	case session.id == a.session && session.begun && !session.closed, session.openAt(a.at, idle):
		session.touched = max(session.touched, a.at)
	default:
		session.begin(sessionBegunBy(a.delivery), a.at, idle, true, false)
	}
	session.exposure = bcp.MaxTaint(session.exposure, a.exposure)
	if !a.late {
		session.addRelease(a.release)
	}
}

// maxReleases is how many deliveries of a session an approver is shown, and
// maxReleaseBytes how much content of them together: a view has to fit a message,
// whatever a Reader delivered before.
const (
	maxReleases     = 16
	maxReleaseBytes = 256 << 10
)

// addRelease keeps a delivery for the approvers of the session.
func (session *sessionState) addRelease(r bcp.Release) {
	// What was handed out before is not written to: what is appended lies
	// after it.
	session.releases = append(session.releases[max(0, len(session.releases)-maxReleases+1):], r)
}

// earlierReleases are the newest deliveries of the session, with those that are not
// released yet: an instruction may come in parts.
func (a *agentState) earlierReleases() []bcp.Release {
	session := sessionState{releases: slices.Clip(a.session.releases)}
	for i := range a.arrivals {
		session.addRelease(a.arrivals[i].release)
	}
	return session.releases
}

// sessionAt is an agent's session at a time, with what is released by then.
func (s *State) sessionAt(a *agentState, now int64) sessionState {
	session := a.session
	for i := range a.arrivals {
		if a.arrivals[i].at > now {
			break
		}
		session.releases = slices.Clip(session.releases)
		session.arrive(&a.arrivals[i], s.idleTimeout())
	}
	return session
}

// setSession tells which session an act of a Controller belongs to, or a delivery
// to it once it is released. It is the argument why a Reader cannot renew its own
// budget: only an act of the Controller sets renews, and none within idle_timeout
// of the end of a session that a delivery began.
func (s *State) setSession(d *bcp.Decision, m bcp.Moment, controller bcp.AgentName, byDelivery bool) {
	now, idle := d.Time, int64(s.mesh.IdleTimeout)
	if byDelivery {
		now = max(now, d.Release)
	}
	last := s.sessionAt(s.allAgents[controller], now)
	if last.openAt(now, idle) {
		d.Session = last.id
		return
	}
	d.Session, d.SessionBegins, d.SessionByDelivery = newSessionID(m), true, byDelivery
	provoked, ended := last.provokedUntil(idle)
	d.SessionRenews = !byDelivery && !(provoked && now-ended < idle)
}

// exposureIn is that of the decision's session so far.
func (s *State) exposureIn(d *bcp.Decision) bcp.Taint {
	if session := s.sessionAt(s.allAgents[d.Controller], max(d.Time, d.Release)); session.id == d.Session {
		return session.exposure
	}
	return bcp.TaintLow
}

// quotes reports whether a text quotes what was delivered in the session.
func (s *State) quotes(a *agentState, session *sessionState, text string, now int64) bool {
	if session.id == a.session.id && session.quotes.quotesReleased(text, now) {
		return true
	}
	arrived := quotations{}
	for i := range a.arrivals {
		r := &a.arrivals[i]
		if r.at > now {
			break
		}
		if r.at >= session.since {
			arrived.add(r.runs, r.at)
		}
	}
	return arrived.quotesReleased(text, now)
}

// settleArrivals has the session know of what was released by now.
func (s *State) settleArrivals(a *agentState, now int64) {
	n := 0
	for ; n < len(a.arrivals) && a.arrivals[n].at <= now; n++ {
		r := &a.arrivals[n]
		a.hear(r, s.idleTimeout())
		if e := s.envelopes[r.delivery]; e != nil {
			e.session = a.session.id
		}
	}
	if n == len(a.arrivals) {
		a.arrivals = nil
	} else {
		a.arrivals = a.arrivals[n:]
	}
}

// hear has a delivery that is released reach the agent and its session. What it was told
// it may tell from then on, and not before: until then it does not know.
func (a *agentState) hear(r *arrival, idle int64) {
	a.session.arrive(r, idle)
	if a.session.begun {
		a.session.quotes.add(r.runs, r.at)
	}
	a.learn(r)
}

// learn counts what a delivery told.
func (a *agentState) learn(r *arrival) {
	a.exposure, a.told = bcp.MaxTaint(a.exposure, r.exposure), min(a.told+r.told, bcp.MaxBits*bcp.Bit)
	if r.exposure != bcp.TaintLow {
		a.told = max(a.told, bcp.Bit) // what taints tells something
	}
}

// forget has the agent begin anew, as it says that it does: with a cleared context it
// knows nothing of what it was told, unless that waits to be told again. What it was told
// is held, it has forgotten as well, so that what becomes of it counts whole from now on.
func (a *agentState) forget(now int64) {
	for _, channels := range [...][]*channelState{a.asks, a.pastAsks} {
		for _, ch := range channels {
			for i := range ch.outbox {
				if ch.outbox[i].Release.UnixNano() <= now {
					return
				}
			}
		}
	}
	a.told, a.forgot = 0, now
	for i := range a.arrivals {
		a.arrivals[i].told = a.arrivals[i].full
	}
}

// learnt is what the agent was exposed to and told by a time.
func (a *agentState) learnt(now int64) (exposure bcp.Taint, told bcp.Bits) {
	by := agentState{exposure: a.exposure, told: a.told}
	for i := range a.arrivals {
		if a.arrivals[i].at <= now {
			by.learn(&a.arrivals[i])
		}
	}
	return by.exposure, by.told
}

// tells is what the Controller is told by a delivery. That an answer is held, is a part of
// what the answer is charged, and so is what becomes of it.
func (a *agentState) tells(d *bcp.Decision) bcp.Bits {
	if a.forgot == 0 && d.Prepaid && d.Query != "" && d.Category != 3 {
		return 0
	}
	return d.Capacity
}

// applySession applies what a decision changes of its Controller's session.
func (s *State) applySession(d *bcp.Decision, runs [][8]byte) {
	a := s.allAgents[d.Controller]
	if a == nil {
		return
	}
	s.settleArrivals(a, d.Time)
	if d.Session == "" {
		return
	}
	if delivers(d) {
		s.expect(a, d, runs)
		return
	}
	if d.SessionRenews {
		a.renew(d.Time)
	}
	session, idle := &a.session, s.idleTimeout()
	if d.SessionBegins {
		session.begin(d.Session, d.Time, idle, d.SessionByDelivery, d.SessionRenews)
		if d.Kind == bcp.KindSession && d.Role == bcp.RoleController { // it said so, and did not only ask
			a.forget(d.Time)
		}
	}
	if session.id != d.Session || session.closed {
		return
	}
	if d.SessionEnds {
		session.closed = true
		session.touched = min(d.Time, session.touched+idle)
		s.cancel(d)
		return
	}
	session.touched = max(session.touched, d.Time, d.Release)
}

// expect keeps a delivery until its release, which may be now.
func (s *State) expect(a *agentState, d *bcp.Decision, runs [][8]byte) {
	idle := s.idleTimeout()
	r := arrival{at: max(d.Time, d.Release), delivery: d.Delivery, session: d.Session, exposure: d.Taint, told: a.tells(d), full: d.Capacity, runs: runs, release: bcp.Release{
		Reader: d.Reader, Query: d.Query, Subscription: d.Subscription, Category: d.Category, Outcome: d.Outcome, Nominal: d.Nominal, Time: d.At()}}
	if d.Outcome == "" {
		r.release.Content = d.Payload
	}
	if d.Outcome == bcp.Cancelled && !d.SessionBegins {
		then := s.sessionAt(a, r.at)
		r.late = then.id != d.Session || then.closed
	}
	if r.at <= d.Time {
		if d.SessionBegins {
			a.session.begin(d.Session, r.at, idle, true, false)
		}
		a.hear(&r, idle)
		return
	}
	at, _ := slices.BinarySearchFunc(a.arrivals, r.at, func(r arrival, at int64) int { return cmp.Or(cmp.Compare(r.at, at), -1) })
	a.arrivals = slices.Insert(a.arrivals, at, r)
}

// sessionBegunBy is the one that begins with a delivery, if one does: also where one is open
// when it is decided, since its Controller may close that before the release.
func sessionBegunBy(id bcp.DeliveryID) bcp.SessionID {
	return newSessionID(bcp.Moment{Fresh: string(id[1:])})
}

// delivers reports whether the Controller hears something of a Reader's by it.
// Which outcome a query has is the Reader's choice too; that an escalation is held
// is not.
func delivers(d *bcp.Decision) bool {
	return d.Delivery != "" && (d.Kind == bcp.KindAnswer || d.Kind == bcp.KindPush || d.Kind == bcp.KindExpire || d.Kind == bcp.KindApproval || d.Kind == bcp.KindBatch)
}

// quotableRuns returns the runs of words that a delivery brings.
func quotableRuns(d *bcp.Decision) [][8]byte {
	if !delivers(d) || d.Outcome != "" {
		return nil
	}
	return wordRuns(string(d.Payload))
}

// cancel marks the open queries of a session that its Controller closed
// (PROTOCOL P7.6); DecideDue ends them. An answer that waits for a person was
// given already, and stays.
func (s *State) cancel(d *bcp.Decision) {
	for id, q := range s.open {
		if q.channel.Controller == d.Controller && q.session == d.Session && q.reserves() && !q.cancelled {
			q.cancelled, q.deadline = true, min(q.deadline, d.Time)
			s.addTimer(timer{at: q.deadline, query: id})
		}
	}
}

func newQueryID(m bcp.Moment) bcp.QueryID       { return bcp.QueryID("q" + m.Fresh) }
func newDeliveryID(m bcp.Moment) bcp.DeliveryID { return bcp.DeliveryID("d" + m.Fresh) }
func newSessionID(m bcp.Moment) bcp.SessionID   { return bcp.SessionID("s" + m.Fresh) }
func newItemID(m bcp.Moment) bcp.ItemID         { return bcp.ItemID("i" + m.Fresh) }
func newNoticeID(m bcp.Moment) bcp.DeliveryID   { return bcp.DeliveryID("n" + m.Fresh) }

// idleTimeout is that of the newest start or reload. Records of programs that did not say
// it are read under that of today.
func (s *State) idleTimeout() int64 { return cmp.Or(s.idle, int64(s.mesh.IdleTimeout)) }
