package simulate

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// kernelCase is one line of the input of kernel simulate. Which keys there are depends on the kind.
type kernelCase struct {
	ID     jsontext.Value  `json:"id"`
	Kind   string          `json:"kind"`
	Input  kernelInput     `json:"input"`
	Expect kernelQuestions `json:"expect"`
}

// kernelQuestions are the parts of an expectation that are questions: without the texts to
// look for there is no answer.
type kernelQuestions struct {
	NeverInPlanner []string `json:"never_in_planner"`
	InReader       []string `json:"in_reader"`
	NeverInReader  []string `json:"never_in_reader"`
	SameContextAs  string   `json:"planner_context_equal_to"`
	TraceEnds      []string `json:"trace_ends"`
}

type kernelInput struct {
	// Of all kinds.
	Tools     []caseTool                `json:"tools"`
	Schemas   map[string]jsontext.Value `json:"schemas"`
	Grant     []kernel.Capability       `json:"grant"`
	Rules     []caseRule                `json:"rules"`
	Requester kernel.Requester          `json:"requester"`

	// plan
	Plan       jsontext.Value `json:"plan"`
	PlanText   jsontext.Value `json:"plan_text"`
	PlanBase64 *string        `json:"plan_base64"`

	// label
	Op       string         `json:"op"`
	Labels   []kernel.Label `json:"labels"`
	Source   kernel.Label   `json:"source"`
	Schema   jsontext.Value `json:"schema"`
	OriginID kernel.Origin  `json:"origin_id"`

	// gate, and label
	Tool caseTool       `json:"tool"`
	Args jsontext.Value `json:"args"`
	Run  struct {
		Depth int `json:"depth"`
	} `json:"run"`

	// load
	Examples jsontext.Value `json:"examples"`

	// run
	Query       caseQuery                `json:"query"`
	Planner     []casePlanner            `json:"planner"`
	SubPlanner  map[string][]casePlanner `json:"sub_planner"`
	Parser      map[string][]caseParser  `json:"parser"`
	ToolResults map[string][]caseResult  `json:"tool_results"`
	People      []casePerson             `json:"people"`
	Crash       *caseCrash               `json:"crash"`
	Limits      jsontext.Value           `json:"limits"`
}

// caseTool is a tool, with what is wrong in a definition still in it.
type caseTool struct {
	kernel.Tool
	InputSchema    jsontext.Value `json:"input_schema"`
	OutputSchema   jsontext.Value `json:"output_schema"`
	Egress         *bool          `json:"egress"`
	ResultSubjects []string       `json:"result_subjects"`
}

type caseRule struct {
	kernel.Rule
	Reads    string         `json:"reads"`
	Examples jsontext.Value `json:"examples"`
}

// caseQuery is a task, whose label is that of its requester's words unless the case has another.
type caseQuery struct {
	Text  string        `json:"text"`
	Label *kernel.Label `json:"label"`
}

func (q *caseQuery) label() kernel.Label {
	if q.Label == nil {
		return kernel.Trusted()
	}
	return *q.Label
}

type casePlanner struct {
	Plan jsontext.Value `json:"plan"`
	Text *string        `json:"text"`
	Fail string         `json:"fail"`
}

type caseParser struct {
	Value                jsontext.Value `json:"value"`
	NotEnoughInformation bool           `json:"not_enough_information"`
	Timeout              jsontext.Value `json:"timeout"`
}

type caseResult struct {
	Result       jsontext.Value `json:"result"`
	Error        jsontext.Value `json:"error"`
	NotPerformed bool           `json:"not_performed"`
	Timeout      jsontext.Value `json:"timeout"`
}

// performed says that a tool that did not answer did its work.
func (r *caseResult) performed() bool {
	word := string(r.Timeout)
	return word == `"performed"` || word == "true"
}

type casePerson struct {
	Step     string                `json:"step"`
	Decision kernel.PersonDecision `json:"decision"`
	Result   jsontext.Value        `json:"result"`
}

type caseCrash struct {
	After     string `json:"after"`
	Performed bool   `json:"performed"`
}

// durations reads them as definitions have them, such as 60s; with lenient one that is wrong stays wrong.
func durations(lenient bool) json.Options {
	return json.WithUnmarshalers(json.UnmarshalFunc(func(b []byte, d *time.Duration) error {
		var text string
		err := json.Unmarshal(b, &text)
		if err == nil && text != "" {
			if *d, err = time.ParseDuration(text); err != nil && lenient {
				*d, err = -1, nil
			}
		}
		return err
	}))
}

