package bcp

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Runs is the state of the runs of kernels: like the rest of a [State] it follows from
// the records, in their order, and from nothing else. A State owns it.
type Runs interface {
	// ApplyRun makes the change that a decision has as its Run.
	ApplyRun(d *Decision) error
	// Save returns the whole state: the same bytes for the same state, and none where
	// there was no run.
	Save() []byte
	// OpenSince counts the runs that began before a time, Unix nanoseconds, and have not
	// ended: what they said may not be erased.
	OpenSince(before int64) int

	// Items returns the calls that wait for people, in any order, and Item one of them.
	Items() []RunItem
	Item(id ItemID) (RunItem, bool)
	// Result reads the response of a person who says what a call returned, in
	// canonical JSON.
	Result(id ItemID, response []byte) (canonical []byte, ok bool)
	// DecideItem decides what a person decided about an item, whose right and signature
	// are judged before: [Approve] makes the call, [RejectItem] does not, and [EditItem]
	// takes the result in content for its own.
	DecideItem(m Moment, id ItemID, act Act, by AgentName, content []byte) RunMessage
}

// OpenRuns makes the state of the kernels' runs: of what [Runs.Save] returned, or of
// nothing. It is safe for concurrent use.
type OpenRuns func(saved []byte) (Runs, error)

// RunChange is what a decision says of a run of a kernel. What it changed is in
// Change, which package kernel writes and reads; what was said is in
// [Private.RunSaid].
type RunChange struct {
	Run    string    `msgpack:"r,omitempty" json:"run_id,omitempty"`
	Kernel AgentName `msgpack:"k,omitempty" json:"kernel,omitempty"`
	// From is the agent, planner, tool service or person that sent the message; empty for
	// what time or a start decided.
	From AgentName `msgpack:"f,omitempty" json:"from,omitempty"`
	// Code says why the message was refused, in a word of package kernel.
	Code string `msgpack:"c,omitempty" json:"code,omitempty"`
	// Alert says what people should look at, in a word of package kernel.
	Alert string `msgpack:"a,omitempty" json:"alert,omitempty"`
	// Held is the item that the run waits for a person about from now on.
	Held   ItemID         `msgpack:"i,omitempty" json:"held_item,omitempty"`
	Change jsontext.Value `msgpack:"h,omitempty" json:"change,omitzero"`
}

// KernelRights are what a kernel needs of the server: who may start its runs, who plans
// them, and which tools it calls.
type KernelRights struct {
	Kernel, Planner AgentName
	Approvers       []AgentName // may decide about its calls
	Runs            []RunRight
	Calls           []CallRight
}

// RunRight lets a requester start runs with a grant.
type RunRight struct {
	Requester AgentName
	Grant     string
}

// CallRight lets a kernel call a tool of a service.
type CallRight struct {
	Service AgentName
	Tool    string
}

// TypeRun is the type of the messages about a run.
const TypeRun = "bcp_run"

// RunOpen is the status of a run that has not ended.
const RunOpen = "open"

// RunReceipt answers a requester, and tells it how a run ended.
type RunReceipt struct {
	Type  string `json:"type"`
	RunID string `json:"run_id,omitempty"`
	// Status is open, or how the run ended, in a word of package kernel.
	Status string `json:"status,omitempty"`
	// Code says why it was refused, or did not commit.
	Code string `json:"code,omitempty"`
}

// IsRun reports whether decisions of the kind are about a run of a kernel.
func (k DecisionKind) IsRun() bool { return k >= KindRun && k <= KindOutcome }

// RunMessage is a message to a kernel, or what time decided, as it is to be recorded.
type RunMessage struct {
	Kind   DecisionKind
	Agent  AgentName // a requester; empty for others
	Role   Role
	Body   []byte // empty for what no message asked for
	Change RunChange
	Said   []byte // the private part of the change, in JSON
	Item   ItemID // what waited for a person, and does not any more
}

// JournalTime is the time of the next decision: that of m, unless the journal is ahead.
func (s *State) JournalTime(m Moment) time.Time { return time.Unix(0, s.now(m)) }

// Limited reports whether an agent used up its refusals of this minute (PROTOCOL P4.7):
// nothing of it is decided or recorded then.
func (s *State) Limited(agent AgentName, m Moment) bool { return s.limited(agent, s.now(m)) }

// Told reports whether a Controller may have been told something by a Reader: what it
// writes may be a Reader's choice then.
func (s *State) Told(controller AgentName) bool {
	a := s.agents[controller]
	return a == nil || MaxTaint(a.definition.BaseTaint, MaxTaint(a.reported, a.exposure)) != TaintLow || a.session.begun && len(a.session.releases) > 0
}

// DecideContent records that a Reader is given content by a kernel: it has read what
// anybody may have written. It is false if its taint is high already.
func (s *State) DecideContent(m Moment, reader AgentName) (Decision, bool) {
	a := s.agents[reader]
	if a == nil || MaxTaint(a.definition.BaseTaint, a.reported) == TaintHigh {
		return Decision{}, false
	}
	d := s.next(m, KindTaint)
	d.Target, d.Event, d.Taint, d.Verdict = reader, taintContent, TaintHigh, Accept
	return d, true
}

// taintContent is where the taint of a Reader comes from that was given content.
const taintContent = "content"

// Runs returns the state of the runs that Config.Runs made; nil without one.
func (s *State) Runs() Runs { return s.runs }

// DecideRun makes the decision of what a kernel decided.
func (s *State) DecideRun(m Moment, r RunMessage) Decision {
	d := s.next(m, r.Kind)
	d.Agent, d.Role, d.Run, d.Verdict = r.Agent, r.Role, &r.Change, Accept
	if r.Change.Code != "" {
		d.Verdict = Reject
	}
	d.Item = r.Item
	if d.RunSaid = r.Said; len(r.Body) > 0 {
		d.RawBytes, d.RawCommitment = len(r.Body), d.Commit(r.Body)
	}
	return d
}

var errNotARun = errors.New("the decision is of a run and says nothing of it, or the other way round")

func (s *State) applyRun(d *Decision) error {
	if d.Run == nil || !d.Kind.IsRun() {
		return errNotARun
	}
	if d.Item != "" {
		gone := decidedItem{id: d.Item, at: d.Time, code: AlreadyDecided}
		if d.Run.From == "" { // time did
			gone.code = ItemExpired
		}
		s.decided = append(s.decided, gone)
	}
	if s.runs == nil {
		s.runsUnkept = true
		return nil
	}
	return s.runs.ApplyRun(d)
}

// openRuns makes the state of runs of what a checkpoint saved.
func (s *State) openRuns(c Config, saved []byte) error {
	if c.Runs == nil {
		s.runsUnkept = len(saved) > 0
		return nil
	}
	runs, err := c.Runs(saved)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	s.runs = runs
	return nil
}

var errRunsUnkept = errors.New("the journal has runs of kernels, which this state does not keep")

// saveRuns returns what a checkpoint holds of runs.
func (s *State) saveRuns() ([]byte, error) {
	switch {
	case s.runsUnkept:
		return nil, errRunsUnkept
	case s.runs == nil:
		return nil, nil
	default:
		return s.runs.Save(), nil
	}
}
