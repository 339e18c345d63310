package state

import (
	"cmp"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What an agent has recorded (PROTOCOL P4.7). Records that bits pay for, or that somebody
// else asked for, are as many as there are. Every other is a refusal, a repeat or a
// report, which cost nothing: in a minute max_refusals of each kind are recorded one by
// one. Beyond that the agent is not heard if it is its own fault, and otherwise its
// messages are only counted. And nobody has more of the journal than is free.

// reportsAMinute is how many acts without bits an agent may have recorded in a minute, if
// max_refusals is less: its sessions, what it read, its roles, its repeated proposals.
const reportsAMinute = 60

// Admit says what becomes of a decision about an agent's message: it is recorded, or only
// counted. The sender hears the code in place of the decision, if there is one.
func (s *State) Admit(d *bcp.Decision) (recorded bool, code bcp.Code) {
	a := s.agents[d.Agent]
	if a == nil || !d.Role.IsAgent() && d.Role != bcp.RoleKeeper || d.Kind == bcp.KindAcknowledge {
		return true, ""
	}
	if s.exceedsShare(d) {
		return false, bcp.Unavailable
	}
	switch s.costs(d) {
	case costsNothing:
		return !a.gathered.used(d.Time, s.mesh.MaxRefusals), ""
	case costsReport:
		if s.reported(a, d.Time) {
			return false, bcp.RateLimited
		}
	}
	return true, ""
}

// reported reports whether an agent used up its reports of this minute.
func (s *State) reported(a *agentState, now int64) bool {
	return a.reports.used(now, max(s.mesh.MaxRefusals, reportsAMinute))
}

// costs says what bounds the number of an agent's records.
type costs uint8

const (
	costsElsewhere costs = iota // bits, or what somebody else did
	costsRefusal                // max_refusals: it is the agent's fault
	costsNothing                // the records alone: it is not, and changes nothing
	costsReport                 // reports, which change something
)

// costs says what bounds decisions like d, before it is applied.
func (s *State) costs(d *bcp.Decision) costs {
	switch {
	case d.Kind == bcp.KindViolation, d.Verdict == bcp.Reject && isWrong(d) && !d.Excused:
		return costsRefusal
	case (d.Kind == bcp.KindPropose || d.Kind == bcp.KindHand) && d.Repeat:
		return costsReport
	case d.Repeat:
		if before, _ := s.firsts.get(newClientKey(d)); before.repeats >= maxRepeats {
			return costsRefusal
		}
		return costsNothing
	case d.Verdict == bcp.Reject:
		if s.refusalChanges(d) {
			return costsElsewhere
		}
		return costsNothing
	case d.Kind == bcp.KindTaint:
		if a := s.allAgents[d.Target]; a != nil && (bcp.MaxTaint(a.reported, d.Taint) != a.reported || !slices.Contains(a.sources, d.Event)) {
			return costsElsewhere
		}
		return costsReport
	case d.Kind == bcp.KindSession, d.Kind == bcp.KindDeclare, d.Run != nil && d.Run.Code != "": // an end that is told again
		return costsReport
	}
	return costsElsewhere
}

// refusalChanges reports whether a refusal that is not its sender's fault changes
// something: how a query goes on, whether a session may escalate, or which alert is due.
// That is once for each of them.
func (s *State) refusalChanges(d *bcp.Decision) bool {
	if q := s.queries[d.Query]; d.Delivery != "" || q != nil && d.Attempt > q.attempt {
		return true
	}
	key, _ := d.Channel()
	ch := s.allChannels[key]
	switch {
	case ch == nil:
		return false
	case d.Code == bcp.BudgetExhausted:
		return ch.exhausted != ch.newest() && s.queued(ch, bcp.AlertExhausted) < 0
	case d.Code == bcp.EscalationLimitReached:
		session := &ch.controller.session
		return session.begun && session.id == d.Session && (ch.session != d.Session || !ch.failed)
	}
	return false
}

// journalShare is how much of the journal is whose, in bytes: since it was truncated last.
type journalShare struct {
	all int64 `msgpack:"-"`
	of  map[bcp.AgentName]int64
}

// add counts bytes of an agent, or of nobody.
func (j *journalShare) add(agent bcp.AgentName, bytes int64) {
	j.all += bytes
	j.of[agent] += bytes
}

// exceedsShare reports whether who causes d has more of the journal than is free. One
// agent that floods can take half of it, two can take two thirds, and no number of them
// all of it.
func (s *State) exceedsShare(d *bcp.Decision) bool {
	limit := s.mesh.JournalBytes()
	return limit > 0 && s.share.of[s.causer(d)] > limit-s.share.all
}

// ExceedsShare reports whether an agent's messages are refused because of what the journal
// has of it.
func (s *State) ExceedsShare(agent bcp.AgentName) bool {
	return s.exceedsShare(&bcp.Decision{Agent: agent})
}

// causer is whose share of the journal a decision is of. What a run does is its
// requester's, whoever answers.
func (s *State) causer(d *bcp.Decision) bcp.AgentName {
	if d.Run != nil {
		if requester := s.runs.Requester(d.Run.Run); requester != "" {
			return requester
		}
	}
	if d.Kind == bcp.KindBatch {
		return d.Reader
	}
	return cmp.Or(d.Agent, d.Controller)
}

// recordBytes bounds the size of a record besides what is sealed and what a run changed,
// with what a stream has for each message.
const recordBytes = 1024

// countShare counts a record.
func (s *State) countShare(d *bcp.Decision) {
	if d.Kind == bcp.KindTruncate && d.Truncation != nil && d.Truncation.Base != (bcp.Digest{}) {
		s.share = journalShare{of: make(map[bcp.AgentName]int64)}
		return
	}
	size := int64(recordBytes + len(d.Sealed) + len(d.SealedRaw))
	if d.Run != nil {
		size += int64(len(d.Run.Change))
	}
	s.share.add(s.causer(d), size)
}

// countRecord counts what max_refusals limits: an agent's records of each kind, and those
// of its keeper, each for itself. Not those of people who may have the name of an agent.
func (s *State) countRecord(d *bcp.Decision) {
	a := s.allAgents[d.Agent]
	kind := s.costs(d)
	switch {
	case a == nil || kind == costsElsewhere:
	case d.Role == bcp.RoleKeeper && kind == costsRefusal:
		a.egress.refusals.add(d)
	case !d.Role.IsAgent():
	case kind == costsRefusal:
		a.refusals.add(d)
	case kind == costsNothing:
		a.gathered.add(d)
	case kind == costsReport:
		a.reports.add(d)
	}
}

// refusalCount counts an agent's records of one kind in the current minute.
type refusalCount struct {
	minute int64
	count  int
}

func (c *refusalCount) add(d *bcp.Decision) {
	if minute := d.Time / int64(time.Minute); c.minute != minute {
		*c = refusalCount{minute: minute}
	}
	const enough = 1 << 30
	c.count = min(enough, c.count+min(enough, max(1, d.Count)))
}

// used reports whether a minute's records are used up.
func (c refusalCount) used(now int64, most int) bool {
	return c.minute == now/int64(time.Minute) && c.count >= most
}

// fromAgent begins a decision about an agent's message, and refuses it where the agent used
// up its refusals and is not heard: then nothing is read, not even for a commitment, since
// there will be no record.
func (s *State) fromAgent(m bcp.Moment, kind bcp.DecisionKind, agent bcp.AgentName, role bcp.Role, body []byte) (d bcp.Decision, heard bool) {
	d = s.next(m, kind)
	d.Agent, d.Role, d.RawBytes = agent, role, len(body)
	if s.limited(agent, d.Time) {
		return refuse(d, bcp.CheckRefusals, bcp.RateLimited), false
	}
	d.RawCommitment = d.Commit(body)
	return d, true
}

// fromUnsuspended is fromAgent of an agent that may be suspended: then it neither asks nor
// says anything.
func (s *State) fromUnsuspended(m bcp.Moment, kind bcp.DecisionKind, agent bcp.AgentName, role bcp.Role, body []byte) (d bcp.Decision, heard bool) {
	if d, heard = s.fromAgent(m, kind, agent, role, body); heard && s.suspended[agent] {
		return refuse(d, bcp.CheckSuspended, bcp.Suspended), false
	}
	return d, heard
}

// fromKeeper begins a decision about what the keeper of an agent says; the agent is nil where
// it is not heard.
func (s *State) fromKeeper(m bcp.Moment, kind bcp.DecisionKind, agent bcp.AgentName, body []byte) (bcp.Decision, *agentState) {
	d, a := s.next(m, kind), s.agents[agent]
	d.Agent, d.Role, d.RawBytes = agent, bcp.RoleKeeper, len(body)
	if a == nil || a.egress.refusals.used(d.Time, s.mesh.MaxRefusals) {
		return refuse(d, bcp.CheckRefusals, bcp.RateLimited), nil
	}
	d.RawCommitment = d.Commit(body)
	return d, a
}

// limited reports whether an agent used up its refusals of this minute.
func (s *State) limited(agent bcp.AgentName, now int64) bool {
	a := s.agents[agent]
	return a == nil || a.refusals.used(now, s.mesh.MaxRefusals)
}

// isWrong reports whether a refusal is the sender's fault, and counts against
// max_refusals. What an agent is refused because of the state of a channel is not: the
// other end could bring that state about, and so silence it on its other channels. Nor
// are the refusals that are only counted: they were made because of the limit, and would
// extend it for ever.
func isWrong(d *bcp.Decision) bool {
	if d.Kind == bcp.KindPropose { // what waits there is its own
		return true
	}
	switch d.Code {
	case bcp.BudgetExhausted, bcp.ApprovalQueueFull, bcp.Unavailable, bcp.ControllerUnavailable, bcp.ReaderUnavailable, bcp.QueryLimitReached, bcp.EscalationRequired, bcp.EscalationLimitReached:
		return d.Role == bcp.RoleKeeper
	}
	return true
}

// answeredAgain returns the query that waits for no answer where d refuses one by its
// Reader, and otherwise nil: it is answered, or its Controller or time ended it.
func (s *State) answeredAgain(d *bcp.Decision) *queryState {
	q := s.queries[d.Query]
	if d.Kind != bcp.KindAnswer || d.Verdict != bcp.Reject || d.Delivery != "" || q == nil || s.allAgents[d.Agent] == nil || q.channel.Reader != d.Agent {
		return nil
	}
	switch d.Code {
	case bcp.AlreadyAnswered, bcp.Cancelled, bcp.QueryExpired:
		return q
	}
	return nil
}

// excused reports whether d refuses what a Reader that did nothing wrong may do: to answer
// a query that waits no more. Its Controller may have ended it meanwhile, and the gateway
// sends an open query again after each break of a connection and each start, and to each
// of max_connections (PROTOCOL P9.5). A server lets each sending be answered once.
func (s *State) excused(d *bcp.Decision) bool {
	answered := s.answeredAgain(d)
	return answered != nil && answered.others < max(maxRepeats, s.agents[d.Agent].definition.MaxConnections-1)
}
