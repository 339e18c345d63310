package kernel

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Redecide decides about what led to a recorded change again (DUAL-19): in the state
// before it, under the definitions of the state, and changes nothing. From is who sent the
// message, message what it said, and salt that of the decision. It is false for what a
// record does not tell enough of: what a person said that was refused, and a Reader's
// answer that did not fit the record.
//
// The same definitions decide the same, byte for byte.
func (s *State) Redecide(c *Change, from bcp.AgentName, salt [16]byte, message []byte) (Change, bool) {
	m := bcp.Moment{Now: time.Unix(0, c.Time), Salt: salt}
	switch {
	case c.Start != nil && len(c.Run) > 0:
		m.Fresh = string(c.Run[1:])
	case c.Wait != nil && len(c.Wait.ID) > 0:
		m.Fresh = c.Wait.ID[1:]
	}
	r := s.runs[c.Run]
	switch {
	case c.Code == Suspended: // who is suspended is not known here
		return Change{}, false
	case c.Start != nil:
		return s.DecideRun(m, c.Start.Kernel, c.Start.Requester, c.Start.GrantName, c.Start.Task, message), true
	case c.Kind == bcp.KindRun && from != "":
		return s.DecideStop(m, c.Run, Cancelled), true
	case c.Kind == bcp.KindPlan && from != "":
		return s.DecidePlan(m, from, c.Input, message), true
	case c.Kind == bcp.KindOutcome:
		return s.DecideOutcome(m, from, c.Input, c.Attempt, message), true
	case r == nil || r.End != nil || c.Code != "":
		return Change{}, false
	case c.Kind == bcp.KindRun && c.End != nil && c.End.Code == Suspended:
		return s.DecideStop(m, c.Run, Suspended), true
	case c.Leave != nil:
		return s.decideLater(m, c.Input, from, c.Leave.Until), true
	case c.Kind == bcp.KindStep && from != "":
		return s.DecidePerson(m, c.Input, c.person(r), c.Private.Value), true
	case c.Kind == bcp.KindStep:
		return s.redecideAnswer(m, c)
	case c.Kind == bcp.KindCall && r.Wait.Kind == WaitTool && (c.Alert == ToolUnavailable || c.Alert == ToolChanged || c.Alert == Suspended):
		return s.DecideUnsent(m, c.Input, c.Alert), true
	case c.Kind == bcp.KindCall && r.Wait.Kind == WaitTool && (c.End == nil || c.End.Code != LimitRunTTL):
		return s.DecideRestart(m, c.Input), true // time decides the same
	default:
		return s.overdue(m, r), true
	}
}

// person is what a person decided who made this change.
func (c *Change) person(r *run) PersonDecision {
	switch w := &r.Wait; {
	case w.Kind == WaitQuestion && c.Result != nil:
		return Answer
	case w.Kind == WaitQuestion:
		return Reject
	case w.Kind == WaitApproval && c.End != nil && c.End.Code == ApprovalRejected, w.Kind == WaitDoubt && c.End != nil && c.End.Status == Doubted:
		return Reject
	case w.Kind == WaitApproval:
		return Approve
	case c.Wait != nil && c.Wait.ID == w.Call:
		return NotDone
	default:
		return Done
	}
}

// redecideAnswer decides about a Reader's answer, which is recorded as it was taken.
func (s *State) redecideAnswer(m bcp.Moment, c *Change) (Change, bool) {
	code := bcp.Unavailable
	if c.Result != nil {
		if c.Result.Code == LimitValueBytes {
			return Change{}, false
		}
		for _, one := range []bcp.Code{"", bcp.NotEnoughInformation, bcp.Expired, bcp.Rejected} {
			if answerCodes[one] == c.Result.Code {
				code = one
			}
		}
	}
	return s.DecideAnswer(m, c.Input, c.Private.Value, code), true
}

// Same reports whether two changes are recorded as the same bytes.
func (c *Change) Same(o *Change) bool {
	if (c.Endorsed == nil) != (o.Endorsed == nil) || c.Endorsed != nil && (c.Endorsed.Uses != o.Endorsed.Uses || c.Endorsed.Bits != o.Endorsed.Bits) {
		return false // the id is that of its wait
	}
	return string(c.AppendJSON(nil)) == string(o.AppendJSON(nil)) && string(c.Private.AppendJSON(nil)) == string(o.Private.AppendJSON(nil))
}
