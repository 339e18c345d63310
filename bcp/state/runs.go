package state

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// JournalTime is the time of the next decision: that of m, unless the journal is ahead.
func (s *State) JournalTime(m bcp.Moment) time.Time { return time.Unix(0, s.now(m)) }

// Limited reports whether an agent used up its refusals of this minute (PROTOCOL P4.7):
// nothing of it is decided or recorded then.
func (s *State) Limited(agent bcp.AgentName, m bcp.Moment) bool { return s.limited(agent, s.now(m)) }

// Told says what of a Controller's words content may have chosen: nothing, if told is
// false; else as much as all can carry (capacity) that was released to it since it last
// said that it began anew. It is [bcp.MaxBits] for one that may have read content itself.
func (s *State) Told(controller bcp.AgentName, m bcp.Moment) (bits bcp.Bits, told bool) {
	a := s.agents[controller]
	if a == nil || bcp.MaxTaint(a.definition.BaseTaint, a.reported) != bcp.TaintLow {
		return bcp.MaxBits * bcp.Bit, true
	}
	_, bits = a.learnt(s.now(m))
	return bits, bits > 0
}

// Anew is [State.Told] for a Controller that begins anew with this message.
func (s *State) Anew(controller bcp.AgentName, m bcp.Moment) (bits bcp.Bits, told bool) {
	a := s.agents[controller]
	if bits, told = s.Told(controller, m); !told || bits >= bcp.MaxBits*bcp.Bit {
		return bits, told
	}
	then := agentState{asks: a.asks, pastAsks: a.pastAsks, told: bits}
	then.forget(s.now(m))
	return then.told, then.told > 0
}

// HasForgotten reports whether a Controller said that it began anew since a time, in Unix
// nanoseconds: what it is told again of before counts again.
func (s *State) HasForgotten(controller bcp.AgentName, since int64) bool {
	a := s.agents[controller]
	return a != nil && a.forgot > 0 && a.forgot >= since
}

// DecideContent records that a Reader is given content by a kernel: it has read what
// anybody may have written. It is false if its taint is high already.
func (s *State) DecideContent(m bcp.Moment, reader bcp.AgentName) (bcp.Decision, bool) {
	a := s.agents[reader]
	if a == nil || bcp.MaxTaint(a.definition.BaseTaint, a.reported) == bcp.TaintHigh {
		return bcp.Decision{}, false
	}
	d := s.next(m, bcp.KindTaint)
	d.Target, d.Event, d.Taint, d.Verdict = reader, taintContent, bcp.TaintHigh, bcp.Accept
	return d, true
}

// taintContent is where the taint of a Reader comes from that was given content.
const taintContent = "content"

// Runs returns the state of the runs of kernels.
func (s *State) Runs() *kernel.State { return s.runs }

// DecideRun makes the decision of what a kernel decided about a message of somebody, or about
// none.
func (s *State) DecideRun(m bcp.Moment, c *kernel.Change, from bcp.AgentName, message []byte) bcp.Decision {
	d := s.next(m, c.Kind)
	if s.runs.Record(&d, c, from); len(message) > 0 {
		d.RawBytes, d.RawCommitment = len(message), d.Commit(message)
	}
	return d
}

func (s *State) applyRun(d *bcp.Decision) error {
	if d.Run == nil || !d.Kind.IsRun() {
		return errors.New("the decision is of a run and says nothing of it, or the other way round")
	}
	if !s.ApplyCall(d) {
		return errUnfounded
	}
	if d.Item != "" {
		gone := decidedItem{id: d.Item, at: d.Time, code: bcp.AlreadyDecided}
		if d.Run.From == "" { // time did
			gone.code = bcp.ItemExpired
		}
		s.decided = append(s.decided, gone)
	}
	if a := s.allAgents[d.Agent]; a != nil && d.SessionBegins {
		s.settleArrivals(a, d.Time)
		a.forget(d.Time)
	}
	if a := s.allAgents[cmp.Or(d.Agent, s.runs.Requester(d.Run.Run))]; a != nil && d.Capacity > 0 {
		s.settleArrivals(a, d.Time) // the end itself is told at once, and begins no session
		a.hear(&arrival{at: d.Time, late: true, exposure: d.Taint, told: d.Capacity}, s.idleTimeout())
	}
	seen, err := s.runs.ApplyRun(d)
	s.see(d, seen)
	return err
}

// openRuns makes the state of runs of what a checkpoint saved.
func (s *State) openRuns(saved []bcp.SavedRun) (err error) {
	if s.runs, err = kernel.Restore(saved, kernel.OfMesh(s.mesh)...); err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	s.runs.EndorseBy(s.EndorsedCall)
	return nil
}
