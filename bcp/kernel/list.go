package kernel

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A person who is asked about a call of a loop is also shown the later calls of the same
// loop, as far as all their arguments are known (PROTOCOL P7.10). Each is an item of its
// own, with its own bytes, so that one signature of several decisions (PROTOCOL P7.7) can be
// of the whole list, in any order. A call that a person let through ahead of its turn is not held when
// its turn comes, if it is that very call. All others are.

// Leave lets one call of a loop through when its turn comes.
type Leave struct {
	Key   bcp.Digest    `record:"key"`   // of the call: its tool and arguments follow from it
	Step  string        `record:"step"`  // the full path, in the loop
	By    bcp.AgentName `record:"by"`    // who gave it
	Until int64         `record:"until"` // journal time
}

// loopOf returns the path of the outermost each that a step is in, with a slash behind it;
// it is empty for one that is in none.
func (c *Checked) loopOf(i int) string {
	loop := ""
	for s := &c.view.plan.Steps[i]; s.under > 0; {
		if s = &c.view.plan.Steps[s.under-1]; s.Kind == EachStep {
			loop = c.frame.path(s.id()) + "/"
		}
	}
	return loop
}

// elementOf returns which element of the innermost each a step is for, from 1, and of how
// many; zeros for a step that is in none.
func (c *Checked) elementOf(i int) (element, of int) {
	for s := &c.view.plan.Steps[i]; s.under > 0; {
		by := &c.view.plan.Steps[s.under-1]
		if by.Kind == EachStep {
			name, _, _ := strings.Cut(strings.TrimPrefix(s.scope, by.id()+"/"), "/")
			n, _ := strconv.Atoi(name)
			for _, end := range c.view.plan.Steps[s.under:] { // a case that was taken has made what is between shorter
				if end.Kind == EndStep && end.index == s.under-1 {
					return n + 1, len(end.scopes)
				}
			}
			return 0, 0
		}
		s = by
	}
	return 0, 0
}

// listed is the id of the item of a call of a loop: the same before its turn and in it, and
// another in another plan.
func (r *run) listed(key bcp.Digest) string {
	sum := sha256.Sum256(binary.AppendUvarint(key[:], uint64(r.Totals.Plans)))
	return "i" + hex.EncodeToString(sum[:12])
}

// later visits the calls of the loop that the run waits for a person in, or makes a call in
// that one let through, behind that call: those that a person will have to decide about and
// whose arguments are all known.
func (s *State) later(r *run, visit func(g *given) bool) {
	k := s.kernels[r.Start.Kernel]
	if k == nil || r.End != nil || r.Wait.Kind != WaitApproval && !(r.Wait.Kind == WaitTool && r.Wait.Approved) || !strings.Contains(r.Wait.Step, "/") {
		return
	}
	d := &draft{state: s, kernel: k, run: r.copy(), change: &Change{}}
	if _, fault, _ := d.build(); fault.Code != "" {
		return
	}
	f := d.run.top()
	c, first := f.checked, len(f.Done)
	loop := c.loopOf(first)
	if loop == "" {
		return
	}
	v := view{plan: f.view.plan, query: f.view.query, own: f.view.own, nodes: slices.Concat(f.view.nodes, c.view.nodes[first:])}
	keys := append(f.keys(), r.Wait.Key)
	for i := first + 1; i < len(v.plan.Steps); i++ {
		step := &v.plan.Steps[i]
		if !strings.HasPrefix(c.frame.path(step.id()), loop) {
			return
		}
		if step.forks() { // what it leads to is not known before
			i += step.span + 1
			continue
		}
		if step.Kind == ItemStep || step.Kind == MergeStep {
			if n, code := f.checked.local(&v, step, v.nodes[i].at); code == "" {
				v.nodes[i] = n
			}
		}
		if step.Kind != ToolStep {
			continue
		}
		g, code := d.prepare(f, &v, step, v.nodes[i].at, keys)
		if code != "" || !g.isGiven() {
			continue
		}
		keys = append(keys, g.record.Key)
		if _, made := r.value(g.record.Key); made || r.leave(g.record.Key) != nil {
			continue
		}
		g.element, g.elements = c.elementOf(i)
		if k.Gate().Judge(&g.call).Ruling == NeedPerson && !visit(&g) {
			return
		}
	}
}

// laterCall returns the call of a loop that is listed under an id, and its run.
func (s *State) laterCall(id string) (of *run, found *given) {
	for _, r := range s.runs {
		s.later(r, func(g *given) bool {
			if r.listed(g.record.Key) == id {
				of, found = r, g
			}
			return found == nil
		})
		if found != nil {
			return of, found
		}
	}
	return nil, nil
}

// leave returns what lets a call through that a person decided about before its turn.
func (r *run) leave(key bcp.Digest) *Leave {
	return find(r.Leaves, func(l *Leave) bool { return l.Key == key })
}

// isLeft reports whether a call was let through before its turn, by somebody who still may.
func (d *draft) isLeft(g *given) bool {
	l := d.run.leave(g.record.Key)
	return l != nil && l.Step == g.record.Path && d.change.Time < l.Until && slices.Contains(d.kernel.definition.Approvers, l.By)
}

// decideLater takes a person's leave for a call before its turn, until a time.
func (s *State) decideLater(m bcp.Moment, id string, by bcp.AgentName, until int64) Change {
	r, g := s.laterCall(id)
	if r == nil {
		return s.refused(m, bcp.KindStep, id, UnknownItem)
	}
	d, ok := s.begin(m, bcp.KindStep, r)
	d.change.Input = id
	if ok {
		d.run.Deadline = r.Deadline
		d.change.Leave = &Leave{Key: g.record.Key, Step: g.record.Path, By: by, Until: until}
		d.run.Leaves = append(d.run.Leaves, *d.change.Leave)
	}
	return d.decided()
}
