package state

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// DecidePanic records that the program made a mistake over a message of an agent or a
// person, with the message, of which nothing is read. The channel is the zero one where
// the message names none, and the agent [bcp.Gateway] if there was no message.
func (s *State) DecidePanic(m bcp.Moment, agent bcp.AgentName, role bcp.Role, channel bcp.ChannelKey, message []byte) bcp.Decision {
	d := s.DecideAlert(m, bcp.AlertPanic)
	if d.Agent, d.Role = agent, role; agent == "" {
		d.Agent = bcp.Gateway
	}
	if ch := s.channels[channel]; ch != nil {
		d.Controller, d.Reader, d.Epoch = channel.Controller, channel.Reader, ch.newest()
		d.Balance = ch.pool(d.Epoch)
	}
	if d.RawBytes = len(message); d.RawBytes > 0 {
		d.RawCommitment = d.Commit(message)
	}
	return d
}

// alert is one that DecideDue has to record.
type alert struct {
	channel bcp.ChannelKey
	kind    bcp.AlertKind
	epoch   uint64 // in which it was raised; another may begin before it is recorded
	suspect bcp.Seen
}

// see counts what a decision says of agents, and makes an alert due if that is too much.
func (s *State) see(d *bcp.Decision, all []bcp.Seen) {
	for _, seen := range all {
		if n := s.watch.See(d.Time, seen); n > 0 {
			s.alerts = append(s.alerts, alert{kind: bcp.AlertSuspect, suspect: bcp.Seen{Agent: seen.Agent, Rule: seen.Rule, Count: n}})
		}
	}
}

// applySuspect applies an alert about an agent, or that its suspension is lifted.
func (s *State) applySuspect(d *bcp.Decision) {
	switch bcp.AlertKind(d.Event) {
	case bcp.AlertSuspect:
		seen := bcp.Seen{Agent: d.Agent, Rule: d.Rule, Count: d.Count}
		if i := slices.IndexFunc(s.alerts, func(a alert) bool { return a.suspect == seen }); i >= 0 {
			s.alerts = slices.Delete(s.alerts, i, i+1)
		}
		if d.Suspends {
			s.suspended[d.Agent] = true
		}
	case bcp.AlertLifted:
		delete(s.suspended, d.Target)
		s.watch.Lift(d.Target)
	}
}

// Suspended reports whether nothing is taken from an agent, as Controller, Reader,
// requester, planner or tool, until the operator lifts it.
func (s *State) Suspended(agent bcp.AgentName) bool { return s.suspended[agent] }

// AnySuspended reports whether some agent is suspended.
func (s *State) AnySuspended() bool { return len(s.suspended) > 0 }

// raise makes an alert due, unless it is, or not due.
func (s *State) raise(ch *channelState, kind bcp.AlertKind, due bool) {
	switch queued := s.queued(ch, kind); {
	case due && queued < 0:
		s.alerts = append(s.alerts, alert{channel: ch.definition.ChannelKey, kind: kind, epoch: ch.newest()})
	case !due && queued >= 0:
		s.alerts = slices.Delete(s.alerts, queued, queued+1)
	}
}

// queued is the place of a channel's alert that is due, or -1.
func (s *State) queued(ch *channelState, kind bcp.AlertKind) int {
	return slices.IndexFunc(s.alerts, func(a alert) bool { return a.channel == ch.definition.ChannelKey && a.kind == kind })
}

func (s *State) applyAlert(d *bcp.Decision, ch *channelState) {
	kind := bcp.AlertKind(d.Event)
	switch kind {
	case bcp.AlertThreshold:
		ch.alerted = d.Epoch
		s.noteThreshold(ch)
		return
	case bcp.AlertExhausted:
		ch.exhausted = d.Epoch
	case bcp.AlertSpending:
		ch.spending.alerted = true
	}
	s.raise(ch, kind, false)
}

// noteExhausted looks at a refusal.
func (s *State) noteExhausted(d *bcp.Decision, ch *channelState) {
	if d.Code == bcp.BudgetExhausted && ch.exhausted != ch.newest() {
		s.raise(ch, bcp.AlertExhausted, true)
	}
}

// spending compares a Controller's session with those before it.
type spending struct {
	session bcp.SessionID
	spent   bcp.Bits
	alerted bool
	past    []bcp.Bits // of sessions before that spent anything, newest last
}

const (
	// medianOf is how many sessions the median is taken of, and leastSessions
	// how many there have to be.
	medianOf      = 31
	leastSessions = 3
	// farAbove is how many times the median is worth an alert.
	farAbove = 10
)

// noteSpending looks at a channel after a charge.
func (s *State) noteSpending(ch *channelState, settled bcp.Bits) {
	s.noteThreshold(ch)
	w := &ch.spending
	if id := ch.controller.session.id; id != w.session {
		if w.spent > 0 {
			w.past = append(w.past, w.spent)
			w.past = w.past[max(0, len(w.past)-medianOf):]
		}
		w.session, w.spent, w.alerted = id, 0, false
	}
	w.spent += max(0, settled)
	s.raise(ch, bcp.AlertSpending, !w.alerted && w.far())
}

// noteThreshold keeps crossed, which is not saved: it follows from the pools and the
// definitions of today.
func (s *State) noteThreshold(ch *channelState) {
	limit := ch.definition.AlertBits
	due := limit > 0 && ch.alerted != ch.newest() && ch.pool(ch.newest()).Spent() >= limit
	at, crossed := slices.BinarySearchFunc(s.crossed, ch.definition.ChannelKey, bcp.ChannelKey.Compare)
	switch {
	case due && !crossed:
		s.crossed = slices.Insert(s.crossed, at, ch.definition.ChannelKey)
	case !due && crossed:
		s.crossed = slices.Delete(s.crossed, at, at+1)
	}
}

// far reports whether the session took more than farAbove times the median.
func (w *spending) far() bool {
	if len(w.past) < leastSessions {
		return false
	}
	sorted := slices.Sorted(slices.Values(w.past))
	return w.spent > farAbove*sorted[len(sorted)/2]
}

// DecideAlert records an alert that is about the mesh and no channel.
func (s *State) DecideAlert(m bcp.Moment, kind bcp.AlertKind) bcp.Decision {
	d := s.next(m, bcp.KindAlert)
	d.Agent, d.Event = bcp.Gateway, string(kind)
	return d
}

// DecideCredential records what was done with keys or credentials. Who joined did
// it itself; the rest is the operator's.
func (s *State) DecideCredential(m bcp.Moment, act bcp.CredentialAct, agent bcp.AgentName, key string, c bcp.CredentialChange) bcp.Decision {
	d := s.next(m, bcp.KindCredential)
	d.Agent, d.Role, d.Event, d.Target, d.Key, d.Credential = bcp.Operator, bcp.RoleOperator, string(act), agent, key, &c
	if act == bcp.CredentialJoined || act == bcp.CredentialRefused {
		d.Agent, d.Role = agent, c.Role
	}
	return d
}
