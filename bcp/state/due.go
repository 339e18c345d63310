package state

import (
	"github.com/bcpmesh/bcpmesh/bcp"
)

// DecideDue returns what time alone decides now: an expired query or item, a
// window that ended, a query that its session's close cancelled, or an alert. It is false when
// nothing is due; apply what it returns and call it until then.
func (s *State) DecideDue(m bcp.Moment) (bcp.Decision, bool) {
	return s.DecideDueBut(m, func(Due) bool { return false })
}

// Due names one thing that time alone decides. Dues compare with ==.
type Due struct {
	timer timer
	alert alert
}

// ChannelDue returns the channel on which something is due, or the zero one: an alert, or
// a run of a schedule, lets nothing through on any.
func (s *State) ChannelDue(due Due) bcp.ChannelKey {
	t := due.timer
	switch {
	case t.item != "" && s.items[t.item] != nil:
		return s.items[t.item].Channel()
	case t.item == "" && t.query != "" && s.queries[t.query] != nil:
		return s.queries[t.query].channel
	}
	return t.channel
}

// DecideDueBut is DecideDue that passes over what it is told to: passOver is called with
// each thing just before it is decided. What is passed over, or cannot be decided, keeps
// nothing else from being decided.
func (s *State) DecideDueBut(m bcp.Moment, passOver func(Due) bool) (bcp.Decision, bool) {
	if now := s.now(m); len(s.deadline) > 0 && s.deadline[0].at <= now {
		if d, ok := s.expire(m, s.deadline[0], passOver); ok {
			return d, true
		}
		for _, t := range s.deadline.dueAfterFirst(now) {
			if d, ok := s.expire(m, t, passOver); ok {
				return d, true
			}
		}
	}
	for _, key := range s.crossed {
		a := alert{channel: key, kind: bcp.AlertThreshold, epoch: s.channels[key].newest()}
		if !passOver(Due{alert: a}) {
			return s.decideAlert(m, a), true
		}
	}
	for _, a := range s.alerts {
		if passOver(Due{alert: a}) {
			continue
		}
		if a.kind == bcp.AlertSuspect {
			d := s.DecideAlert(m, a.kind)
			d.Agent, d.Rule, d.Count, d.Suspends = a.suspect.Agent, a.suspect.Rule, a.suspect.Count, s.mesh.SuspendSuspects
			return d, true
		}
		return s.decideAlert(m, a), true
	}
	return bcp.Decision{}, false
}

func (s *State) decideAlert(m bcp.Moment, a alert) bcp.Decision {
	d := s.next(m, bcp.KindAlert)
	d.Event, d.Controller, d.Reader, d.Epoch, d.Balance = string(a.kind), a.channel.Controller, a.channel.Reader, a.epoch, s.allChannels[a.channel].pool(a.epoch)
	return d
}

// expire decides about the query or item that t was set for, if it still waits.
func (s *State) expire(m bcp.Moment, t timer, passOver func(Due) bool) (bcp.Decision, bool) {
	switch {
	case s.obsolete(t), passOver(Due{timer: t}):
		return bcp.Decision{}, false
	case t.cron > 0:
		return s.decidePrompt(m, &s.crons[t.cron-1])
	case t.subscription != "":
		return s.decideBatch(m, t)
	}
	d := s.next(m, bcp.KindExpire)
	if t.item != "" {
		it := s.items[t.item]
		ch := s.allChannels[it.Channel()]
		d.Item, d.Query, d.Subscription, d.Category = it.ID, it.Query, it.subscription, it.Category
		d.Controller, d.Reader, d.Epoch = it.Controller, it.Reader, ch.newest()
		q := s.queries[it.Query]
		if q != nil {
			d.Epoch = q.epoch
		}
		switch it.Kind {
		case bcp.ItemEscalation:
			s.fail(&d, m, ch, q, bcp.ApprovalExpired)
		case bcp.ItemProposal, bcp.ItemHanded:
			d.Balance = ch.pool(d.Epoch)
		default:
			s.settleItem(&d, m, it, bcp.ApprovalExpired)
		}
		return d, true
	}
	q := s.queries[t.query]
	ch := s.allChannels[q.channel]
	d.Query, d.Category, d.Controller, d.Reader, d.Epoch = t.query, q.category, q.channel.Controller, q.channel.Reader, q.epoch
	if q.unfunded {
		s.deliver(&d, m, ch, bcp.BudgetExhausted)
		d.Timing, d.Prepaid, d.Balance = ch.definition.ReleaseInterval > 0, true, ch.pool(d.Epoch)
		return d, true
	}
	outcome := bcp.Expired
	if q.isCancelled() {
		outcome, d.Item = bcp.Cancelled, q.item
		if q.validator != nil {
			// Its Controller closed the session: the delivery belongs to that one, and begins none.
			d.Session = q.session
		}
	}
	s.fail(&d, m, ch, q, outcome)
	return d, true
}
