package kernel

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// ReleaseKind says what is released. The zero value is nothing.
type ReleaseKind uint8

// What a recorded change can release.
const (
	NoRelease      ReleaseKind = iota
	ReleaseReply               // to the requester, about its message
	ReleasePlan                // a request to the planner
	ReleaseSubPlan             // a request to the sub-planner
	ReleaseParse               // an ask of the kernel, as a Controller, to a Reader
	ReleaseCall                // to a tool, over its dispatcher
	ReleaseItem                // to the people who may decide
	ReleaseOutcome             // the end of a run, to its requester
)

// Release is one thing that follows from a change that was stored. Sent again it is
// the same.
type Release struct {
	Kind   ReleaseKind
	Run    RunID
	Kernel bcp.AgentName
	Agent  bcp.AgentName // planner, sub-planner, Reader or requester
	// Wait is what the run then waits for.
	Wait Wait
	// Body is the message to a planner, sub-planner or tool, in canonical JSON.
	Body []byte
	// Tool is the tool of a call, with its service, or that an item is about.
	Tool *Tool
	// Arguments are those of a call, in canonical JSON, and Labels theirs; an item
	// shows both, with the rules.
	Arguments []byte
	Judged    *StepRecord
	// Call is a call as the gate judged it, for a dispatcher that asks the gate once
	// more ([Release.Allowed]); nil if the definitions of today have no such call.
	Call *Call

	// Of an ask to a Reader: the spec, the instruction, and the content, as text or
	// canonical JSON.
	Schema      *Schema
	Instruction string
	Content     []byte

	// End is how the run ended; Final is its value, where it was committed.
	End   *End
	Final []byte
	// Code is that of a refusal; Place is what a [BadRule] is about.
	Code  Code
	Place *RulePlace
}

// Releases returns what follows from a change that was stored and applied.
func (s *State) Releases(c *Change) []Release {
	var out []Release
	if c.Start != nil {
		out = append(out, Release{Kind: ReleaseReply, Run: c.Run, Agent: bcp.AgentName(c.Start.Requester.Name), Code: c.Code, Place: c.Place})
	}
	r := s.runs[c.Run]
	if r == nil || c.Code != "" {
		return out
	}
	switch {
	case c.End != nil:
		out = append(out, Release{Kind: ReleaseOutcome, Run: r.ID, Kernel: r.Start.Kernel, Agent: bcp.AgentName(r.Start.Requester.Name), End: c.End, Final: c.Private.Final})
	case c.Wait != nil:
		release := s.waitingFor(r)
		release.Judged = find(c.Steps, func(s *StepRecord) bool { return s.Path == c.Wait.Step && s.Judged != nil && !s.Early })
		out = append(out, release)
	}
	return out
}

// Waiting returns what the run waits for that has this id, if one does: sent again it
// is the same.
func (s *State) Waiting(id string) (Release, bool) {
	r := s.runs[s.waiting[id]]
	if r == nil || r.End != nil || r.Wait.ID != id {
		return Release{}, false
	}
	return s.waitingFor(r), true
}

// Receipt is what a requester may know of its run, for a day after its end; of one that is
// forgotten, how it ended, if that is given.
func (s *State) Receipt(id RunID, ended *End) (receipt bcp.RunReceipt, known bool) {
	receipt = bcp.RunReceipt{Type: bcp.TypeRun, RunID: string(id), Status: bcp.RunOpen}
	r, known := s.runs[id]
	if known {
		ended = r.End
	}
	switch {
	case ended != nil:
		receipt.Status, receipt.Code = string(ended.Status), string(ended.Code)
	case known && r.Wait.Kind == WaitQuestion:
		receipt.Waits = bcp.WaitsForRequester
		if asks := r.asks(); asks != nil {
			receipt.QuestionID, receipt.Questions = bcp.ItemID(r.Wait.ID), asks.Spec.Questions
		}
	case known && r.Wait.Kind.Person():
		receipt.Waits = bcp.WaitsForPerson
	}
	return receipt, known
}

// Ended returns when a run ended, in Unix nanoseconds: 0 of one that is open or forgotten.
func (s *State) Ended(id RunID) int64 {
	if r := s.runs[id]; r != nil {
		return r.Ended
	}
	return 0
}

// Kernels returns the definitions of today, by name.
func (s *State) Kernels() map[bcp.AgentName]*Kernel { return s.kernels }

