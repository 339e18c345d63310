package tell

import (
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// PlanLines tells a plan, a step a line, in the planner's own words: whoever shows them
// makes them inert. It returns none for what is no plan.
func PlanLines(plan []byte) []string {
	p, fault := kernel.ParsePlan(plan)
	if fault.Code != "" {
		return nil
	}
	var lines []string
	for i := range p.Steps {
		s := &p.Steps[i]
		lines = append(lines, s.ID+" = "+stepText(s))
	}
	return append(lines, "final: "+p.Final)
}

func stepText(s *kernel.Step) string {
	switch s.Kind {
	case kernel.ConstStep:
		return string(s.Value.JSON())
	case kernel.ToolStep:
		var args []string
		for i := range s.Args {
			args = append(args, s.Args[i].Name+": "+argText(&s.Args[i].Arg))
		}
		return s.Tool + "(" + strings.Join(args, ", ") + ")"
	case kernel.ParseStep:
		return "a reader's " + s.Schema + " of " + refText(&s.Source) + ": " + s.Instruction
	case kernel.SubStep:
		return "a sub-run over " + refText(&s.Source) + ": " + s.Instruction
	case kernel.MergeStep:
		var inputs []string
		for i := range s.Inputs {
			inputs = append(inputs, s.Inputs[i].Name+": "+refText(&s.Inputs[i].Ref))
		}
		return "{" + strings.Join(inputs, ", ") + "}"
	default:
		return "unknown"
	}
}

func argText(a *kernel.Arg) string {
	switch {
	case a.Ref != nil:
		return refText(a.Ref)
	case a.Scalar != nil:
		return string(a.Scalar.JSON())
	}
	var list []string
	for i := range a.List {
		list = append(list, argText(&a.List[i]))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func refText(r *kernel.Ref) string {
	if r.Path == "" {
		return r.Step
	}
	return r.Step + "." + r.Path
}
