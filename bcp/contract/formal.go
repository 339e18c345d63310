package contract

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// formals are the formulas that have a predicate. All others say nothing.
var formals = map[string]Predicate{
	normaliseFormula("∀ step ∈ plan: planner.context ∩ tool_outputs = ∅"):          predicate(NeverReceives, Planner, ToolOutputs),
	normaliseFormula("plan = f(user_query, tool_signatures)"):                      predicate(FunctionOf, "planner.output", []string{"user_query", "tool_signatures"}),
	normaliseFormula("planner.output ∈ restricted_python_subset"):                  predicate(Conforms, "planner.output", planSchema),
	normaliseFormula("processor.tools = ∅"):                                        predicate(HasNone, Processor, "tools"),
	normaliseFormula("processor.output ∈ schema(planner.request)"):                 predicate(Conforms, "processor.output", requestedSchema),
	normaliseFormula("processor → planner: only {structured_data, NotEnoughInfo}"): predicate(OnlyMessages, Processor, Planner, []string{"structured_data", "not_enough_information"}),
	normaliseFormula("∀ effect ∃ recorded allow before it"):                        predicate(Gated, "effects"),
	normaliseFormula("orchestrator.decisions = f(metadata)"):                       predicate(DecidesOn, Orchestrator, "metadata"),
}

// normaliseFormula writes a formula in the form in which it is looked up: NFC, without white
// space.
func normaliseFormula(formal string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, norm.NFC.String(formal))
}
