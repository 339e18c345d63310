package kernel

import (
	"cmp"
	"container/heap"
	"errors"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// State is what all changes made: the runs that are open, and for a day those that
// ended. Decide methods read it and change nothing; Apply alone changes it. It is
// not safe for concurrent use.
type State struct {
	kernels  map[bcp.AgentName]*Kernel
	prepared *OwnRules // of the message that is decided about
	made     *Change   // what was decided last, until it is applied
	endorsed func(bcp.EndorsedCall) *bcp.EndorseChange
	own      map[RunID]compiledOwn
	time     int64
	runs     map[RunID]*run
	waiting  map[string]RunID // by the id of what is waited for
	calls    map[string]RunID // by the id of the call
	pending  map[bcp.AgentName]int
	openBy   map[string]int // runs that have not ended, by their requesters
	requests map[requestKey]request
	deadline timers
	ended    []runAt                 // in the order of time, then of ids
	told     map[string][]requestEnd // by requester, in the order of time, then of ids
}

type requestKey struct {
	Kernel    bcp.AgentName `record:"kernel"`
	Requester string        `record:"requester"`
	ID        bcp.ClientID  `record:"id"`
}

// request is what became of a message with a request id.
type request struct {
	Digest bcp.Digest `record:"digest,said"`
	Run    RunID      `record:"run"`
	Code   Code       `record:"code"`
	At     int64      `record:"at"`
	// status is how its run ended, and why says why: the run is forgotten earlier.
	Status Status `record:"status"`
	Why    Code   `record:"why"`
}

// runAt is when a run may be due, or when it was over and from when on it is forgotten.
type runAt struct {
	at  int64
	run RunID
}

func (e runAt) compare(o runAt) int {
	return cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(e.run, o.run))
}

// requestEnd is a request id that is free again after a day.
type requestEnd struct {
	at  int64
	key requestKey
}

func (e requestEnd) compare(o requestEnd) int {
	return cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(e.key.ID, o.key.ID), cmp.Compare(e.key.Kernel, o.key.Kernel))
}

// NewState returns the state before the first change, under the definitions of
// these kernels.
func NewState(kernels ...*Kernel) *State {
	s := &State{
		made: &Change{}, runs: map[RunID]*run{}, waiting: map[string]RunID{}, calls: map[string]RunID{}, pending: map[bcp.AgentName]int{},
		own: map[RunID]compiledOwn{}, openBy: map[string]int{}, requests: map[requestKey]request{}, told: map[string][]requestEnd{},
	}
	s.Define(kernels...)
	return s
}

// Define replaces the definitions. Runs that are open go on under them: a plan that
// cannot run any more is a bad plan then.
func (s *State) Define(kernels ...*Kernel) {
	s.kernels = map[bcp.AgentName]*Kernel{}
	for _, k := range kernels {
		s.kernels[k.Name()] = k
	}
}

// ErrChange says that a change does not follow from the state.
var ErrChange = errors.New("kernel: the change does not follow from the state")

// Apply makes a recorded change. It needs no definitions: the state is the same
// whatever they are. A change that does not follow is an error, and changes
// nothing.
func (s *State) Apply(c *Change) error {
	if c.Time < s.time {
		return ErrChange
	}
	old := s.runs[c.Run]
	if c.Code != "" {
		s.time = c.Time
		s.remember(c)
		s.prune()
		return nil
	}
	next := c.next
	if next == nil || c.from != old {
		var err error
		if next, err = c.fold(old); err != nil {
			return err
		}
	}
	s.time = c.Time
	s.forget(old)
	s.runs[c.Run] = next
	s.remember(c)
	s.index(next)
	s.prune()
	return nil
}

// fold returns what the change makes of a run.
func (c *Change) fold(old *run) (*run, error) {
	var r *run
	switch {
	case c.Start != nil && old == nil:
		r = begin(c)
	case c.Start == nil && old != nil && old.End == nil:
		r = old.copy()
	default:
		return nil, ErrChange
	}
	if c.Result != nil {
		value, err := c.Private.value(c.Private.Value)
		if err != nil {
			return nil, err
		}
		r.setResult(c.Result, c.Attempt, value)
	}
	if c.Plan != nil {
		r.accept(c.Private.Plan)
	}
	subs := c.Private.Sub
	for i := range c.Steps {
		st := &c.Steps[i]
		if !st.Done {
			continue
		}
		value, _ := r.value(st.Key)
		if st.Kind == SubStep && len(subs) > 0 {
			var err error
			if value, err = c.Private.value(subs[0]); err != nil {
				return nil, err
			}
			subs = subs[1:]
		}
		if !r.finish(st, value) {
			return nil, ErrChange
		}
	}
	if c.Told != nil {
		r.addPlanError(*c.Told, c.Private.Plan)
	}
	if c.Sub != nil {
		content, err := c.Private.value(c.Private.Content)
		if err != nil {
			return nil, err
		}
		r.open(*c.Sub, c.Private.Instruction, content)
	}
	r.Totals, r.Deadline = c.Totals, c.Deadline
	switch {
	case c.End != nil:
		r.stop(*c.End, c.Time)
	case c.Wait != nil:
		r.Wait, r.Args = *c.Wait, c.Private.Arguments
	}
	if c.Leave != nil {
		r.Leaves = append(r.Leaves, *c.Leave)
	}
	return r, nil
}

