package bcp

import "time"

// AlertKind says what an operator should look at (PROTOCOL P4.6). The words
// stand in records, subjects and metrics.
type AlertKind string

// The alerts. The first three are decisions of the gateway, once an epoch or a
// session, and those of the disk whenever it gets worse; the others go with the
// decisions that they are about.
const (
	AlertThreshold   AlertKind = "budget_threshold" // an epoch has reached alert_bits
	AlertExhausted   AlertKind = "budget_exhausted" // an epoch could not pay for a query or a push
	AlertSpending    AlertKind = "session_spending" // a session took over ten times the median session
	AlertHeld        AlertKind = "item_held"        // something waits for a person
	AlertUnavailable AlertKind = "agent_unavailable"
	AlertMissed      AlertKind = "runs_missed" // of a schedule, while nobody was there to prompt
	AlertFlood       AlertKind = "flood"       // refusals beyond max_refusals, or denied subjects
	// An agent has more of the journal than is free: nothing is taken from it until the
	// journal is truncated.
	AlertShare AlertKind = "journal_share"
	// The journal has reached 80 or 95 % of its half of max_disk_mb, or the disk is
	// as full.
	AlertDiskLow      AlertKind = "disk_low"
	AlertDiskCritical AlertKind = "disk_critical"
	// Credentials are used in two places at once: a copy, or a mistake.
	AlertShared AlertKind = "credentials_shared"
	// Credentials are in the last tenth of their life, but the last week at most.
	AlertExpiring AlertKind = "credentials_expiring"
	// The gateway made a mistake: over a message, which is in quarantine, or by itself.
	AlertPanic AlertKind = "gateway_panic"
	// The bits or bytes that an agent may send out are exhausted, for the first time in a window.
	AlertEgress AlertKind = "egress_exhausted"
	// The calls of an agent's model have taken 80 or 100 % of its budget, once in a window.
	AlertModel AlertKind = "model_budget"
	// The model of an agent begins to fail, and works again. Alert.Model says why.
	AlertModelFails AlertKind = "model_fails"
	AlertModelWorks AlertKind = "model_works"
	// A tool of an MCP server of an agent is not as it was pinned, and is not called.
	AlertTool AlertKind = "tool_changed"
	// A witness has cosigned no checkpoint: it is away, or does not know the log.
	AlertWitnessMissing AlertKind = "witness_missing"
	// A witness has seen more of the journal than there is, or another history of it.
	AlertWitnessRefused AlertKind = "witness_refused"
	// The operator has the mesh go on although a witness refuses: budgets that were spent
	// in what the journal has lost may be spent again.
	AlertRollbackAccepted AlertKind = "rollback_accepted"
	// An agent or a person has seen more of the journal than there is, or another history
	// of it, and proves it: the channels of the agent, or all, wait for the operator.
	AlertRollbackSeen AlertKind = "rollback_seen"
	// Somebody has shown what is no mark of this mesh, or one of a key that it does not have.
	AlertMarkStrange AlertKind = "mark_strange"
	// A tool may have done what a run asked for, or answered when it may not, or cannot be called.
	AlertEffect AlertKind = "effect_uncertain"
	// An agent does what its role does not (docs/suspicion.md); on_suspect may suspend it.
	AlertSuspect AlertKind = "role_suspect"
	// The operator lifts a suspension.
	AlertLifted AlertKind = "suspension_lifted"
)

// SuspectRule says what was seen of an agent that its role does not do. The words are
// frozen, since journals hold them. The zero value is no rule.
type SuspectRule string

// The rules of package watch. Each looks at what an agent's own connection sent, and at
// nothing that another agent could have chosen.
const (
	SuspectSubject   SuspectRule = "subject_denied"  // the server denied it a subject
	SuspectOtherRole SuspectRule = "other_role"      // a message that another role sends
	SuspectTools     SuspectRule = "ungranted_tools" // a plan with a tool that was not granted
	SuspectUnusual   SuspectRule = "unusual"         // a plan of ten times the usual steps
	SuspectCall      SuspectRule = "call_denied"     // a plan with a call that the gate denies, whatever the values
	SuspectAnswer    SuspectRule = "answer_rejected" // an answer to a query that is not one of its spec
	SuspectReply     SuspectRule = "forged_reply"    // a reply that nobody asked it for
	SuspectOutcome   SuspectRule = "bad_outcome"     // an outcome that is not of its tool's schema
)

