package state

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

func taintFrom(t bcp.TaintSource) bcp.Taint {
	if t.Valid() {
		return bcp.TaintHigh
	}
	return bcp.TaintUnknown
}

// taintReset is the event of a decision that forgets what was reported.
const taintReset = "reset"

// DecideControl judges an act of the operator that changes the state: renew, taint,
// reset-taint or lift.
func (s *State) DecideControl(m bcp.Moment, act string, body []byte) bcp.Decision {
	d := s.next(m, bcp.KindTaint)
	if act == bcp.ControlRenew {
		d.Kind = bcp.KindSession
	}
	d.Agent, d.Role, d.Event, d.RawBytes = bcp.Operator, bcp.RoleOperator, act, len(body)
	c, ok := bcp.ParseControl(body)
	if !ok {
		return refuse(d, bcp.CheckAct, bcp.Malformed)
	}
	a := s.agents[c.Agent]
	if act == bcp.ControlLift && s.suspended[c.Agent] && c == (bcp.Control{Agent: c.Agent}) {
		d.Kind, d.Event, d.Target, d.Verdict = bcp.KindAlert, string(bcp.AlertLifted), c.Agent, bcp.Accept
		return d
	}
	if a == nil || act == bcp.ControlRenew && !a.definition.Controller || (act == bcp.ControlTaint) != (c.Taint != nil) ||
		c.Taint != nil && !c.Taint.Source.Valid() || c.Erase != nil || c.Key != "" || c.Run != "" {
		return refuse(d, bcp.CheckAct, bcp.Malformed)
	}
	d.Verdict = bcp.Accept
	switch act {
	case bcp.ControlRenew:
		d.Controller = c.Agent
		s.setSession(&d, m, c.Agent, false)
		d.SessionRenews = true
	case bcp.ControlTaint:
		d.Target, d.Event, d.Taint = c.Agent, string(c.Taint.Source), taintFrom(c.Taint.Source)
	case bcp.ControlResetTaint:
		d.Target, d.Event, d.Taint = c.Agent, taintReset, bcp.TaintLow
	default:
		return refuse(d, bcp.CheckAct, bcp.Malformed)
	}
	return d
}

// DecideReload records that other definitions hold, with the permissions that
// were taken and given.
func (s *State) DecideReload(m bcp.Moment, version string, changes []string) bcp.Decision {
	d := s.next(m, bcp.KindReload)
	d.Agent, d.Role, d.Versions, d.Files, d.Changes = bcp.Operator, bcp.RoleOperator, Versions(version), s.mesh.Files, changes
	s.saySettings(&d)
	return d
}

// saySettings has a decision say what Apply reads of the definitions, where the records
// before it say another.
func (s *State) saySettings(d *bcp.Decision) {
	if idle := int64(s.mesh.IdleTimeout); idle != s.idle {
		d.IdleTimeout = idle
	}
}

// DecideTruncate records that the journal may begin with this record, or the snapshot and
// the backup of what is in front of an earlier one.
func (s *State) DecideTruncate(m bcp.Moment, t bcp.Truncation) bcp.Decision {
	d := s.next(m, bcp.KindTruncate)
	d.Agent, d.Role, d.Truncation = bcp.Operator, bcp.RoleOperator, &t
	return d
}

// applyAgent applies what a decision changes of one agent other than its session.
func (s *State) applyAgent(d *bcp.Decision) {
	switch d.Kind {
	case bcp.KindStart:
		for _, a := range s.allAgents {
			a.unavailable = false
		}
		s.applyBegin(d)
	case bcp.KindReload:
		s.applyBegin(d)
	case bcp.KindPrompt:
		s.applyPrompt(d)
	case bcp.KindAcknowledge:
		if d.Notice != "" {
			s.forgetNotice(d.Notice)
		}
	case bcp.KindConnect:
		if a := s.allAgents[d.Agent]; a != nil && d.Role.IsAgent() {
			a.unavailable = false
		}
	case bcp.KindProcess:
		if a := s.allAgents[d.Agent]; a != nil {
			a.unavailable = d.Event == bcp.ProcessUnavailable
		}
	case bcp.KindTaint:
		s.applyTaint(d)
	case bcp.KindAlert:
		s.applySuspect(d)
	case bcp.KindErase:
		s.applyErase(d)
	}
}

// applyTaint raises what was reported; only an operator lowers it.
func (s *State) applyTaint(d *bcp.Decision) {
	a := s.allAgents[d.Target]
	if a == nil || d.Verdict != bcp.Accept {
		return
	}
	if d.Event == taintReset {
		if d.Role == bcp.RoleOperator {
			s.settleArrivals(a, d.Time)
			a.reported, a.exposure, a.sources = bcp.TaintLow, bcp.TaintLow, nil
			a.forget(d.Time)
		}
		return
	}
	s.report(d.Target, d.Taint, d.Event)
}

// report has an agent be tainted by a source.
func (s *State) report(agent bcp.AgentName, taint bcp.Taint, source string) {
	a := s.addAgent(agent)
	a.reported = bcp.MaxTaint(a.reported, taint)
	if !slices.Contains(a.sources, source) {
		a.sources = append(a.sources, source)
	}
}
