package bcp

import (
	"slices"
)

// Notice is a message that waits for its agent and is no delivery: the final
// result of what was held (PROTOCOL P7.6), or a prompt (P9.4). It is sent when
// it is made and to each new connection of its agent, until acknowledged.
type Notice struct {
	ID    DeliveryID
	Agent AgentName
	Role  Role
	Peer  AgentName // in the subject that it is delivered on
	// Message is a ValidationResult or a Prompt.
	Message  any
	schedule string // of a prompt
	held     int64  // of a result: when the item that it is about began to wait
}

type agentRole struct {
	agent AgentName
	role  Role
}

// maxNotices bounds what waits for an agent that never acknowledges; the oldest
// is dropped, and stays in the audit.
const maxNotices = 256

// Notices returns what waits for an agent in a role, oldest first.
func (s *State) Notices(agent AgentName, role Role) []Notice {
	a := s.agents[agent]
	if a == nil {
		return nil
	}
	var notices []Notice
	for _, n := range a.notices {
		if n.Role == role {
			notices = append(notices, n)
		}
	}
	return notices
}

// Waits reports whether a notice is not acknowledged.
func (s *State) Waits(id DeliveryID) bool {
	_, waits := s.noticed[id]
	return waits
}

func (s *State) notify(n Notice) {
	a := s.agents[n.Agent]
	if a == nil {
		return
	}
	a.notices = append(a.notices, n)
	s.noticed[n.ID] = agentRole{n.Agent, n.Role}
	if len(a.notices) > maxNotices {
		s.forgetNotice(a.notices[0].ID)
	}
}

func (s *State) forgetNotice(id DeliveryID) {
	a := s.agents[s.noticed[id].agent]
	delete(s.noticed, id)
	if a != nil {
		a.notices = slices.DeleteFunc(a.notices, func(n Notice) bool { return n.ID == id })
	}
}

// Result is what the Reader of an answer or a push hears of the decision.
func (d *Decision) Result() ValidationResult {
	r := ValidationResult{Type: TypeValidationResult, QueryID: d.Query, SubscriptionID: d.Subscription, Code: d.Code}
	outcome := d.Verdict
	switch {
	case d.Kind == KindExpire, d.Kind == KindApproval && d.Event == string(RejectItem):
		outcome, r.Code = Reject, ApprovalRejected
	}
	switch outcome {
	case Accept:
		r.Success, r.Status = true, StatusDelivered
		if d.Subscription != "" {
			r.Detail = "Published to controller " + string(d.Controller) + " (Cat-" + string('0'+byte(d.Category)) + ", " + d.Nominal.String() + " bits)"
		}
	case Hold:
		r.Status, r.Detail = StatusHeld, "Held for a person"
	default:
		r.Status = StatusRefused
		switch {
		case d.Kind == KindExpire:
			r.Detail = rejectedDetail("no decision in time")
		case d.Kind == KindApproval:
			r.Detail = rejectedDetail(d.Note)
		default:
			r.Detail = ReaderDetail(d.Code, d.Reason, d.FieldName(), d.Subscription, d.Controller)
		}
	}
	return r
}
