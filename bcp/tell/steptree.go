package tell

import (
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// TreeStep is a step of a plan, or of what a run did of one, by its path.
type TreeStep struct {
	Path, Kind string
	Bits       bcp.Bits // what a when or an each costs
	Done       bool
}

// StepNode is a step in the tree of its plan, or the case or the element that steps are in,
// which has no kind. The words are a planner's.
type StepNode struct {
	Name, Kind string
	Bits       bcp.Bits
	Done       bool
	Inside     []*StepNode
}

// StepTree nests steps by their paths, in their order: the check of a plan, the story of a
// run and its page draw this tree.
func StepTree(steps []TreeStep) []*StepNode {
	root := &StepNode{}
	for i := range steps {
		s := &steps[i]
		if s.Kind == kernel.EndStep.Word() {
			continue
		}
		in, parts := root, strings.Split(s.Path, "/")
		for _, part := range parts[:len(parts)-1] {
			in = in.child(part)
			in.Done = in.Done || s.Done
		}
		n := in.child(parts[len(parts)-1])
		n.Kind, n.Bits, n.Done = s.Kind, s.Bits, n.Done || s.Done
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

// TreeLines draws a tree in lines.
func TreeLines(tree []*StepNode) []string { return appendTree(nil, tree, "") }

func appendTree(lines []string, tree []*StepNode, indent string) []string {
	for _, n := range tree {
		line := indent + n.Name
		if n.Kind == "" {
			line += ":"
		} else {
			line += "  " + n.Kind
		}
		if n.Bits > 0 {
			line += "  " + n.Bits.String()
		}
		lines = appendTree(append(lines, line), n.Inside, indent+"  ")
	}
	return lines
}

// Tree is what the run did of its newest plan.
func (r *RunStory) Tree() []*StepNode { return StepTree(r.steps) }

// trace notes what a record says of steps: a new plan begins anew.
func (r *RunStory) trace(c *kernel.Change) {
	if c.Plan != nil && c.Plan.Attempt > 0 {
		r.steps = nil
	}
	for i := range c.Steps {
		if s := &c.Steps[i]; !s.Early {
			r.steps = append(r.steps, TreeStep{s.Path, s.Kind.Word(), s.Bits, s.Done})
		}
	}
}