// Pending returns what runs wait for that is asked again after a restart: planners,
// Readers and people. Calls are not: see [State.DecideRestart].
func (s *State) Pending() []Release {
	var out []Release
	for _, r := range s.sorted() {
		if r.End == nil && r.Wait.Kind != WaitTool {
			out = append(out, s.waitingFor(r))
		}
	}
	return out
}

// sorted returns the runs by id.
func (s *State) sorted() []*run {
	return slices.SortedFunc(maps.Values(s.runs), func(a, b *run) int { return cmp.Compare(a.ID, b.ID) })
}

// waitingFor returns the release that the run waits for the answer to. It is a function of
// the run and the definitions.
func (s *State) waitingFor(r *run) Release {
	w, args := r.Wait, r.Args
	out := Release{Run: r.ID, Kernel: r.Start.Kernel, Agent: w.Agent, Wait: w, Arguments: args}
	k := s.kernels[r.Start.Kernel]
	if k == nil {
		return out // the next decision about it ends it
	}
	switch w.Kind {
	case WaitPlanner:
		out.Kind, out.Body = ReleasePlan, k.planRequest(r)
	case WaitSubPlanner:
		f := r.top()
		out.Kind, out.Body, out.Instruction, out.Content = ReleaseSubPlan, k.subPlanRequest(r), f.Instruction, contentBytes(f.Content)
	case WaitTool:
		out.Kind, out.Tool, out.Body = ReleaseCall, k.tools[w.Tool], callMessage(&w, args)
		out.Call = s.openCall(k, r)
	case WaitApproval, WaitDoubt, WaitQuestion:
		out.Kind, out.Tool = ReleaseItem, k.tools[w.Tool]
	case WaitReader:
		out.Kind = ReleaseParse
		if _, g := s.waitsAt(k, r); g != nil && g.content != nil {
			out.Schema, out.Instruction, out.Content = g.schema, g.step.Instruction, contentBytes(g.content)
		}
	}
	return out
}

// Judge decides about calls: a [Gate], in everything but a test of what holds without
// one.
type Judge interface{ Judge(c *Call) Verdict }

// Allowed reports whether a gate lets the call of a release pass, or a person did
// where it asks for one, or endorsed what may be. What does the calls asks, whatever was recorded.
func (r *Release) Allowed(g Judge) bool {
	if g == nil || r.Call == nil || r.Kind != ReleaseCall {
		return false
	}
	v := g.Judge(r.Call)
	return v.Ruling == Allow || v.Ruling == NeedPerson && (r.Wait.Approved || r.Wait.Endorsed != "" && r.Tool.person(r.Call, &v) == "")
}

// waitsAt returns the innermost frame of a run with the step that it waits for and, of a
// call or a parse, what that is given, under the definitions of today; nil if they do not
// have it.
func (s *State) waitsAt(k *Kernel, r *run) (*frame, *given) {
	d := &draft{state: s, kernel: k, run: r.copy(), change: &Change{}}
	if !d.ready() {
		return nil, nil
	}
	f := d.run.top()
	step, at := f.next()
	if step.Kind != ToolStep && step.Kind != ParseStep {
		return f, nil
	}
	g, code := d.prepare(f, &f.view, step, at, nil)
	if code != "" {
		return f, nil
	}
	return f, &g
}

// openCall returns the call that a run waits for the outcome of.
func (s *State) openCall(k *Kernel, r *run) *Call {
	_, g := s.waitsAt(k, r)
	if g == nil || g.tool == nil || g.bytes == nil || string(g.bytes) != string(r.Args) {
		return nil
	}
	return &g.call
}

// known reports whether all arguments have a value.
func known(args []Argument) bool {
	return !slices.ContainsFunc(args, func(a Argument) bool { return a.Value == nil })
}

// contentBytes is content as a processor gets it: a text as it is, anything else in
// canonical JSON.
func contentBytes(v *Value) []byte {
	switch {
	case v == nil:
		return nil
	case v.kind == TextValue:
		return []byte(v.text)
	default:
		return v.JSON()
	}
}

