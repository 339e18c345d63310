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

func (t TaintSource) taint() Taint {
	if t.Valid() {
		return TaintHigh
	}
	return TaintUnknown
}

// TaintReport says what an agent has read.
type TaintReport struct {
	Source TaintSource `json:"source"`
}

// taintReset is the event of a decision that forgets what was reported.
const taintReset = "reset"

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
)

// ControlActs returns every act.
func ControlActs() []string {
	return []string{ControlRenew, ControlTaint, ControlResetTaint, ControlSessions, ControlReload, ControlErase, ControlForecast, ControlKey, ControlReconcile, ControlStorage, ControlCredentials, ControlProposals, ControlAgents, ControlStopRun}
}

// AuditorActs returns the acts that auditors may ask for too: they change nothing, and
// tell in figures what the audit tells decision by decision.
func AuditorActs() []string { return []string{ControlForecast, ControlSessions, ControlStorage} }

// ControlAside reports whether [State.DecideControl] has no part in an act: it
// leaves the state as it is, or records itself.
func ControlAside(act string) bool {
	switch act {
	case ControlSessions, ControlReload, ControlErase, ControlForecast, ControlKey, ControlReconcile, ControlStorage, ControlCredentials, ControlProposals, ControlAgents:
		return true
	}
	return false
}

// Control is an operator's message.
type Control struct {
	Agent AgentName     `json:"agent,omitempty"`
	Taint *TaintReport  `json:"taint,omitzero"`
	Erase *EraseRequest `json:"erase,omitzero"`
	Key   string        `json:"key,omitempty"` // the subject of a sealing key
	Run   string        `json:"run_id,omitempty"`
}

// GivenKey is a sealing key as the mesh has it. It is zero where there is none.
type GivenKey struct {
	Key       []byte `json:"key,omitempty"`
	Destroyed bool   `json:"destroyed,omitzero"` // on purpose: what it sealed is erased
}

// DecideControl judges an act of the operator that changes the state: renew,
// taint or reset-taint.
func (s *State) DecideControl(m Moment, act string, body []byte) Decision {
	d := s.next(m, KindTaint)
	if act == ControlRenew {
		d.Kind = KindSession
	}
	d.Agent, d.Role, d.Event, d.RawBytes = Operator, RoleOperator, act, len(body)
	c, ok := ParseControl(body)
	if !ok {
		return d.refuse(CheckAct, Malformed)
	}
	a := s.agents[c.Agent]
	if a == nil || act == ControlRenew && !a.definition.Controller || (act == ControlTaint) != (c.Taint != nil) ||
		c.Taint != nil && !c.Taint.Source.Valid() || c.Erase != nil || c.Key != "" || c.Run != "" {
		return d.refuse(CheckAct, Malformed)
	}
	d.Verdict = Accept
	switch act {
	case ControlRenew:
		d.Controller = c.Agent
		s.sessionOf(&d, m, c.Agent, false)
		d.SessionRenews = true
	case ControlTaint:
		d.Target, d.Event, d.Taint = c.Agent, string(c.Taint.Source), c.Taint.Source.taint()
	case ControlResetTaint:
		d.Target, d.Event, d.Taint = c.Agent, taintReset, TaintLow
	default:
		return d.refuse(CheckAct, Malformed)
	}
	return d
}

// DecideProcess records what became of an agent's command.
func (s *State) DecideProcess(m Moment, agent AgentName, event, note string) Decision {
	d := s.next(m, KindProcess)
	d.Agent, d.Event, d.Note = agent, event, note
	return d
}

// DecideReload records that other definitions hold, with the permissions that
// were taken and given.
func (s *State) DecideReload(m Moment, version string, changes []string) Decision {
	d := s.next(m, KindReload)
	d.Agent, d.Role, d.Versions, d.Files, d.Changes = Operator, RoleOperator, Versions(version), s.mesh.Files, changes
	return d
}

// DecideTruncate records that the journal may begin with this record.
func (s *State) DecideTruncate(m Moment, t Truncation) Decision {
	d := s.next(m, KindTruncate)
	d.Agent, d.Role, d.Truncation = Operator, RoleOperator, &t
	return d
}

// applyAgent applies what a decision changes of one agent beside its session.
func (s *State) applyAgent(d *Decision) {
	switch d.Kind {
	case KindStart:
		for _, a := range s.agents {
			a.unavailable = false
		}
		s.applyBegin(d)
	case KindReload:
		s.applyBegin(d)
	case KindPrompt:
		s.applyPrompt(d)
	case KindAcknowledge:
		if d.Notice != "" {
			s.forgetNotice(d.Notice)
		}
	case KindConnect:
		if a := s.agents[d.Agent]; a != nil && d.Role.agent() {
			a.unavailable = false
		}
	case KindProcess:
		if a := s.agents[d.Agent]; a != nil {
			a.unavailable = d.Event == ProcessUnavailable
		}
	case KindTaint:
		s.applyTaint(d)
	case KindErase:
		s.applyErase(d)
	}
}

// applyTaint raises what was reported; only an operator lowers it.
func (s *State) applyTaint(d *Decision) {
	a := s.agents[d.Target]
	if a == nil || d.Verdict != Accept {
		return
	}
	if d.Event == taintReset {
		if d.Role == RoleOperator {
			a.reported, a.exposure, a.sources = TaintLow, TaintLow, nil
		}
		return
	}
	a.reported = MaxTaint(a.reported, d.Taint)
	if !slices.Contains(a.sources, d.Event) {
		a.sources = append(a.sources, d.Event)
	}
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

// Sessions returns the sessions of all Controllers, sorted by name.
func (s *State) Sessions(now time.Time) []SessionView {
	views := []SessionView{}
	for _, definition := range s.mesh.Agents {
		if !definition.Controller {
			continue
		}
		a := s.agents[definition.Name]
		session := s.sessionAt(a, now.UnixNano())
		v := SessionView{Controller: definition.Name, Status: "none", Taint: MaxTaint(definition.BaseTaint, a.reported), Sources: a.sources,
			Exposure: session.exposure, Channels: []SessionChannel{}}
		if session.begun {
			v.Session, v.Status, v.BegunBy = session.id, "open", "controller"
			v.Since, v.Touched = time.Unix(0, session.since).UTC(), time.Unix(0, min(session.touched, now.UnixNano())).UTC()
			switch {
			case session.closed:
				v.Status = "closed"
			case !session.openAt(now.UnixNano(), int64(s.mesh.IdleTimeout)):
				v.Status = "idle"
			}
			if session.byDelivery {
				v.BegunBy = "delivery"
			}
		}
		for _, ch := range a.asks {
			v.Channels = append(v.Channels, s.sessionChannel(ch, session.id, now))
		}
		views = append(views, v)
	}
	return views
}

func (s *State) sessionChannel(ch *channelState, session SessionID, now time.Time) SessionChannel {
	epoch := ch.epochOf(&Decision{Time: now.UnixNano()}) // of the next charge
	c := SessionChannel{Reader: ch.definition.Reader, Epoch: epoch, Remaining: max(0, ch.definition.Budget-ch.pool(epoch).Spent()),
		MaxEscalations: ch.definition.MaxEscalations, Waiting: len(ch.outbox)}
	for _, p := range ch.pools {
		c.Open += p.open
	}
	for _, it := range s.items {
		if it.channel() == ch.definition.ChannelKey {
			c.Held++
		}
	}
	if ch.session == session {
		c.Escalations, c.Failed = ch.escalations, ch.failed
	}
	return c
}
