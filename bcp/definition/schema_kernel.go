package definition

import (
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// kernelKeys are those of kernels, rules and tools.
func kernelKeys() []Key {
	d := kernel.DefaultLimits()
	count := func(name string, least, most int64, field func(*kernel.Limits) any, doc string) Key {
		return Key{Level: LevelLimits, Name: name, Type: TypeInteger, Min: least, Max: most, Default: strconv.Itoa(*field(&d).(*int)), Rule: "K3", field: of(field), Doc: doc}
	}
	keys := []Key{
		{Level: LevelKernel, Name: "planner", Type: TypeName, Required: true, Rule: "K1, K8", field: of(func(d *kernel.Definition) any { return &d.Planner }),
			Doc: "The agent that answers tasks with plans; without channels."},
		{Level: LevelKernel, Name: "sub_planner", Type: TypeName, DefaultRule: "none: plans have no sub-runs", Rule: "K8, DUAL-11", field: of(func(d *kernel.Definition) any { return &d.SubPlanner }),
			Doc: "The agent that plans sub-runs from content; without channels."},
		{Level: LevelKernel, Name: "requesters", Type: TypeNameLists, Min: 1, Max: 1000, Required: true, Rule: "K2, K9",
			Doc: "The agents that may start runs, each with the grants that it may name."},
		{Level: LevelKernel, Name: "requires_role", Type: TypeNameLists, Min: 0, Max: 1000, DefaultRule: "nothing is required", Rule: "P14.2, DUAL-91",
			Doc: "Role requirements, by requester."},
		{Level: LevelKernel, Name: "grants", Type: TypeNameLists, Min: 1, Max: 64, Required: true, Rule: "K2, K5",
			Doc: "Sets of capabilities, by name."},
		{Level: LevelKernel, Name: "schemas", Type: TypeNamedObjects, Child: LevelParse, Min: 0, Max: kernel.MaxSchemas, DefaultRule: "none: plans ask no Reader", Rule: "K2",
			Doc: "What plans may ask Readers, by name."},
		{Level: LevelKernel, Name: "result", Type: TypeObject, Child: LevelResult, DefaultRule: "none: they hear how a run ended", Rule: "K2, K9",
			Doc: "What requesters hear of the value of a run."},
		{Level: LevelKernel, Name: "results", Type: TypeNamedObjects, Child: LevelResult, Min: 1, Max: 16, DefaultRule: "none", Rule: "K2, K9",
			Doc: "In place of result: a plan names one."},
		{Level: LevelKernel, Name: "limits", Type: TypeObject, Child: LevelLimits, DefaultRule: "each at its default", Rule: "K3", field: of(func(d *kernel.Definition) any { return &d.Limits }),
			Doc: "Of each run, with its sub-runs and later plans."},
		{Level: LevelKernel, Name: "control_budget_bits", Type: TypeInteger, Min: 0, Max: kernel.MaxControlBits, Default: "0", Rule: "F1", field: of(func(d *kernel.Definition) any { return &d.Limits.ControlBits }),
			Doc: "Bits by which content may steer a run, by steps when and each."},
		{Level: LevelKernel, Name: "grant_limits", Type: TypeNamedObjects, Child: LevelGrant, Min: 0, Max: 64, DefaultRule: "none: the kernel's hold", Rule: "F1",
			Doc: "Limits of single grants, by name."},
		{Level: LevelGrant, Name: "control_budget_bits", Type: TypeInteger, Min: 0, Max: kernel.MaxControlBits, Required: true, Rule: "F1",
			Doc: "As of the kernel; the smaller counts."},
		{Level: LevelKernel, Name: "rules", Type: TypeObjects, Child: LevelRule, Min: 0, Max: kernel.MaxRules, DefaultRule: "none: content goes where it may flow alone", Rule: "K6",
			Doc: "Rules of the gate."},
		{Level: LevelKernel, Name: "approvers", Type: TypeNames, Min: 1, Max: 256, DefaultRule: "all approvers of the mesh", Rule: "K10", field: of(func(d *kernel.Definition) any { return &d.Approvers }),
			Doc: "Who may decide about its calls."},

		{Level: LevelParse, Name: "reader", Type: TypeName, Required: true, Rule: "K2",
			Doc: "The Reader that answers; the kernel has a channel to it."},
	}
	for _, k := range meshKeys {
		if k.Level != LevelSubscription {
			continue
		}
		result := k
		switch k.Level, result.Level = LevelParse, LevelResult; k.Name {
		case "category":
			k.Max, k.Doc = 2, "1 or 2, and at most the channel's max_category."
			result.Max, result.Doc = k.Max, k.Doc
			keys = append(keys, result)
		case "fields", "questions", "max_words", "constraints":
			keys = append(keys, result)
		case "allow_not_enough_information":
			k.DefaultRule, k.Doc = "true", "Lets the Reader answer that the content does not say."
		default:
			continue
		}
		keys = append(keys, k)
	}
	return append(append(keys, trustKeys...),
		count("max_steps", 1, 4096, func(l *kernel.Limits) any { return &l.MaxSteps }, "Steps of all accepted plans of a run."),
		count("max_effects", 0, 1024, func(l *kernel.Limits) any { return &l.MaxEffects }, "Calls of any level."),
		count("max_q_parses", 0, 1024, func(l *kernel.Limits) any { return &l.MaxParses }, "Questions to Readers."),
		count("max_depth", 0, kernel.MaxDepth, func(l *kernel.Limits) any { return &l.MaxDepth }, "The depth of nested sub-runs."),
		count("max_plans", 1, 100, func(l *kernel.Limits) any { return &l.MaxPlans }, "How often the planner is asked."),
		count("max_planner_bits", 0, 1_000_000, func(l *kernel.Limits) any { return &l.MaxPlannerBits }, "Bits in the errors that the planner hears."),
		count("max_questions", 0, 256, func(l *kernel.Limits) any { return &l.MaxQuestions }, "How often plans may ask the requester (ask_requester)."),
		count("max_value_bytes", 1, kernel.MaxContent, func(l *kernel.Limits) any { return &l.MaxValueBytes }, "Bytes of one value, in canonical JSON."),
		count("max_pending_approvals", 0, 10_000, func(l *kernel.Limits) any { return &l.MaxPendingApprovals }, "Items that may wait for people."),
		Key{Level: LevelLimits, Name: "planner_timeout", Type: TypeDuration, Min: 1, Max: hour, Default: "1m", Rule: "K3", field: of(func(l *kernel.Limits) any { return &l.PlannerTimeout }),
			Doc: "How long a plan may take."},
		Key{Level: LevelLimits, Name: "run_ttl", Type: TypeDuration, Min: 1, Max: 30 * day, Default: "15m", Rule: "K3", field: of(func(l *kernel.Limits) any { return &l.RunTTL }),
			Doc: "How long a run may take, not counting the time that people take."},
		Key{Level: LevelLimits, Name: "approval_ttl", Type: TypeDuration, Min: minute, Max: year, Default: "24h", Rule: "K10", field: of(func(l *kernel.Limits) any { return &l.ApprovalTTL }),
			Doc: "How long an item waits for a person."},

		Key{Level: LevelRule, Name: "id", Type: TypeText, Min: 1, Max: 64, Required: true, Rule: "K6", field: of(func(r *kernel.Rule) any { return &r.ID }),
			Doc: "Names the rule in records: letters, digits, hyphens and underscores."},
		Key{Level: LevelRule, Name: "effect", Type: TypeWord, Words: []string{"forbid", "declassify", "ask"}, Required: true, Rule: "K6", field: of(func(r *kernel.Rule) any { return &r.Effect }),
			Doc: "Whether a call for which it holds is forbidden, let through with content, or asked of a person. Rules of mesh.yaml only forbid."},
		Key{Level: LevelRule, Name: "tool", Type: TypeText, Min: 1, Max: 64, Required: true, Rule: "K6", field: of(func(r *kernel.Rule) any { return &r.Tool }),
			Doc: "The tool; \"*\" means all."},
		Key{Level: LevelRule, Name: "when", Type: TypeText, Min: 1, Max: bcp.MaxConstraintBytes, Required: true, Rule: "K6", field: of(func(r *kernel.Rule) any { return &r.When }),
			Doc: "CEL condition (kernel-reference.md)."},
		Key{Level: LevelRule, Name: "reads", Type: TypeWord, Words: []string{"data"}, DefaultRule: "labels alone", Rule: "K6, C-23", field: of(func(r *kernel.Rule) any { return &r.ReadsData }),
			Doc: "data: reads values that content chose; not in a rule that declassifies."},
		Key{Level: LevelRule, Name: "control_bits", Type: TypeInteger, Min: 0, Max: kernel.MaxControlBits, Default: "0", Rule: "F1", field: of(func(r *kernel.Rule) any { return &r.ControlBits }),
			Doc: "Bits of control that it takes."},
		Key{Level: LevelRule, Name: "because", Type: TypeText, Min: 0, Max: 4000, DefaultRule: "empty", Rule: "K6", field: of(func(r *kernel.Rule) any { return &r.Because }),
			Doc: "Tells people the reason."},
		Key{Level: LevelRule, Name: "examples", Type: TypeObject, Child: LevelExamples, Required: true, Rule: "K6",
			Doc: "Calls tried whenever it is loaded."},
		Key{Level: LevelExamples, Name: "yes", Type: TypeCalls, Min: 1, Max: 64, Required: true, Rule: "K6", field: of(func(r *kernel.Rule) any { return &r.Yes }),
			Doc: "Calls for which it holds: args by name, requester, run."},
		Key{Level: LevelExamples, Name: "no", Type: TypeCalls, Min: 1, Max: 64, Required: true, Rule: "K6", field: of(func(r *kernel.Rule) any { return &r.No }),
			Doc: "Calls for which it does not."},

		Key{Level: LevelService, Name: "service", Type: TypeName, Required: true, Rule: "K2", field: of(func(s *bcp.Service) any { return &s.Name }),
			Doc: "Names the service; no agent's name."},
		Key{Level: LevelService, Name: "command", Type: TypeTexts, Min: 1, Max: 256, DefaultRule: "somebody else starts it", Rule: "K2", field: of(func(s *bcp.Service) any { return &s.Command }),
			Doc: "What the mesh starts to serve the tools, such as bcpmesh tool -- ./mail.py."},
		Key{Level: LevelService, Name: "environment", Type: TypeTexts, Min: 1, Max: 64, DefaultRule: "none", Rule: "P7.5", field: of(func(s *bcp.Service) any { return &s.Environment }),
			Doc: "Environment variables that the command gets besides PATH, HOME and the like."},
		Key{Level: LevelService, Name: "sandbox", Type: TypeWord, Words: []string{"none", "own"}, DefaultRule: "a command needs it, but for sudo -u, docker and the like", Rule: "P7.5", field: of(func(s *bcp.Service) any { return &s.Sandbox }),
			Doc: "What confines the command, as of an agent."},
		Key{Level: LevelService, Name: "tools", Type: TypeObjects, Child: LevelTool, Min: 1, Max: kernel.MaxTools, Required: true, Rule: "K2",
			Doc: "Its tools."},

		Key{Level: LevelTool, Name: "name", Type: TypeText, Min: 1, Max: 64, Required: true, Rule: "K2", field: of(func(t *kernel.Tool) any { return &t.Name }),
			Doc: "Unique in the mesh: letters, digits and underscores, no digit first."},
		Key{Level: LevelTool, Name: "description", Type: TypeText, Min: 0, Max: 4000, DefaultRule: "empty", Rule: "K8", field: of(func(t *kernel.Tool) any { return &t.Description }),
			Doc: "Says to planners what the tool does."},
		Key{Level: LevelTool, Name: "input_schema", Type: TypeClosed, Required: true, Rule: "K2", field: of(func(t *kernel.Tool) any { return &t.Input }),
			Doc: "The arguments: an object. critical: true marks who gets something or what is changed."},
		Key{Level: LevelTool, Name: "output_schema", Type: TypeClosed, Required: true, Rule: "K2", field: of(func(t *kernel.Tool) any { return &t.Output }),
			Doc: "The result. Its width bounds what content can choose in it."},
		Key{Level: LevelTool, Name: "required_caps", Type: TypeTexts, Min: 0, Max: 16, DefaultRule: "none; a tool that writes needs one", Rule: "K2, K5", field: of(func(t *kernel.Tool) any { return &t.RequiredCaps }),
			Doc: "Capabilities that a run needs: a-z, 0-9, dot, hyphen and underscore."},
		Key{Level: LevelTool, Name: "effect_level", Type: TypeWord, Words: []string{"pure", "read", "write"}, Required: true, Rule: "K2", field: of(func(t *kernel.Tool) any { return &t.Level }),
			Doc: "Whether the tool computes, reads content, or changes something."},
		Key{Level: LevelTool, Name: "egress", Type: TypeBoolean, Default: "true", Rule: "K6",
			Doc: "false: a read keeps its arguments to itself, so they are not judged."},
		Key{Level: LevelTool, Name: "result_readers", Type: TypeTexts, Min: 0, Max: 64, DefaultRule: "none", Rule: "K2, K4", field: of(func(t *kernel.Tool) any { return &t.Readers }),
			Doc: "Capabilities of tools into which its result may flow, but for critical arguments, and addresses of people who may read it."},
		Key{Level: LevelTool, Name: "result_subjects", Type: TypeChoices, Words: []string{"user", "third_party"}, Min: 1, Max: 2, DefaultRule: "nobody's", Rule: "K4",
			Doc: "Whose data its result is."},
		Key{Level: LevelTool, Name: "result_trusted", Type: TypeBoolean, Default: "false", Rule: "K4", field: of(func(t *kernel.Tool) any { return &t.Trusted }),
			Doc: "Its result is as trusted as its arguments."},
		Key{Level: LevelTool, Name: "idempotency", Type: TypeWord, Words: []string{"free", "key", "none"}, DefaultRule: "free for pure and read, none for write", Rule: "K2, K7", field: of(func(t *kernel.Tool) any { return &t.Idempotency }),
			Doc: "After a call without an outcome: free calls again, key with the same key; none waits for a person."},
		Key{Level: LevelTool, Name: "timeout", Type: TypeDuration, Min: 1, Max: hour, Default: "30s", Rule: "K2", field: of(func(t *kernel.Tool) any { return &t.Timeout }),
			Doc: "How long a call may take."},
		Key{Level: LevelExecution, Name: "role", Type: TypeWord, Words: []string{"planner", "processor", "orchestrator"}, Required: true, Rule: "DUAL-3", field: of(func(x *bcp.Execution) any { return &x.Role }),
			Doc: "A planner makes plans, a processor is a Reader, an orchestrator is a kernel."},
		Key{Level: LevelExecution, Name: "type", Type: TypeWord, Words: []string{"deterministic_interpreter"}, DefaultRule: "required for an orchestrator", Rule: "DUAL-89", field: of(func(x *bcp.Execution) any { return &x.Type }),
			Doc: "What kind of orchestrator it is."},
		Key{Level: LevelExecution, Name: "model_family", Type: TypeText, Min: 1, Max: 256, DefaultRule: "none", Rule: "DUAL-87, DUAL-88", field: of(func(x *bcp.Execution) any { return &x.ModelFamily }),
			Doc: "Which models it uses; not proven."},
		Key{Level: LevelExecution, Name: "contract", Type: TypeText, Min: 1, Max: 64, DefaultRule: "planner-v1, processor-v1 or orchestrator-v1, by its role", Rule: "DUAL-5, DUAL-46", field: of(func(x *bcp.Execution) any { return &x.Contract }),
			Doc: "Built in, or a file in contracts, without .json."},

		Key{Level: LevelTool, Name: "parsers", Type: TypeNames, Min: 1, Max: 64, DefaultRule: "all", Rule: "K8", field: of(func(t *kernel.Tool) any { return &t.Parsers }),
			Doc: "The Readers that may get its result."},
	)
}
