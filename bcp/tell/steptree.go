package tell

import (
	"fmt"
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
	stepDone  = "done"
	stepBegun = "begun"
)

// StepNode is a step in the tree of its plan, or the case or the element that steps are in,
// which has no kind and no state. The words are a planner's.
type StepNode struct {
	Name, Kind string
	Bits       bcp.Bits
	State      string
	Inside     []*StepNode
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
		if s.Kind == kernel.EndStep.Word() {
			continue
		}
		n := in.child(parts[len(parts)-1])
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

// TreeLines draws a tree in lines, behind how each step of a run is.
func TreeLines(tree []*StepNode) []string {
	return appendTree(nil, tree, len(tree) > 0 && tree[0].State != "", "")
}

func appendTree(lines []string, tree []*StepNode, ran bool, indent string) []string {
	for _, n := range tree {
		line := indent + n.Name
		if ran {
			line = fmt.Sprintf("%-*s", len(stepBegun)+2, n.State) + line
		}
		if n.Kind == "" {
			line += ":"
		} else {
			line += "  " + n.Kind
		}
		if n.Bits > 0 {
			line += "  " + n.Bits.String()
		}
		lines = appendTree(append(lines, line), n.Inside, ran, indent+"  ")
	}
	return lines
}

// Tree is what was done of the newest plan of the run.
func (r *RunStory) Tree() []*StepNode { return StepTree(r.steps) }

// trace notes what a record says of steps: a new plan begins anew.
func (r *RunStory) trace(c *kernel.Change) {
	if c.Plan != nil && c.Plan.Attempt > 0 {
		r.steps = nil
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
		r.steps = append(r.steps, TreeStep{s.Path, s.Kind.Word(), s.Bits, state})
	}
}
