package kernel

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Event is one line of a run's story. It holds names and codes, and nothing that
// an agent said.
type Event struct {
	Word string `json:"word"`
	Step string `json:"step,omitempty"` // the full path
	Tool string `json:"tool,omitempty"`
	// Detail is the ruling of a gate_decision.
	Detail string `json:"detail,omitempty"`
}

// String returns the word and what it is about, with colons between.
func (e Event) String() string {
	parts := []string{e.Word}
	for _, part := range []string{e.about(), e.Detail} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ":")
}

// about is the tool of an effect, and the id of any other step; what ends a run or a
// sub-run is about nothing.
func (e *Event) about() string {
	if slices.Contains(slices.Collect(maps.Values(endWords)), e.Word) {
		return ""
	}
	return cmp.Or(e.Tool, e.Step[strings.LastIndexByte(e.Step, '/')+1:])
}

// Events tells a change in order.
func (c *Change) Events() []Event {
	var events []Event
	add := func(e ...Event) { events = append(events, e...) }
	if c.Code != "" {
		return nil
	}
	if c.Plan != nil {
		add(Event{Word: "plan_emitted"})
	}
	for i := range c.Steps {
		add(c.stepEvents(&c.Steps[i], c.Result != nil && i == 0 && c.Steps[i].Done)...)
	}
	if l := c.Leave; l != nil {
		add(Event{Word: "approved_early", Step: l.Step})
	}
	if w := c.Wait; w != nil && w.Kind == WaitTool && w.Attempt == 1 {
		add(Event{Word: "effect_intended", Step: w.Step, Tool: w.Tool})
	}
	if c.End != nil {
		if inner := subWords[c.End.Code]; inner != "" {
			add(Event{Word: inner, Step: parentPath(c.End.Step)})
		}
		add(Event{Word: endWords[c.End.Status]})
	}
	return events
}

// subWords tell how the sub-run ended that ended the run.
var subWords = map[Code]string{SubBlocked: endWords[Blocked], SubErrored: endWords[Errored], SubPlanRejected: endWords[PlanRejected]}

var endWords = map[Status]string{
	Committed: "run_committed", Blocked: "run_blocked", Aborted: "run_aborted", Errored: "run_errored", PlanRejected: "plan_rejected",
	Doubted: "run_in_doubt", Stopped: "run_cancelled", Planned: "run_planned",
}

// stepEvents tells what happened to one step; answered says that it was the one
// that the run waited for.
func (c *Change) stepEvents(s *StepRecord, answered bool) []Event {
	var events []Event
	switch {
	case s.Kind == ItemStep || s.Kind == EndStep:
		return nil
	case s.Bits > 0:
		events = append(events, Event{Word: "steered", Step: s.Path, Detail: s.Bits.String()})
	}
	if !s.Early && !answered && !(s.Kind == SubStep && s.Done) {
		events = append(events, Event{Word: "step_started", Step: s.Path})
	}
	if s.Judged != nil {
		events = append(events, Event{Word: "gate_decision", Step: s.Path, Tool: s.Tool, Detail: s.Judged.Ruling.Word()})
		if s.Judged.Ruling == Deny {
			events = append(events, Event{Word: "effect_blocked", Step: s.Path, Tool: s.Tool})
		}
	}
	switch {
	case !s.Done:
	case s.Kind == SubStep:
		events = append(events, Event{Word: "run_committed", Step: s.Path})
	case s.Kind == AskStep && !s.Reused:
		events = append(events, Event{Word: "requester_answered", Step: s.Path})
	case s.Kind == ParseStep:
		events = append(events, Event{Word: "q_parse_result", Step: s.Path})
	case s.Kind == ToolStep && !s.Reused:
		events = append(events, Event{Word: "effect_committed", Step: s.Path, Tool: s.Tool})
	}
	return events
}