// Seen is something that a record says of an agent. Count is how often, below 0 the contrary;
// of [SuspectUnusual] it is the steps of a plan, which are not yet unusual.
type Seen struct {
	Agent AgentName
	Rule  SuspectRule
	Count int
}

// The alerts without a record: the journal cannot be written, or must not be.
const (
	AlertJournal AlertKind = "journal_unwritable"
	// AlertDamaged says that the journal is damaged in front of what was served. Seq is the
	// last decision that was released, and Count how many were since the start.
	AlertDamaged AlertKind = "journal_damaged"
)

// AlertKinds returns every kind that goes with a record.
func AlertKinds() []AlertKind {
	return []AlertKind{AlertThreshold, AlertExhausted, AlertSpending, AlertHeld, AlertUnavailable, AlertMissed, AlertFlood, AlertShare, AlertDiskLow, AlertDiskCritical, AlertShared, AlertExpiring, AlertPanic, AlertEgress, AlertModel, AlertModelFails, AlertModelWorks, AlertTool, AlertWitnessMissing, AlertWitnessRefused, AlertRollbackAccepted, AlertRollbackSeen, AlertMarkStrange, AlertEffect, AlertSuspect, AlertLifted}
}

// Alert tells operators, approvers and auditors of a decision that somebody
// should look at. It holds no text of an agent, and no item's id: whoever may not
// decide an item has no business with it (a wrong digest of its content is told
// before a missing right, PROTOCOL P10).
type Alert struct {
	Type       string    `json:"type"`
	Alert      AlertKind `json:"alert"`
	Seq        uint64    `json:"seq"`
	Time       time.Time `json:"time"`
	Agent      AgentName `json:"agent,omitempty"`
	Controller AgentName `json:"controller,omitempty"`
	Reader     AgentName `json:"reader,omitempty"`
	Epoch      uint64    `json:"epoch,omitzero"`
	Count      int       `json:"count,omitzero"`
	// Rule is why an agent is suspected, and Suspended that it is suspended for it.
	Rule      SuspectRule `json:"rule,omitempty"`
	Suspended bool        `json:"suspended,omitzero"`
	// Model is why the model of an agent fails.
	Model ModelFault `json:"model,omitzero"`
}

// Alert returns what operators hear of the decision, if they do.
func (d *Decision) Alert() (Alert, bool) {
	var kind AlertKind
	switch {
	case d.Repeat:
	case d.Kind == KindAlert:
		kind = AlertKind(d.Event)
	case d.HeldItem() != "":
		kind = AlertHeld
	case d.Kind == KindEgress && d.Egress != nil && d.Egress.Alert:
		kind = AlertEgress
	case d.Kind == KindEgress && d.Egress != nil && string(d.Egress.Why) == string(AlertTool):
		kind = AlertTool
	case d.Kind == KindUsage && d.Usage != nil && d.Usage.Alert > 0:
		kind = AlertModel
	case d.Kind == KindUsage && d.Usage != nil && d.Usage.Act == UsageReport && d.Verdict == Accept && d.Usage.Fault == "":
		kind = AlertModelWorks
	case d.Kind == KindUsage && d.Usage != nil && d.Usage.Act == UsageReport && d.Verdict == Accept && d.Usage.Since == d.Time:
		kind = AlertModelFails
	case d.Kind.IsRun() && d.Run != nil && d.Run.Alert != "":
		kind = AlertEffect
	case d.Kind == KindProcess && d.Event == ProcessUnavailable:
		kind = AlertUnavailable
	case d.Kind == KindPrompt && d.Count > 0:
		kind = AlertMissed
	case d.Kind == KindRefusals && d.Check != CheckRate, d.Kind == KindViolation:
		kind = AlertFlood
	}
	alert := Alert{Type: TypeAlert, Alert: kind, Seq: d.Seq, Time: d.At(), Agent: d.Agent, Controller: d.Controller, Reader: d.Reader,
		Epoch: d.Epoch, Count: d.Count, Rule: d.Rule, Suspended: d.Suspends}
	if kind == AlertLifted {
		alert.Agent = d.Target
	}
	if d.Usage != nil {
		alert.Model = d.Usage.ModelFault()
	}
	return alert, kind != ""
}

// HeldItem returns what waits for a person from this decision on, if something does.
func (d *Decision) HeldItem() ItemID {
	switch {
	case d.Verdict == Hold:
		return d.Item
	case d.Run != nil:
		return d.Run.Held
	default:
		return ""
	}
}