// planRequest is what the planner gets. Nothing in it is content, or made of it,
// but the codes of errors: for the same task and tools it is the same, but for its
// id (DUAL-58).
func (k *Kernel) planRequest(r *run) []byte {
	told := List()
	for _, e := range r.Told {
		step := Null()
		if e.Step != "" {
			step = Text(e.Step)
		}
		told.list = append(told.list, object(member{"attempt", Int(int64(e.Attempt))}, member{"step", step}, member{"code", Text(string(e.Code))}))
	}
	v := k.request(r, r.Start.Grant)
	v.add("task", Text(r.Task))
	asker := object(member{"name", Text(r.Start.Requester.Name)}, member{"date", Text(time.Unix(0, r.Began).UTC().Format(time.DateOnly))}, member{"zone", Text("UTC")})
	addSet(&asker, map[string]string{"address": r.Start.Requester.Address}, Text)
	v.add("requester", asker)
	if rules := k.reasons(r.Start.Grant); len(rules.list) > 0 {
		v.add("rules", rules)
	}
	if result := k.definition.Result; result != nil {
		v.add("result", result.told)
	}
	v.add("errors", told)
	if r.Failed != nil {
		failed, err := ParseValue(r.Failed)
		if err != nil {
			failed = Text(string(r.Failed))
		}
		v.add("failed_plan", failed)
	}
	return v.JSON()
}

// subPlanRequest is what a sub-planner gets: content and an instruction, never the
// task.
func (k *Kernel) subPlanRequest(r *run) []byte {
	f := r.top()
	v := k.request(r, f.Grant)
	v.add("instruction", Text(f.Instruction))
	v.add("content", Text(string(contentBytes(f.Content))))
	return v.JSON()
}

// request is what every planner gets.
func (k *Kernel) request(r *run, g Grant) Value {
	limits := &r.Start.Limits
	v := object(
		member{"type", Text(TypePlanRequest)}, member{"plan_id", Text(r.Wait.ID)}, member{"catalogue", k.catalogue(g)}, member{"schemas", schemaList(k.definition.Schemas)},
		member{"limits", object(
			member{"max_steps", Int(int64(limits.MaxSteps))}, member{"max_effects", Int(int64(limits.MaxEffects))},
			member{"max_q_parses", Int(int64(limits.MaxParses))}, member{"max_depth", Int(int64(limits.MaxDepth))},
		)},
	)
	if limits.ControlBits > 0 && r.top().Depth == 0 {
		v.add("control_budget_bits", Int(int64(limits.ControlBits)))
	}
	if limits.MaxQuestions > 0 && r.top().Depth == 0 {
		v.add("max_questions", Int(int64(limits.MaxQuestions)))
	}
	if k.definition.SubPlanner != "" && r.top().Depth < limits.MaxDepth {
		v.add("sub_runs", Bool(true))
	}
	return v
}

// catalogue lists the tools that the grant allows to call.
func (k *Kernel) catalogue(g Grant) Value {
	list := List()
	for i := range k.definition.Tools {
		t := &k.definition.Tools[i]
		if k.tool(t.Name, g) == nil {
			continue
		}
		list.list = append(list.list, object(
			member{"name", Text(t.Name)}, member{"description", Text(t.Description)}, member{"effect_level", Text(string(t.Level))},
			member{"input_schema", t.Input.schema()}, member{"output_schema", t.Output.schema()},
		))
	}
	return list
}

// reasons lists what the rules about the tools of a grant want, in their operator's words.
func (k *Kernel) reasons(g Grant) Value {
	list := List()
	for i := range k.definition.Rules {
		r := &k.definition.Rules[i]
		if r.Because != "" && (r.Tool == AnyTool || k.tool(r.Tool, g) != nil) {
			list.list = append(list.list, object(member{"tool", Text(r.Tool)}, member{"effect", Text(string(r.Effect))}, member{"because", Text(r.Because)}))
		}
	}
	return list
}

// schemaList lists what Readers can be asked.
func schemaList(schemas []Schema) Value {
	list := List()
	for i := range schemas {
		list.list = append(list.list, schemas[i].told)
	}
	return list
}

// recordedArguments are what a wait is about; null if that was erased.
func recordedArguments(args []byte) Value {
	v, err := ParseValue(args)
	if err != nil {
		return Null()
	}
	return v
}

// callMessage is what a tool gets.
func callMessage(w *Wait, args []byte) []byte {
	key, _ := w.Key.MarshalText()
	return object(
		member{"type", Text(TypeCall)}, member{"call_id", Text(w.ID)}, member{"attempt", Int(int64(w.Attempt))}, member{"tool", Text(w.Tool)},
		member{"key", Text(string(key))}, member{"args", recordedArguments(args)},
	).JSON()
}
