package simulate

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// kernelWorld is everything around a kernel in one case: the gateway that stores and
// applies its changes, the planner, the Readers, the tools and the people.
type kernelWorld struct {
	input   *kernelInput
	kernel  *kernel.Kernel
	defects []string // of rules, which fail
	state   *kernel.State
	now     time.Time
	ids     int
	records []storedChange // the journal
	todo    []kernel.Release

	used       map[string]int // answers of a list that were given, by whose it is
	remembered map[string]bool
	crashed    bool

	out runResult
	end *kernel.End
}

// storedChange is one record of the journal.
type storedChange struct{ open, private []byte }

type performedCall struct {
	Tool string         `json:"tool"`
	Args jsontext.Value `json:"args"`
}

func newKernelWorld(in *kernelInput) (*kernelWorld, error) {
	k, defects, err := in.kernel()
	if err != nil {
		return nil, err
	}
	return &kernelWorld{
		input: in, kernel: k, defects: defects, state: kernel.NewState(k), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), used: map[string]int{}, remembered: map[string]bool{},
	}, nil
}

// moment is deterministic, so that equal cases give equal bytes.
func (w *kernelWorld) moment() bcp.Moment {
	w.ids++
	w.now = w.now.Add(time.Millisecond)
	return bcp.Moment{Now: w.now, Fresh: "moment" + strconv.Itoa(w.ids)}
}

// run plays the case to its end.
func (w *kernelWorld) run() error {
	body, err := json.Marshal(map[string]string{"task": w.input.Query.Text})
	if err != nil {
		return err
	}
	change := w.state.DecideRun(w.moment(), caseKernel, w.input.Requester, caseGranted, w.input.Query.label(), body)
	if err := w.store(change); err != nil {
		return err
	}
	for len(w.todo) > 0 {
		release := w.todo[0]
		w.todo = w.todo[1:]
		if err := w.play(&release); err != nil {
			return err
		}
	}
	if w.end == nil {
		return errors.New("the run did not end")
	}
	return nil
}

// store is what a gateway does with a decision: record, apply, release.
func (w *kernelWorld) store(c kernel.Change) error {
	w.records = append(w.records, storedChange{c.AppendJSON(nil), c.Private.AppendJSON(nil)})
	if err := w.state.Apply(&c); err != nil {
		return err
	}
	for _, e := range c.Events() {
		w.out.Trace = append(w.out.Trace, e.String())
	}
	for _, s := range c.Steps {
		if s.Judged != nil {
			w.out.Gate = append(w.out.Gate, [3]string{stepID(s.Path), s.Judged.Ruling.Word(), string(s.Judged.Code)})
		}
	}
	w.todo = append(w.todo, w.state.Releases(&c)...)
	return nil
}

