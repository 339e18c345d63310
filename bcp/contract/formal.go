package contract

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// formals are the formulas that have a predicate. All others say nothing.
var formals = map[string]Predicate{
	squeeze("∀ step ∈ plan: planner.context ∩ tool_outputs = ∅"):          predicate(NeverReceives, Planner, ToolOutputs),
	squeeze("plan = f(user_query, tool_signatures)"):                      predicate(FunctionOf, "planner.output", []string{"user_query", "tool_signatures"}),
	squeeze("planner.output ∈ restricted_python_subset"):                  predicate(Conforms, "planner.output", planSchema),
	squeeze("processor.tools = ∅"):                                        predicate(HasNone, Processor, "tools"),
	squeeze("processor.output ∈ schema(planner.request)"):                 predicate(Conforms, "processor.output", requestedSchema),
	squeeze("processor → planner: only {structured_data, NotEnoughInfo}"): predicate(OnlyMessages, Processor, Planner, []string{"structured_data", "not_enough_information"}),
	squeeze("∀ effect ∃ recorded allow before it"):                        predicate(Gated, "effects"),
	squeeze("orchestrator.decisions = f(metadata)"):                       predicate(DecidesOn, Orchestrator, "metadata"),
}

// squeeze writes a formula in the form in which it is looked up: NFC, without white
// space.
func squeeze(formal string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, norm.NFC.String(formal))
}
