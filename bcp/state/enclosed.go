package state

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The sealed values of answers to Controllers (PROTOCOL P3.12). The state has them as the
// journal does, sealed under the key of their channel and day: no snapshot holds them in
// the clear, and an erasure takes them without finding them.

// maxEnvelopes is of how many answers a session keeps what is sealed, the newest.
const maxEnvelopes = 64

// envelope is what was sealed of one answer.
type envelope struct {
	controller, reader bcp.AgentName
	session            bcp.SessionID // that it came in; empty until it is released
	seq                uint64        // of the answer's decision
	time, release      int64
	values             int
	handed             uint64 // bit i: value i was handed to a person
	sealed             []byte // as in the record
}

// enclose keeps what is sealed of an answer that is applied.
func (s *State) enclose(d *bcp.Decision) {
	if len(d.Enclosed) == 0 {
		return
	}
	e := &envelope{controller: d.Controller, reader: d.Reader, seq: d.Seq, time: d.Time, release: max(d.Time, d.Release), values: len(d.Enclosed), sealed: d.Sealed}
	if e.release <= d.Time {
		e.session = s.allAgents[d.Controller].session.id
	}
	s.envelopes[d.Delivery] = e
}

// findEnclosed returns what a handle of a Controller stands for: it came with an answer to
// it in its session of now.
func (s *State) findEnclosed(controller bcp.AgentName, h bcp.Handle, now int64) (e *envelope, i int) {
	id, i, ok := h.Parse()
	if e = s.envelopes[id]; !ok || e == nil || e.controller != controller || s.channels[bcp.ChannelKey{Controller: controller, Reader: e.reader}] == nil || i >= e.values {
		return nil, 0
	}
	session := s.sessionAt(s.agents[controller], now)
	released := e.session == session.id || e.session == "" && session.since <= e.release && e.release <= now
	if !released || !session.openAt(now, int64(s.mesh.IdleTimeout)) {
		return nil, 0
	}
	return e, i
}

// Enclosing returns the answer that has a handle's value among its [bcp.Private.Enclosed],
// still sealed, and the value's place.
func (s *State) Enclosing(h bcp.Handle) (d bcp.Decision, i int, ok bool) {
	id, i, _ := h.Parse()
	e := s.envelopes[id]
	if e == nil || i >= e.values {
		return bcp.Decision{}, 0, false
	}
	return bcp.Decision{Seq: e.seq, Time: e.time, Agent: e.reader, Controller: e.controller, Reader: e.reader, Sealed: e.sealed}, i, true
}

// handles are those in the arguments of an ask. A kernel has none: its arguments may have
// texts that content chose.
func (s *State) handles(controller bcp.AgentName, spec *bcp.Spec) []bcp.Handle {
	if s.mesh.IsKernel(controller) {
		return nil
	}
	return spec.Handles()
}

// hand judges that a Controller hands a sealed value to a person. The item's id follows
// from the handle, so that a value handed twice is one item, also if it is seen by then:
// what a person does shows nowhere.
func (s *State) hand(d bcp.Decision, h bcp.Handle) bcp.Decision {
	d.Kind = bcp.KindHand
	e, i := s.findEnclosed(d.Controller, h, d.Time)
	if e == nil {
		return refuse(d, bcp.CheckHandle, bcp.UnknownHandle)
	}
	content, err := json.Marshal(h)
	if err != nil {
		return refuse(d, bcp.CheckHandle, bcp.UnknownHandle)
	}
	id, _, _ := h.Parse()
	d.Reader, d.Category, d.Spec, d.Taint = e.reader, 1, content, bcp.TaintHigh
	d.Verdict, d.Item, d.Repeat = bcp.Hold, bcp.ItemID("i"+string(id[1:])+"-"+strconv.Itoa(i)), e.handed&(1<<i) != 0
	d.Deadline = d.Time + int64(s.channels[bcp.ChannelKey{Controller: d.Controller, Reader: e.reader}].definition.ApprovalTTL)
	return d
}

// used returns the answers whose sealed values wait for a person, or go with open queries.
func (s *State) used() map[bcp.DeliveryID]bool {
	used := make(map[bcp.DeliveryID]bool)
	note := func(h bcp.Handle) {
		if id, _, ok := h.Parse(); ok {
			used[id] = true
		}
	}
	for _, it := range s.items {
		if it.Kind == bcp.ItemHanded {
			note(bcp.HandleOf(it.content))
		}
	}
	for _, q := range s.open {
		var spec bcp.Spec
		if bytes.Contains(q.spec, []byte(bcp.HandlePrefix)) && json.Unmarshal(q.spec, &spec) == nil {
			for _, h := range spec.Handles() {
				note(h)
			}
		}
	}
	return used
}

// dropEnvelopes forgets what a Controller cannot hand on any more, and nobody waits for:
// as its session begins or ends, and with each such answer. With an erasure, so that what
// is left follows from what is not erased.
func (s *State) dropEnvelopes(d *bcp.Decision) {
	a := s.allAgents[d.Controller]
	if len(s.envelopes) == 0 || a == nil || !d.SessionBegins && !d.SessionEnds && len(d.Enclosed) == 0 && d.Kind != bcp.KindErase {
		return
	}
	used := s.used()
	var kept []bcp.DeliveryID
	for id, e := range s.envelopes {
		switch {
		case e.controller != d.Controller || used[id]:
		case e.session != "" && (e.session != a.session.id || !a.session.openAt(d.Time, s.idleTimeout())):
			delete(s.envelopes, id)
		default:
			kept = append(kept, id)
		}
	}
	slices.SortFunc(kept, func(a, b bcp.DeliveryID) int { return cmp.Compare(s.envelopes[b].seq, s.envelopes[a].seq) })
	for _, id := range kept[min(len(kept), maxEnvelopes):] {
		delete(s.envelopes, id)
	}
}