// stepID returns the id of a step without the path of its sub-run.
func stepID(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// isStep reports whether a case means the step of a path: by its id, or by the path.
func isStep(name, path string) bool { return name == path || name == stepID(path) }

func (w *kernelWorld) play(r *kernel.Release) error {
	switch r.Kind {
	case kernel.ReleaseReply:
		if r.Code != "" {
			return fmt.Errorf("the run is refused: %s", r.Code)
		}
	case kernel.ReleasePlan:
		return w.playPlanner(r)
	case kernel.ReleaseSubPlan:
		w.out.ReaderContext = append(w.out.ReaderContext, string(r.Body))
		return w.answerPlan(r, nextAnswer(w, "sub_planner "+r.Wait.Step, w.subPlanner(r.Wait.Step)))
	case kernel.ReleaseParse:
		return w.playReader(r)
	case kernel.ReleaseCall:
		return w.playTool(r)
	case kernel.ReleaseItem:
		return w.playPerson(r)
	case kernel.ReleaseOutcome:
		w.end, w.out.FinalValue = r.End, r.Final
	}
	return nil
}

// nextAnswer returns the next answer of a list, of which the last stays; nil of an empty
// one.
func nextAnswer[T any](w *kernelWorld, whose string, list []T) *T {
	if len(list) == 0 {
		return nil
	}
	i := min(w.used[whose], len(list)-1)
	w.used[whose]++
	return &list[i]
}

// wait lets time pass until it decides.
func (w *kernelWorld) wait() error {
	w.now = time.Unix(0, w.state.NextDue())
	change, due := w.state.DecideDue(w.moment())
	if !due {
		return errors.New("nothing is due")
	}
	return w.store(change)
}

// subPlanner returns the answers of the sub-planner for a step.
func (w *kernelWorld) subPlanner(path string) []casePlanner {
	if answers, whole := w.input.SubPlanner[path]; whole {
		return answers
	}
	return w.input.SubPlanner[stepID(path)]
}

func (w *kernelWorld) playPlanner(r *kernel.Release) error {
	w.out.PlansAsked++
	// Cases compare what planners were given: an id says nothing but which request it is.
	w.out.PlannerContext = append(w.out.PlannerContext, strings.Replace(string(r.Body), r.Wait.ID, "plan"+strconv.Itoa(w.out.PlansAsked), 1))
	var request struct {
		Errors    jsontext.Value `json:"errors"`
		Catalogue []struct {
			Name string `json:"name"`
		} `json:"catalogue"`
	}
	if err := json.Unmarshal(r.Body, &request); err != nil {
		return err
	}
	w.out.ErrorsTold = append(w.out.ErrorsTold, request.Errors)
	names := []string{}
	for _, t := range request.Catalogue {
		names = append(names, t.Name)
	}
	w.out.Catalogue = append(w.out.Catalogue, names)
	return w.answerPlan(r, nextAnswer(w, "planner", w.input.Planner))
}

// answerPlan has a planner answer; without an answer it is silent.
func (w *kernelWorld) answerPlan(r *kernel.Release, answer *casePlanner) error {
	if answer == nil || answer.Fail == "timeout" {
		return w.wait()
	}
	message := map[string]any{"plan_id": r.Wait.ID}
	switch {
	case answer.Plan != nil:
		message["plan"] = answer.Plan
	case answer.Text != nil:
		message["plan"] = *answer.Text
	case answer.Fail == "refused":
		message["refused"] = true
	}
	body, err := json.Marshal(message, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return err
	}
	if answer.Fail == "malformed" {
		body = body[:len(body)-1]
	}
	return w.store(w.state.DecidePlan(w.moment(), r.Agent, r.Wait.ID, body))
}

// playReader has a Reader answer an ask. The channel judges the answer as it does any
// (PROTOCOL P3); its texts stay as the case has them.
func (w *kernelWorld) playReader(r *kernel.Release) error {
	w.out.ReaderContext = append(w.out.ReaderContext, r.Instruction+"\n"+string(r.Content))
	answer := nextAnswer(w, "parser "+r.Schema.Name, w.input.Parser[r.Schema.Name])
	code, value := bcp.Code(""), []byte(nil)
	switch {
	case answer == nil || answer.Timeout != nil:
		code = bcp.Expired
	case answer.NotEnoughInformation:
		code = bcp.NotEnoughInformation
	default:
		value = answer.Value
		v, err := bcp.Compile(r.Schema.Spec, bcp.Settings{OnAnomaly: bcp.AnomalyFlag, Constraints: constraint.Compile})
		if err != nil {
			return err
		}
		if outcome := v.Validate(value, bcp.JSON).Outcome; outcome != bcp.Accept && outcome != bcp.Hold {
			code = bcp.Rejected
		}
	}
	return w.store(w.state.DecideAnswer(w.moment(), r.Wait.ID, value, code))
}

// playTool has a tool answer a call, and plays the crash of the case.
func (w *kernelWorld) playTool(r *kernel.Release) error {
	key := string(r.Wait.Key[:])
	perform := func() {
		if r.Tool.Idempotency != kernel.ByKey || !w.remembered[key] {
			w.out.Effects = append(w.out.Effects, performedCall{r.Tool.Name, r.Arguments})
		}
		w.remembered[key] = true
	}
	if crash := w.input.Crash; crash != nil && !w.crashed && isStep(strings.TrimPrefix(crash.After, "intent:"), r.Wait.Step) {
		w.crashed = true
		if crash.Performed {
			perform()
		}
		return w.restart()
	}
	answer := nextAnswer(w, "tool "+r.Tool.Name, w.input.ToolResults[r.Tool.Name])
	message := map[string]any{"call_id": r.Wait.ID}
	switch {
	case answer == nil:
		message["error"] = "the case has no result"
	case answer.Timeout != nil:
		if answer.performed() {
			perform()
		}
		return w.wait()
	case answer.Error != nil:
		message["error"] = string(answer.Error)
		if answer.NotPerformed {
			message["not_performed"] = true
		}
	default:
		perform()
		message["result"] = answer.Result
	}
	body, err := json.Marshal(message, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return err
	}
	return w.store(w.state.DecideOutcome(w.moment(), r.Agent, r.Wait.ID, r.Wait.Attempt, body))
}

// restart forgets everything but the records, and makes the state of them again.
func (w *kernelWorld) restart() error {
	before := w.state
	w.state, w.todo = kernel.NewState(w.kernel), nil
	for _, record := range w.records {
		change, err := kernel.ParseChange(record.open, record.private)
		if err != nil {
			return err
		}
		if err := w.state.Apply(&change); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(before.Save(), w.state.Save()) {
		return errors.New("the records give another state")
	}
	w.todo = w.state.Pending()
	for _, call := range w.state.Unanswered() {
		if err := w.store(w.state.DecideRestart(w.moment(), call)); err != nil {
			return err
		}
	}
	return nil
}

// playPerson has somebody decide about an item, if the case has somebody.
func (w *kernelWorld) playPerson(r *kernel.Release) error {
	for i, person := range w.input.People {
		decision, doubted := person.Decision, r.Wait.Kind == kernel.WaitDoubt
		if whose := "person " + strconv.Itoa(i); isStep(person.Step, r.Wait.Step) && w.used[whose] == 0 && decision.About(r.Wait.Kind) && (decision != kernel.Reject || !doubted) {
			w.used[whose]++
			change := w.state.DecidePerson(w.moment(), r.Wait.ID, decision, person.Result)
			if change.Code == "" {
				return w.store(change)
			}
		}
	}
	return w.wait()
}

// runResult is a run as its expectations ask about it.
type runResult struct {
	ID         jsontext.Value   `json:"id"`
	Status     kernel.Status    `json:"status"`
	Code       *kernel.Code     `json:"code"`
	Effects    []performedCall  `json:"effects"`
	Gate       [][3]string      `json:"gate"`
	Trace      []string         `json:"trace"`
	TraceEnds  []string         `json:"trace_ends"`
	FinalValue jsontext.Value   `json:"final_value"`
	FinalLabel *kernel.Label    `json:"final_label"`
	Tainted    *bool            `json:"final_tainted"`
	Influence  jsontext.Value   `json:"final_influence"`
	PlansAsked int              `json:"plans_asked"`
	ErrorsTold []jsontext.Value `json:"errors_told"`
	Catalogue  [][]string       `json:"catalogue"`

	NeverInPlanner []string       `json:"never_in_planner,omitempty"`
	InReader       []string       `json:"in_reader,omitempty"`
	NeverInReader  []string       `json:"never_in_reader,omitempty"`
	SameContextAs  jsontext.Value `json:"planner_context_equal_to,omitzero"`
	PlannerContext []string       `json:"planner_context"`
	ReaderContext  []string       `json:"reader_context"`
	Defects        []string       `json:"defects,omitzero"` // of rules, which fail

	sameAs   string              // the case whose planner perhaps was given the same
	contexts map[string][]string // of all cases
}

// compare answers whether the planner of another case was given the same. It is false
// if that case was not played yet.
func (r *runResult) compare() bool {
	if r.sameAs == "" {
		return true
	}
	r.SameContextAs = jsontext.Value("null")
	id, err := json.Marshal(r.sameAs)
	other, played := r.contexts[string(id)]
	if err == nil && played && slices.Equal(other, r.PlannerContext) {
		r.SameContextAs = id
	}
	return played
}

func (s *simulation) playRun(c *kernelCase) (any, error) {
	w, err := newKernelWorld(&c.Input)
	if err != nil {
		return nil, err
	}
	if err := w.run(); err != nil {
		return nil, err
	}
	s.contexts[string(c.ID)] = w.out.PlannerContext
	out := &w.out
	out.ID, out.Status, out.TraceEnds, out.Influence, out.Defects = c.ID, w.end.Status, out.Trace, jsontext.Value("null"), w.defects
	if n := len(c.Expect.TraceEnds); n > 0 && n < len(out.TraceEnds) {
		out.TraceEnds = out.TraceEnds[len(out.TraceEnds)-n:]
	}
	if w.end.Code != "" {
		out.Code = &w.end.Code
	}
	if label := &w.end.Label; out.Status == kernel.Committed {
		out.FinalLabel, out.Tainted, out.Influence = label, new(label.Tainted()), jsontext.Value(label.Width().String())
	} else {
		out.FinalValue = jsontext.Value("null")
	}
	s.answer(c, out)
	return out, nil
}

// answer answers what the case asks about what models were given.
func (s *simulation) answer(c *kernelCase, out *runResult) {
	seen := func(contexts []string, text string) bool {
		return slices.ContainsFunc(contexts, func(given string) bool { return strings.Contains(given, text) })
	}
	filter := func(texts, contexts []string, want bool) []string {
		return slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return seen(contexts, text) != want })
	}
	out.NeverInPlanner = filter(c.Expect.NeverInPlanner, out.PlannerContext, false)
	out.InReader = filter(c.Expect.InReader, out.ReaderContext, true)
	out.NeverInReader = filter(c.Expect.NeverInReader, out.ReaderContext, false)
	out.sameAs, out.contexts = c.Expect.SameContextAs, s.contexts
}