func parseKernelCase(line []byte) (kernelCase, error) {
	var c kernelCase
	if err := json.Unmarshal(line, &c, durations(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.JSONPointer.Parent() != "" {
			return c, fmt.Errorf("%s: a value is wrong: docs/kernel-reference.md shows it", cli.Plain(string(wrong.JSONPointer[1:])))
		}
		return c, errors.New("expected an object with id, kind, input and perhaps expect, as docs/kernel-reference.md says")
	}
	if c.ID == nil {
		c.ID = jsontext.Value("null")
	}
	return c, nil
}

// plan returns the bytes of a plan case.
func (in *kernelInput) plan() ([]byte, error) {
	switch {
	case in.PlanText != nil:
		var text string
		if json.Unmarshal(in.PlanText, &text) != nil { // half a surrogate pair: no text, and no plan
			return nil, nil
		}
		return []byte(text), nil
	case in.PlanBase64 != nil:
		return base64.StdEncoding.DecodeString(*in.PlanBase64)
	default:
		return in.Plan, nil
	}
}

// unknownWord is no subject: loading says so.
const unknownWord = 1 << 7

// tool returns the tool as a definition has it. What is wrong with it stays wrong, so
// that loading says so.
func (t *caseTool) tool() kernel.Tool {
	out := t.Tool
	out.NoEgress = t.Egress != nil && !*t.Egress
	for _, word := range t.ResultSubjects {
		out.Subjects |= cmp.Or(map[string]kernel.Subjects{"user": kernel.SubjectUser, "third_party": kernel.ThirdParty}[word], unknownWord)
	}
	var err error
	if out.Output, err = kernel.ParseType(t.OutputSchema); err != nil {
		out.Wrong = fmt.Errorf("output_schema: %w", err)
	}
	if out.Input, err = kernel.ParseType(t.InputSchema); err != nil {
		out.Wrong = fmt.Errorf("input_schema: %w", err)
	}
	return out
}

func (r *caseRule) rule() kernel.Rule {
	out := r.Rule
	if out.ReadsData = r.Reads == "data"; r.Reads != "" && !out.ReadsData {
		out.Effect = ""
	}
	return out
}

const (
	caseKernel  bcp.AgentName = "kernel"
	casePlans   bcp.AgentName = "planner"
	caseReads   bcp.AgentName = "reader"
	caseGranted               = "granted"
)

// definition returns the kernel of a case. Rules about tools that it does not have
// are left out where only keep says so: a case shows a part of a kernel.
func (in *kernelInput) definition(keepRules bool) (kernel.Definition, error) {
	d := kernel.Definition{
		Name: caseKernel, Planner: casePlans, SubPlanner: caseReads, Limits: kernel.DefaultLimits(), UntestedRules: true,
		Requesters: map[bcp.AgentName][]string{bcp.AgentName(in.Requester.Name): {caseGranted}},
		Grants:     map[string][]kernel.Capability{caseGranted: kernel.NewGrant(in.Grant...).Capabilities()},
	}
	known := map[string]bool{kernel.AnyTool: true}
	for i := range in.Tools {
		d.Tools = append(d.Tools, in.Tools[i].tool())
		known[in.Tools[i].Name] = true
	}
	for name, raw := range in.Schemas {
		schema, err := caseSchema(name, raw)
		if err != nil {
			return d, err
		}
		d.Schemas = append(d.Schemas, schema)
	}
	slices.SortFunc(d.Schemas, func(a, b kernel.Schema) int { return strings.Compare(a.Name, b.Name) })
	for i := range in.Rules {
		if keepRules || known[in.Rules[i].Tool] {
			d.Rules = append(d.Rules, in.Rules[i].rule())
		}
	}
	return d, in.setLimits(&d.Limits)
}

func caseSchema(name string, raw []byte) (kernel.Schema, error) {
	spec, err := bcp.ParseSpec(raw)
	if err != nil {
		return kernel.Schema{}, fmt.Errorf("schema %s: %w", cli.Quoted(name), err)
	}
	return kernel.Schema{Name: name, Reader: caseReads, Spec: spec, Settings: bcp.Settings{Constraints: constraint.Compile}}, nil
}

func (in *kernelInput) setLimits(l *kernel.Limits) error {
	if in.Limits == nil {
		return nil
	}
	err := json.Unmarshal(in.Limits, l, durations(false), json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true))
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		return fmt.Errorf("limits: %s: expected a whole number, or a duration such as 60s", cli.Quoted(strings.TrimPrefix(string(wrong.JSONPointer), "/")))
	}
	return err
}

// kernel compiles the kernel of a case. Rules that a definition could not have fail
// whenever they are asked: forbid rules deny then, others do not apply. What is wrong
// with them is told.
func (in *kernelInput) kernel() (*kernel.Kernel, []string, error) {
	d, err := in.definition(false)
	if err != nil {
		return nil, nil, err
	}
	d.BareWrites = true
	k, defects := kernel.New(d)
	var told []string
	for _, defect := range defects {
		i := slices.IndexFunc(d.Rules, func(r kernel.Rule) bool { return defect.Where == fmt.Sprintf("rule %q", r.ID) })
		if i < 0 || defect.Code != kernel.RuleType && defect.Code != kernel.RuleReadsData {
			return nil, nil, fmt.Errorf("%s", defect)
		}
		d.Rules[i].When, d.Rules[i].ReadsData = failing, false
		told = append(told, defect.String())
	}
	if len(told) > 0 {
		if k, defects = kernel.New(d); len(defects) > 0 {
			return nil, nil, fmt.Errorf("%s", defects[0])
		}
	}
	return k, told, nil
}

// failing is a condition that is always an error.
const failing = "1 / (run.depth - run.depth) == 0"

// caseExamples are the examples of a rule, both ways.
type caseExamples struct {
	Yes []kernel.Example `json:"yes"`
	No  []kernel.Example `json:"no"`
}

var errExamples = errors.New("examples: expected {yes: […], no: […]} of calls, by the id of the rule or in the rule itself")

// setExamples gives the rules of a definition their examples: their own, those by their
// id, or those that the case has of all. Where a case has any, every rule needs some.
func (in *kernelInput) setExamples(d *kernel.Definition) error {
	var all *caseExamples
	var byRule map[string]*caseExamples
	strict := json.RejectUnknownMembers(true)
	if in.Examples != nil && json.Unmarshal(in.Examples, &byRule, strict) != nil {
		byRule = nil
		if json.Unmarshal(in.Examples, &all, strict) != nil {
			return errExamples
		}
	}
	for i := range d.Rules {
		r, own := &d.Rules[i], (*caseExamples)(nil)
		if raw := in.Rules[i].Examples; raw != nil {
			if own = new(caseExamples); json.Unmarshal(raw, own, strict) != nil {
				return errExamples
			}
		}
		if e := cmp.Or(own, byRule[r.ID], all); e != nil {
			d.UntestedRules, r.Yes, r.No = false, e.Yes, e.No
		}
	}
	return nil
}
