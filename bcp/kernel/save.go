package kernel

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// ErrSaved says that bytes are no saved state.
var ErrSaved = errors.New("kernel: no saved state")

// savedState is what is saved of all runs together.
type savedState struct {
	Time     int64          `record:"time"`
	Requests []savedRequest `record:"requests"`
}

type savedRequest struct {
	requestKey
	request
}

// said are the parts of what is saved that have fields that are kept apart, in their order.
func (s *savedState) said() (parts []any) {
	for i := range s.Requests {
		parts = append(parts, &s.Requests[i])
	}
	return parts
}

// said is as that of a savedState. The value of a step that asks nobody follows from others.
func (r *run) said() []any {
	parts := []any{r}
	for _, f := range r.Frames {
		parts = append(parts, f)
		for i := range f.Done {
			if s := (&Step{Kind: f.Done[i].Kind}); !s.local() {
				parts = append(parts, &f.Done[i])
			}
		}
	}
	for _, made := range r.Results {
		parts = append(parts, made)
	}
	return parts
}

// Save returns the whole state, without the definitions: two states are the same if and
// only if what they save is. What agents and people said is apart, so that it can be sealed
// as it is in the records: of a run under the day when it began, of requests under that of
// the newest. Of a state without history nothing is saved.
func (s *State) Save() []bcp.SavedRun {
	if s.time == 0 {
		return nil
	}
	head, newest := savedState{Time: s.time}, int64(0)
	for key, r := range s.requests {
		head.Requests, newest = append(head.Requests, savedRequest{key, r}), max(newest, r.At)
	}
	slices.SortFunc(head.Requests, func(a, b savedRequest) int {
		return cmp.Or(cmp.Compare(a.Kernel, b.Kernel), cmp.Compare(a.Requester, b.Requester), cmp.Compare(a.ID, b.ID))
	})
	out := []bcp.SavedRun{save(newest, &head)}
	for _, r := range s.sorted() {
		out = append(out, save(r.Began, r))
	}
	return out
}

// Restore returns the state that was saved, under the definitions of these kernels. Of what
// was said and is erased it has nothing, as of records.
func Restore(saved []bcp.SavedRun, kernels ...*Kernel) (*State, error) {
	s := NewState(kernels...)
	if len(saved) == 0 {
		return s, nil
	}
	var head savedState
	if !restore(&saved[0], &head) {
		return nil, ErrSaved
	}
	s.time = head.Time
	for i := range saved[1:] {
		r := &run{}
		if !restore(&saved[1+i], r) || len(r.Frames) == 0 || s.runs[r.ID] != nil {
			return nil, ErrSaved
		}
		s.runs[r.ID] = r
		s.index(r)
		for _, over := range r.Settled {
			s.calls[over.Call] = r.ID
		}
		if call := r.Wait.call(); call != "" {
			s.calls[call] = r.ID
		}
	}
	for _, r := range head.Requests {
		s.requests[r.requestKey] = r.request
		s.told[r.Requester] = append(s.told[r.Requester], requestEnd{r.At, r.requestKey})
	}
	slices.SortFunc(s.ended, runAt.compare)
	for _, told := range s.told {
		slices.SortFunc(told, requestEnd.compare)
	}
	heap.Init(&s.deadline)
	if !slices.EqualFunc(s.Save(), saved, func(a, b bcp.SavedRun) bool {
		return a.At == b.At && bytes.Equal(a.Open, b.Open) && (bytes.Equal(a.Said, b.Said) || len(b.Said) == 0)
	}) {
		return nil, ErrSaved
	}
	return s, nil
}

// saved is a part of the state that is saved by itself.
type saved interface{ said() []any }

func save(at int64, part saved) bcp.SavedRun {
	out, some := bcp.SavedRun{At: at, Open: appendRecord(nil, part)}, false
	said := []byte("[")
	for _, p := range part.said() {
		said = encode(wire.AppendSep(said), p, true)
		some = some || !bytes.HasSuffix(said, []byte("{}"))
	}
	if some {
		out.Said = append(said, ']')
	}
	return out
}

// restore reads what was saved. What was said is left out where it was erased.
func restore(from *bcp.SavedRun, part saved) bool {
	if !parseRecord(from.Open, part) {
		return false
	}
	if len(from.Said) == 0 {
		return true
	}
	said, err := ParseValue(from.Said)
	parts := part.said()
	if err != nil || len(said.list) != len(parts) {
		return false
	}
	for i := range parts {
		if !decode(&said.list[i], parts[i], true) {
			return false
		}
	}
	return true
}
