package tell

import (
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// PlanLines tells a plan, a step a line, in the planner's own words: whoever shows them
// makes them inert. It returns none for what is no plan.
func PlanLines(plan []byte) []string {
	p, fault := kernel.ParsePlan(plan)
	if fault.Code != "" {
		return nil
	}
	return append(appendLines(nil, p.Steps, ""), "final: "+p.Final)
}

// appendLines tells steps, those in others behind them with what they are for.
func appendLines(lines []string, steps []kernel.Step, before string) []string {
	for i := range steps {
		s := &steps[i]
		lines = append(lines, before+s.ID+" = "+stepText(s))
		for j := 0; s.Flow != nil && j < len(s.Flow.Cases); j++ {
			c := &s.Flow.Cases[j]
			inside := before + s.ID + " / "
			switch {
			case c.Else:
				inside += "else / "
			case s.Kind == kernel.WhenStep:
				inside += c.Value + " / "
			}
			lines = appendLines(lines, c.Steps, inside)
		}
	}
	return lines
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
	case kernel.AskStep:
		return "the requester's answer: " + questionsText(s.Asks.Spec.Questions)
	case kernel.ResultStep:
		return "returns " + refText(&s.Source) + " as " + s.Schema
	case kernel.MergeStep:
		return inputsText(s.Inputs)
	case kernel.WhenStep:
		return "by " + refText(&s.Source) + givesText(", gives ", s.Flow.Out)
	case kernel.EachStep:
		return "for each " + s.Flow.As + " of " + refText(&s.Source) + ", at most " + strconv.Itoa(s.Flow.Max) + givesText(", gives lists ", s.Flow.Out)
	default:
		return "unknown"
	}
}

func questionsText(questions []bcp.Question) string {
	var texts []string
	for i := range questions {
		texts = append(texts, questions[i].ID+": "+QuestionText(&questions[i]))
	}
	return strings.Join(texts, "; ")
}

func givesText(before string, out []kernel.NamedRef) string {
	if len(out) == 0 {
		return ""
	}
	return before + inputsText(out)
}

func inputsText(inputs []kernel.NamedRef) string {
	var texts []string
	for i := range inputs {
		texts = append(texts, inputs[i].Name+": "+refText(&inputs[i].Ref))
	}
	return "{" + strings.Join(texts, ", ") + "}"
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
