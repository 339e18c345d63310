package tell

import (
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// RunStory is one run of a kernel, as far as records tell it. It holds names, codes and
// labels, and what agents and tools said only where the records were opened. Nothing of
// it is inert yet.
type RunStory struct {
	Run       kernel.RunID  `json:"run_id"`
	Kernel    bcp.AgentName `json:"kernel"`
	Requester bcp.AgentName `json:"requester"`
	Grant     string        `json:"grant"`
	// Status is [bcp.RunOpen] until the run ends. Code and Step say why and where it did
	// not commit.
	Status string      `json:"status"`
	Code   kernel.Code `json:"code,omitempty"`
	Step   string      `json:"step,omitempty"`
	Began  time.Time   `json:"began"`
	// Ended is that of the end, or of the newest record.
	Ended time.Time `json:"ended"`
	// Waits says whom an open run waits for.
	Waits *RunWait `json:"waits_for,omitempty"`
	// Totals are what it used of its limits: Calls of tools, Questions to Readers.
	Steps       int        `json:"steps"`
	Calls       int        `json:"calls"`
	Questions   int        `json:"questions"`
	Plans       int        `json:"plans"`
	PlannerBits int        `json:"planner_bits"`
	Control     bcp.Bits   `json:"control_bits,omitzero"` // what content steered by, of its limit
	Verdicts    []RunCall  `json:"verdicts"`
	Values      []RunValue `json:"values"`
	Events      []RunEvent `json:"events"`
	// Said is what was said, of records that were opened.
	Said   []RunSaid    `json:"said,omitempty"`
	Limits RunLimits    `json:"limits"`
	Task   kernel.Label `json:"task_label"`
	// Told are the newest deliveries to the requester since it last began anew: Readers may
	// have written its task.
	Told []RunTold `json:"told,omitempty"`

	steps []TreeStep   // of its newest plan
	plan  *kernel.Plan // that, if its record was opened
}

// RunTold is a delivery to a requester, or the end of an earlier run of its, with what it
// can tell.
type RunTold struct {
	Decision uint64         `json:"decision"`
	At       time.Time      `json:"at"`
	Delivery bcp.DeliveryID `json:"delivery_id,omitempty"`
	From     bcp.AgentName  `json:"from"`
	Bits     bcp.Bits       `json:"capacity_bits"`
}

// RunSaid is what somebody said in a run: hostile text.
type RunSaid struct {
	Decision uint64 `json:"decision"`
	What     string `json:"what"`
	Text     string `json:"text"`
}

// RunLimits are those of the run that people look at.
type RunLimits struct {
	Steps     int `json:"max_steps"`
	Calls     int `json:"max_effects"`
	Questions int `json:"max_q_parses"`
	Plans     int `json:"max_plans"`
	Control   int `json:"control_budget_bits,omitzero"`
}

// RunWait is whom a run waits for: planner, reader, tool, approval or doubt.
type RunWait struct {
	Kind    string        `json:"kind"`
	Agent   bcp.AgentName `json:"agent,omitempty"`
	Tool    string        `json:"tool,omitempty"`
	Step    string        `json:"step,omitempty"`
	Attempt int           `json:"attempt,omitempty"`
	Since   time.Time     `json:"since"`
}

// RunCall is what the gate said of a call.
type RunCall struct {
	Step      string              `json:"step"`
	Tool      string              `json:"tool"`
	Ruling    string              `json:"ruling"`
	Code      kernel.Code         `json:"code"`
	Rules     []string            `json:"rules"`
	Arguments []kernel.NamedLabel `json:"arguments"`
	// Early says that it was judged before the plan began.
	Early bool `json:"early,omitzero"`
}

// RunValue is a value that a step made, and from which others.
type RunValue struct {
	Step   string       `json:"step"`
	Kind   string       `json:"kind"`
	Tool   string       `json:"tool,omitempty"`
	Inputs []string     `json:"inputs"`
	Label  kernel.Label `json:"label"`
	// Reused says that an earlier plan had made it.
	Reused bool `json:"reused,omitzero"`
}

// RunEvent is one line of a run's story.
type RunEvent struct {
	Decision uint64        `json:"decision"`
	At       time.Time     `json:"at"`
	From     bcp.AgentName `json:"from,omitempty"`
	kernel.Event
}

// RunStories collects the runs of a journal.
type RunStories struct {
	byRun      map[kernel.RunID]*RunStory
	order      []*RunStory
	requesters map[string]bcp.AgentName // of all runs
	told       map[bcp.AgentName][]RunTold
}

// NewRunStories returns those of a journal that is not read yet.
func NewRunStories() *RunStories {
	return &RunStories{byRun: map[kernel.RunID]*RunStory{}, requesters: map[string]bcp.AgentName{}, told: map[bcp.AgentName][]RunTold{}}
}

// maxTold is how many deliveries a run's story names.
const maxTold = 8

// Hear takes a decision about no run of interest: what a requester was told before one.
func (s *RunStories) Hear(d *bcp.Decision) {
	controller, from := d.Controller, d.Reader
	if d.Run != nil {
		if d.Agent != "" && d.Verdict == bcp.Accept {
			s.requesters[d.Run.Run] = d.Agent
		}
		controller, from = s.requesters[d.Run.Run], d.Run.Kernel
	}
	if d.Verdict == bcp.Accept && d.SessionBegins && !d.SessionByDelivery && d.Role == bcp.RoleController && (d.Kind == bcp.KindSession || d.Kind == bcp.KindRun) {
		delete(s.told, controller)
	}
	if (d.Delivery != "" || d.Run != nil) && d.Capacity > 0 && d.Kind != bcp.KindAcknowledge {
		told := append(s.told[controller], RunTold{d.Seq, d.At(), d.Delivery, from, d.Capacity})
		s.told[controller] = told[max(0, len(told)-maxTold):]
	}
}

// Add takes one decision; those about no run are passed over. It returns the run that
// it is about, or nil.
func (s *RunStories) Add(d *bcp.Decision) *RunStory {
	if d.Run == nil || !d.Kind.IsRun() {
		return nil
	}
	c, err := kernel.ParseChange(d.Run.Change, d.RunSaid)
	if err != nil {
		return nil
	}
	s.Hear(d)
	r := s.byRun[c.Run]
	if c.Code == kernel.Repeated {
		return r
	}
	switch {
	case r == nil && c.Start == nil:
		return nil // what it began with is not there any more, or never began
	case r == nil:
		r = &RunStory{
			Run: c.Run, Kernel: c.Start.Kernel, Requester: bcp.AgentName(c.Start.Requester.Name), Grant: c.Start.GrantName, Status: bcp.RunOpen, Began: d.At(),
			Task: c.Start.Task, Verdicts: []RunCall{}, Values: []RunValue{}, Events: []RunEvent{},
			Limits: RunLimits{Steps: c.Start.Limits.MaxSteps, Calls: c.Start.Limits.MaxEffects, Questions: c.Start.Limits.MaxParses, Plans: c.Start.Limits.MaxPlans, Control: c.Start.Limits.ControlBits},
		}
		if r.Task.Tainted() {
			r.Told = slices.Clone(s.told[r.Requester])
		}
		s.byRun[c.Run] = r
		s.order = append(s.order, r)
		r.event(d, kernel.Event{Word: "run_asked"})
	}
	r.add(d, &c)
	return r
}

// All returns the runs in the order in which they began.
func (s *RunStories) All() []*RunStory { return s.order }

// Refused is the status of a run that was asked for and never began.
const Refused = "refused"

func (r *RunStory) add(d *bcp.Decision, c *kernel.Change) {
	r.Ended = d.At()
	if c.Code != "" {
		r.event(d, kernel.Event{Word: Refused, Detail: string(c.Code)})
		if c.Start != nil {
			r.Status, r.Code = Refused, c.Code
		}
		return
	}
	r.said(d.Seq, c)
	for _, e := range c.Events() {
		r.event(d, e)
	}
	if c.Told != nil {
		r.event(d, kernel.Event{Word: "planner_told", Step: c.Told.Step, Detail: string(c.Told.Code)})
	}
	if c.Wait != nil && c.Wait.Outages > 0 {
		r.event(d, kernel.Event{Word: "planner_away"})
	}
	if c.Alert != "" {
		r.event(d, kernel.Event{Word: "alert", Detail: string(c.Alert)})
	}
	r.trace(c)
	for i := range c.Steps {
		r.step(&c.Steps[i])
	}
	t := &c.Totals
	r.Steps, r.Calls, r.Questions, r.Plans, r.PlannerBits, r.Control = t.Steps, t.Effects, t.Parses, t.Plans, t.PlannerBits, t.Control
	if r.Waits = nil; c.Wait != nil {
		w := c.Wait
		r.Waits = &RunWait{Kind: string(w.Kind), Agent: w.Agent, Tool: w.Tool, Step: w.Step, Attempt: w.Attempt, Since: time.Unix(0, w.Since).UTC()}
		r.event(d, kernel.Event{Word: "waits_for_" + string(w.Kind), Step: w.Step, Tool: w.Tool, Detail: string(w.Agent)})
	}
	if c.End != nil {
		r.Status, r.Code, r.Step = string(c.End.Status), c.End.Code, c.End.Step
	}
}

// said notes what the private part of a record has.
func (r *RunStory) said(decision uint64, c *kernel.Change) {
	p, plan := &c.Private, "plan"
	if c.Plan == nil {
		plan = "rejected plan"
	}
	for _, one := range []struct{ what, text string }{
		{"task", p.Task}, {plan, string(p.Plan)}, {"arguments", string(p.Arguments)}, {"value", string(p.Value)}, {"instruction", p.Instruction},
		{"content", string(p.Content)}, {"note", p.Note}, {"final value", string(p.Final)},
	} {
		if one.text != "" {
			r.Said = append(r.Said, RunSaid{decision, one.what, one.text})
		}
	}
}

func (r *RunStory) event(d *bcp.Decision, e kernel.Event) {
	r.Events = append(r.Events, RunEvent{d.Seq, d.At(), d.Run.From, e})
}

func (r *RunStory) step(s *kernel.StepRecord) {
	if s.Judged != nil {
		r.Verdicts = append(r.Verdicts, RunCall{
			Step: s.Path, Tool: s.Tool, Ruling: s.Judged.Ruling.Word(), Code: s.Judged.Code, Rules: s.Judged.Rules, Arguments: s.Arguments, Early: s.Early,
		})
	}
	if s.Done {
		r.Values = append(r.Values, RunValue{s.Path, string(s.Kind), s.Tool, s.Inputs, s.Label, s.Reused})
	}
}
