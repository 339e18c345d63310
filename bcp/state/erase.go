package state

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// DecideErase judges an erasure. Where something would be needed of what it takes
// it is refused, and reasons say what, a line each.
func (s *State) DecideErase(m bcp.Moment, r bcp.EraseRequest) (d bcp.Decision, reasons []string) {
	d = s.next(m, bcp.KindErase)
	d.Agent, d.Role, d.Controller, d.Reader, d.Event = bcp.Operator, bcp.RoleOperator, r.Controller, r.Reader, bcp.ErasePayloads
	if r.Raw {
		d.Event = bcp.EraseAll
	}
	before, err := time.Parse(time.DateOnly, r.Before)
	for _, name := range []bcp.AgentName{r.Controller, r.Reader} {
		if _, bad := bcp.ParseAgentName(string(name)); bad != nil && r != (bcp.EraseRequest{Before: r.Before, Raw: r.Raw}) {
			err = bad
		}
	}
	if err != nil || before.Unix() < 0 {
		return refuse(d, bcp.CheckAct, bcp.Malformed), []string{"it needs a controller, a reader and a date such as 2026-03-15"}
	}
	if latest := d.At().Add(-clientMemory); before.After(latest) {
		return refuse(d, bcp.CheckAct, bcp.Malformed), []string{"request ids are remembered for a day: the date is " + latest.Format(time.DateOnly) + " at the latest"}
	}
	d.Before = before.UnixNano()
	if reasons = s.needed(&d); len(reasons) > 0 {
		return refuse(d, bcp.CheckErasure, bcp.Malformed), reasons
	}
	d.Verdict = bcp.Accept
	return d, nil
}

// needed says what an erasure would take that the mesh still needs, or that it would take
// nothing: whoever mistypes a channel is not told that it is erased.
func (s *State) needed(d *bcp.Decision) (reasons []string) {
	add := func(n int, what string) {
		if n > 0 {
			reasons = append(reasons, fmt.Sprintf("%d %s", n, what))
		}
	}
	key := bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader}
	if key != (bcp.ChannelKey{}) && s.allChannels[key] == nil {
		return []string{fmt.Sprintf("the definitions have no channel %s/%s, and nothing in the journal is of one: the controller is named first", key.Controller, key.Reader)}
	}
	open, remembered, held, waiting, gathered, last := 0, 0, 0, 0, 0, int64(0) // last: when the last of the remembered ended
	for _, q := range s.queries {
		switch {
		case q.channel != key || q.since >= d.Before:
		case q.phase == phaseEnded:
			remembered++
			last = max(last, q.ended)
		default:
			open++
		}
	}
	for _, it := range s.items {
		if it.Channel() == key && it.Since.UnixNano() < d.Before {
			held++
		}
	}
	for _, out := range s.Outbox(key) { // of a past channel nobody takes what waits
		if out.since < d.Before {
			waiting++
		}
	}
	if ch := s.allChannels[key]; ch != nil {
		for _, p := range ch.pushes {
			for i := range p.batches {
				if p.batches[i].since < d.Before {
					gathered += p.batches[i].count
				}
			}
		}
	}
	sealed, used := 0, s.used()
	for id, e := range s.envelopes {
		if used[id] && e.controller == key.Controller && e.reader == key.Reader && e.time < d.Before {
			sealed++
		}
	}
	add(sealed, "answers of those days have sealed values that wait for a person, or are with open queries")
	add(open, "queries of those days are open")
	add(remembered, "queries of those days ended less than a day ago: it can be erased from "+time.Unix(0, last).Add(clientMemory).UTC().Format(time.DateTime)+" UTC")
	add(held, "items of those days wait for a person")
	add(waiting, "deliveries of those days are not acknowledged")
	if gathered == 1 {
		add(gathered, "push of those days waits for the end of a window")
	} else {
		add(gathered, "pushes of those days wait for the end of a window")
	}
	if key == (bcp.ChannelKey{}) {
		add(s.runs.OpenSince(d.Before), "runs of kernels of those days are open")
	}
	if a := s.agents[d.Controller]; a != nil {
		session := s.sessionAt(a, d.Time)
		if session.openAt(d.Time, int64(s.mesh.IdleTimeout)) && session.since < d.Before {
			reasons = append(reasons, "the controller's session began before and is open: bcpmesh session close ends it")
		}
	}
	return reasons
}

// applyErase forgets what the state holds of the days of an erasure.
func (s *State) applyErase(d *bcp.Decision) {
	maps.DeleteFunc(s.envelopes, func(_ bcp.DeliveryID, e *envelope) bool {
		return e.controller == d.Controller && e.reader == d.Reader && e.time < d.Before
	})
	if a := s.allAgents[d.Controller]; a != nil {
		session := &a.session
		session.releases = slices.Clone(session.releases) // they were handed out
		for i := range session.releases {
			if r := &session.releases[i]; r.Reader == d.Reader && r.Time.UnixNano() < d.Before {
				r.Content = nil
			}
		}
		if session.begun && session.since < d.Before { // and over
			session.quotes = quotations{}
		}
	}
	if ch := s.allChannels[bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader}]; ch != nil {
		s.dropOutbox(ch, d.Before)
	}
	for key, list := range s.endorsed {
		if key.Reader == d.Reader && (key.Controller == d.Controller || d.Controller == "") { // which is of what has no channel
			list.forget(d.Before)
		}
	}
	if a := s.allAgents[d.Reader]; a != nil {
		a.notices = slices.Clone(a.notices)
		for i := range a.notices {
			if n := &a.notices[i]; n.peer == d.Controller && n.at < d.Before {
				n.result.PushID = ""
			}
		}
	}
}
