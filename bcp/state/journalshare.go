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
		if s.taintChanges(d) {
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
	ch := s.channel(key)
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

// taintChanges reports whether a report raises an agent's taint, or names a new source.
func (s *State) taintChanges(d *bcp.Decision) bool {
	a := s.agent(d.Target)
	return a != nil && (bcp.MaxTaint(a.reported, d.Taint) != a.reported || !slices.Contains(a.sources, d.Event))
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
	if d.Run != nil && s.runs != nil {
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
	a := s.agent(d.Agent)
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