// value reads a private value; it is nil if it was erased.
func (p *Private) value(b []byte) (*Value, error) {
	if b == nil {
		return nil, nil
	}
	v, err := ParseValue(b)
	if err != nil {
		return nil, ErrChange
	}
	return &v, nil
}

// forget takes an old form of a run out of the indexes.
func (s *State) forget(r *run) {
	if r == nil || r.End != nil {
		return
	}
	delete(s.waiting, r.Wait.ID)
	if s.openBy[r.Start.Requester.Name]--; s.openBy[r.Start.Requester.Name] == 0 {
		delete(s.openBy, r.Start.Requester.Name)
	}
	if r.Wait.Kind.Person() {
		s.pending[r.Start.Kernel]--
	}
}

// index finds the run by what it waits for, and when it is due.
func (s *State) index(r *run) {
	if r.End != nil {
		delete(s.own, r.ID)
		s.ended = insert(s.ended, runAt{r.Ended, r.ID}, runAt.compare)
		key := requestKey{r.Start.Kernel, r.Start.Requester.Name, r.Start.Request}
		if asked, known := s.requests[key]; known && asked.Run == r.ID {
			asked.Status, asked.Why = r.End.Status, r.End.Code
			s.requests[key] = asked
		}
		return
	}
	s.waiting[r.Wait.ID] = r.ID
	s.openBy[r.Start.Requester.Name]++
	switch r.Wait.Kind {
	case WaitTool:
		s.calls[r.Wait.ID] = r.ID
	case WaitApproval, WaitDoubt, WaitQuestion:
		s.pending[r.Start.Kernel]++
	}
	heap.Push(&s.deadline, runAt{r.due(), r.ID})
}

// remember notes what became of a message with a request id, of which each requester has
// its newest.
func (s *State) remember(c *Change) {
	if c.Start == nil || c.Start.Request == "" {
		return
	}
	key := requestKey{c.Start.Kernel, c.Start.Requester.Name, c.Start.Request}
	if _, known := s.asked(key, c.Time); known {
		return
	}
	told := s.told[key.Requester]
	for len(told) > 0 && (len(told) >= MaxRequests || c.Time-told[0].at >= int64(runMemory)) {
		delete(s.requests, told[0].key)
		told = told[1:]
	}
	run := c.Run
	if c.Code != "" {
		run = ""
	}
	s.requests[key] = request{Digest: c.Private.Digest, Run: run, Code: c.Code, At: c.Time}
	s.told[key.Requester] = insert(told, requestEnd{c.Time, key}, requestEnd.compare)
}

// insert adds to a list that is in order.
func insert[T any](list []T, one T, compare func(T, T) int) []T {
	at, _ := slices.BinarySearchFunc(list, one, compare)
	return slices.Insert(list, at, one)
}

// asked returns what became of a message, for a day.
func (s *State) asked(key requestKey, now int64) (request, bool) {
	r, known := s.requests[key]
	return r, known && now-r.At < int64(runMemory)
}

// prune forgets what ended more than a day ago, the oldest of more runs than are kept,
// and timers of what is over.
func (s *State) prune() {
	for len(s.ended) > 0 && (len(s.ended) > maxEndedRuns || s.time-s.ended[0].at >= int64(runMemory)) {
		for _, c := range s.runs[s.ended[0].run].Settled {
			delete(s.calls, c.Call)
		}
		delete(s.runs, s.ended[0].run)
		s.ended = s.ended[1:]
	}
	for len(s.deadline) > 0 {
		r := s.runs[s.deadline[0].run]
		if r != nil && r.due() == s.deadline[0].at {
			return
		}
		heap.Pop(&s.deadline)
	}
}

// timers are a heap. It may have several of one run; those that do not hold any more are
// dropped when they come up.
type timers []runAt

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].compare(t[j]) < 0 }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(runAt)) }
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}
