package tell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// TreeStep is a step of a plan, or of what a run did of one, by its path.
type TreeStep struct {
	Path, Kind string
	Bits       bcp.Bits // what a when or an each costs
	State      string   // one of the words below; empty in a plan that is not run
}

// How a step of a run is.
const (
	stepDone       = "done"
	stepBegun      = "begun"
	stepNotTaken   = "not taken"
	stepNotReached = "not reached"
)

// StepNode is a step in the tree of its plan, or the case or the element that steps are in,
// which has no kind, and no state but that the run did not come there. The words are a
// planner's.
type StepNode struct {
	Name, Kind string
	Bits       bcp.Bits
	State      string
	// Most is how many elements an each of a known plan may have; those that were begun are
	// Elements.
	Elements, Most int
	Inside         []*StepNode

	ended bool // a when or an each, and all that was done in it
}

// StepTree nests steps by their paths, in their order: the check of a plan, the story of a
// run and its page draw this tree.
func StepTree(steps []TreeStep) []*StepNode {
	root := &StepNode{}
	for i := range steps {
		s := &steps[i]
		in, parts := root, strings.Split(s.Path, "/")
		for _, part := range parts[:len(parts)-1] {
			in = in.child(part)
		}
		n := in.child(parts[len(parts)-1])
		if s.Kind == string(kernel.EndStep) {
			n.ended = s.State == stepDone
			continue
		}
		n.Kind, n.Bits = s.Kind, s.Bits
		if n.State != stepDone {
			n.State = s.State
		}
	}
	return root.Inside
}

// child returns the newest part of a node with a name, which it makes if there is none.
func (n *StepNode) child(name string) *StepNode {
	for _, c := range n.Inside {
		if c.Name == name {
			return c
		}
	}
	n.Inside = append(n.Inside, &StepNode{Name: name})
	return n.Inside[len(n.Inside)-1]
}

// complete adds to what a run did in a node the steps of its plan that it did not do, which
// are in a state. In elements of loops, all of which have the same steps, a case that was not
// taken is named alone.
func (n *StepNode) complete(steps []kernel.Step, state string, inLoop bool) {
	ran := n.Inside
	n.Inside = nil
	for i := range steps {
		s := &steps[i]
		at := slices.IndexFunc(ran, func(r *StepNode) bool { return r.Name == s.ID })
		if at < 0 {
			n.Inside = append(n.Inside, &StepNode{Name: s.ID, Kind: string(s.Kind), State: state})
		} else {
			n.Inside = append(n.Inside, ran[at])
			ran = slices.Delete(ran, at, at+1)
		}
		switch step := n.Inside[len(n.Inside)-1]; s.Kind {
		case kernel.WhenStep:
			step.completeCases(s.Flow, state, inLoop)
		case kernel.EachStep:
			step.completeElements(s.Flow, state)
		}
	}
	n.Inside = append(ran, n.Inside...) // the element itself, which is no step of the plan
}

func (n *StepNode) completeCases(f *kernel.Flow, state string, inLoop bool) {
	ran := n.Inside
	if n.Inside = nil; len(ran) > 0 || n.ended {
		state = stepNotTaken
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		if at := slices.IndexFunc(ran, func(r *StepNode) bool { return r.Name == c.Name }); at >= 0 {
			ran[at].complete(c.Steps, stepNotReached, inLoop)
			n.Inside = append(n.Inside, ran[at])
			continue
		}
		missed := &StepNode{Name: c.Name, State: state}
		switch {
		case len(c.Steps) == 0 && len(ran) == 0 && n.ended:
			missed.State = "" // it may have been this one: nothing is done in it
		case !inLoop || state != stepNotTaken:
			missed.complete(c.Steps, state, inLoop)
		}
		n.Inside = append(n.Inside, missed)
	}
}

func (n *StepNode) completeElements(f *kernel.Flow, state string) {
	n.Elements, n.Most = len(n.Inside), f.Max
	if n.ended {
		state = stepNotTaken // the list was empty
	}
	for _, element := range n.Inside {
		element.complete(f.Cases[0].Steps, stepNotReached, true)
	}
	if n.Elements == 0 {
		body := n.child("0")
		body.State = state
		body.complete(f.Cases[0].Steps, state, true)
	}
}

// TreeLines draws a tree in lines, behind how each step of a run is.
func TreeLines(tree []*StepNode) []string {
	return appendTree(nil, tree, len(tree) > 0 && tree[0].State != "", "")
}

func appendTree(lines []string, tree []*StepNode, ran bool, indent string) []string {
	for _, n := range tree {
		line := indent + n.Name
		if ran {
			line = fmt.Sprintf("%-*s", len(stepNotReached)+2, n.State) + line
		}
		if n.Kind == "" {
			line += ":"
		} else {
			line += "  " + n.Kind
		}
		if n.Bits > 0 {
			line += "  " + n.Bits.String()
		}
		if n.Most > 0 {
			line += "  " + n.Count()
		}
		lines = appendTree(append(lines, line), n.Inside, ran, indent+"  ")
	}
	return lines
}

// Count says how many elements of an each were begun.
func (n *StepNode) Count() string { return fmt.Sprintf("%d of at most %d", n.Elements, n.Most) }

// Missed says that the run did not come to a step, a case or an element.
func (n *StepNode) Missed() bool { return n.State == stepNotTaken || n.State == stepNotReached }

// Tree is the newest plan of the run, with what was done of it; where the records were not
// opened, it is that alone.
func (r *RunStory) Tree() []*StepNode {
	root := &StepNode{Inside: StepTree(r.steps)}
	if r.plan != nil {
		root.complete(r.plan.Steps, stepNotReached, false)
	}
	return root.Inside
}

// trace notes what a record says of steps: a new plan begins anew.
func (r *RunStory) trace(c *kernel.Change) {
	if c.Plan != nil && c.Plan.Attempt > 0 {
		r.steps = nil
		r.plan, _ = kernel.ParsePlan(c.Private.Plan) // it was accepted, so it is right if it is there
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Early {
			continue
		}
		state := stepBegun
		if s.Done {
			state = stepDone
		}
		r.steps = append(r.steps, TreeStep{s.Path, string(s.Kind), s.Bits, state})
	}
}
