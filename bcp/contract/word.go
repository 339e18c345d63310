package contract

// words is the closed table of what a contract may list as capability or as
// prohibited, with the predicate that shows that a role keeps to the prohibition.
var words = []struct {
	word  string
	shown func(Role) Predicate // nil: it is a capability, and nothing shows that a role lacks it
}{
	// The draft's capabilities of a planner.
	{"generate_plan", nil},
	{"select_tools", nil},
	{"define_schemas_for_processor", nil},
	{"call_print_for_user_output", nil},
	// What it prohibits a planner.
	{"access_tool_outputs", neverSees(ToolOutputs)},
	{"access_external_data", neverSees(ExternalData)},
	{"communicate_with_processor_directly", func(r Role) Predicate { return predicate(OnlyMessages, r, Processor, []string{}) }},
	{"modify_orchestrator_state", func(r Role) Predicate { return predicate(OnlyMessages, r, Orchestrator, saysToOrchestrator[r]) }},
	// The draft's capabilities of a processor.
	{"parse_unstructured_to_structured", nil},
	{"signal_insufficient_information", nil},
	// What it prohibits a processor.
	{"call_tools", func(r Role) Predicate { return predicate(HasNone, r, "tools") }},
	{"see_user_query", neverSees(UserQuery)},
	{"send_arbitrary_text_to_planner", func(r Role) Predicate {
		return predicate(OnlyMessages, r, Planner, []string{"structured_data", "not_enough_information"})
	}},
	{"access_other_tool_outputs", neverSees(ToolOutputs)},
	// Ours, of an orchestrator.
	{"execute_plan", nil},
	{"enforce_policies", nil},
	{"maintain_data_flow_graph", nil},
	{"report_error_types", nil},
	{"use_model", func(r Role) Predicate { return predicate(Deterministic, r) }},
	{"decide_on_content", func(r Role) Predicate { return predicate(DecidesOn, r, "metadata") }},
	{"send_content_to_planner", func(r Role) Predicate { return predicate(OnlyMessages, r, Planner, []string{"plan_request", "error"}) }},
	{"make_effect_without_verdict", func(Role) Predicate { return predicate(Gated, "effects") }},
}

// saysToOrchestrator is what each role may tell the orchestrator, which changes its
// own state alone.
var saysToOrchestrator = map[Role][]string{
	Planner: {"plan"}, Processor: {"structured_data", "not_enough_information"}, Tool: {"outcome"}, User: {"task"},
}

func neverSees(data Column) func(Role) Predicate {
	return func(r Role) Predicate { return predicate(NeverReceives, r, data) }
}

// Words returns the words of contracts for what a role can do and never does.
func Words() []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = w.word
	}
	return all
}

// prohibition returns the predicate that shows that a role never does what a word
// says, or none.
func prohibition(role Role, word string) Predicate {
	for _, w := range words {
		if w.word == word && w.shown != nil {
			return w.shown(role)
		}
	}
	return Predicate{}
}
