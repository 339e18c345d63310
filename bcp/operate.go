package bcp

import (
	"slices"
	"time"
)

// Operator is the name under which whoever owns the state folder acts, and the
// name of the approver and of the auditor of a mesh that declares none.
const Operator AgentName = "operator"

// TaintSource is where something came from that an agent read (PROTOCOL P8.1).
type TaintSource string

// The sources. The mesh knows of none who else could write there, so each taints
// high.
const (
	SourceWeb      TaintSource = "web"
	SourceDocument TaintSource = "document"
	SourceAPI      TaintSource = "api"
	SourceDatabase TaintSource = "database"
	SourceAgent    TaintSource = "agent" // an agent outside the mesh
)

// TaintSources returns every source.
func TaintSources() []TaintSource {
	return []TaintSource{SourceWeb, SourceDocument, SourceAPI, SourceDatabase, SourceAgent}
}

// Valid reports whether it is one of the five.
func (t TaintSource) Valid() bool { return slices.Contains(TaintSources(), t) }

// TaintReport says what an agent has read.
type TaintReport struct {
	Source TaintSource `json:"source"`
}

// The events of a process.
const (
	ProcessStarted     = "started"
	ProcessEnded       = "ended"
	ProcessUnavailable = "unavailable" // it could not be started
)

// The acts of an operator.
const (
	ControlRenew      = "renew"       // a session, and new epochs for all its channels
	ControlTaint      = "taint"       // report what an agent has read
	ControlResetTaint = "reset-taint" // forget it
	ControlSessions   = "sessions"    // list them
	ControlReload     = "reload"      // load the definitions again
	ControlErase      = "erase"       // destroy the sealing keys of a channel's days
	ControlStorage    = "storage"     // tell how full the disk is
	ControlForecast   = "forecast"    // what fits into the budgets
	ControlReconcile  = "reconcile"   // add the journal's charges up again
	ControlKey        = "key"         // give out a sealing key
	// ControlCredentials looks at the key store again, and tells who is connected.
	ControlCredentials = "credentials"
	ControlProposals   = "proposals" // list the subscriptions that people approved
	ControlAgents      = "agents"    // tell how each agent is, from one on
	ControlStopRun     = "stop-run"  // end a run of a kernel
	// ControlRevocations brings a list of revocations of another organisation.
	ControlRevocations = "revocations"
	ControlLift        = "lift"     // end the suspension of an agent
	ControlTruncate    = "truncate" // announce where the journal may begin, or cut off what is in front
)

// ControlActs returns every act.
func ControlActs() []string {
	return []string{ControlRenew, ControlTaint, ControlResetTaint, ControlSessions, ControlReload, ControlErase, ControlForecast, ControlKey, ControlReconcile, ControlStorage, ControlCredentials, ControlProposals, ControlAgents, ControlStopRun, ControlRevocations, ControlLift, ControlTruncate}
}

// AuditorActs returns the acts that auditors may ask for too: they change nothing, and
// tell in figures what the audit tells decision by decision.
func AuditorActs() []string { return []string{ControlForecast, ControlSessions, ControlStorage} }

// ControlAside reports whether [state.State.DecideControl] has no part in an act: it
// leaves the state as it is, or records itself.
func ControlAside(act string) bool {
	return slices.Contains([]string{ControlSessions, ControlReload, ControlErase, ControlForecast, ControlKey, ControlReconcile, ControlStorage, ControlCredentials,
		ControlProposals, ControlAgents, ControlTruncate}, act)
}

// Control is an operator's message.
type Control struct {
	Agent AgentName     `json:"agent,omitempty"`
	Taint *TaintReport  `json:"taint,omitzero"`
	Erase *EraseRequest `json:"erase,omitzero"`
	Key   string        `json:"key,omitempty"` // the subject of a sealing key
	Run   string        `json:"run_id,omitempty"`
	// Truncate is empty to announce a truncation, and else says how its first part ended.
	Truncate *Truncation `json:"truncate,omitzero"`
}

// GivenKey is a sealing key as the mesh has it. It is zero if there is none.
type GivenKey struct {
	Key       []byte `json:"key,omitempty"`
	Destroyed bool   `json:"destroyed,omitzero"` // on purpose: what it sealed is erased
}

// SessionView is a Controller's newest session, as operators see it.
type SessionView struct {
	Controller AgentName `json:"controller"`
	Session    SessionID `json:"session_id,omitempty"`
	// Status is open, idle, closed, or none where there has been no session.
	Status string `json:"status"`
	// BegunBy is controller or delivery.
	BegunBy  string           `json:"begun_by,omitempty"`
	Since    time.Time        `json:"since,omitzero"`
	Touched  time.Time        `json:"last_activity,omitzero"`
	Taint    Taint            `json:"taint"` // its own
	Sources  []string         `json:"sources,omitempty"`
	Exposure Taint            `json:"exposure"`
	Channels []SessionChannel `json:"channels"`
}

// SessionChannel is what the session has left on one channel.
type SessionChannel struct {
	Reader         AgentName `json:"reader"`
	Epoch          uint64    `json:"epoch"`
	Remaining      Bits      `json:"remaining_bits"`
	Escalations    int       `json:"escalations"`
	MaxEscalations int       `json:"max_escalations"`
	Failed         bool      `json:"failed,omitzero"` // more escalations were tried
	Open           int       `json:"open_queries"`
	Held           int       `json:"held_items"`
	Waiting        int       `json:"waiting_deliveries"`
}

// An erasure destroys the sealing keys of a channel's days (PROTOCOL P11.5). Its
// decision is in the journal first. From there on the state holds nothing of
// those days: what a journal that opens made of it is then what one makes whose
// keys are destroyed.

// What an erasure takes.
const (
	ErasePayloads = "payloads"         // and specs, client ids, salts
	EraseAll      = "payloads and raw" // also the messages as they came
)

// EraseRequest asks for an erasure. A channel without names is of the decisions
// that belong to none.
type EraseRequest struct {
	Controller AgentName `json:"controller,omitempty"`
	Reader     AgentName `json:"reader,omitempty"`
	// Before is the first day that is kept, as 2006-01-02 in UTC. It begins a day
	// ago at least.
	Before string `json:"before"`
	Raw    bool   `json:"raw,omitzero"`
}
