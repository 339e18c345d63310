package simulate

import (
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
	Query       caseQuery                 `json:"query"`
	Planner     []casePlanner             `json:"planner"`
	SubPlanner  map[string][]casePlanner  `json:"sub_planner"`
	Parser      map[string][]caseParser   `json:"parser"`
	ToolResults map[string][]caseResult   `json:"tool_results"`
	People      []casePerson              `json:"people"`
	Crash       *caseCrash                `json:"crash"`
	Limits      map[string]jsontext.Value `json:"limits"`
}

type caseTool struct {
	Service        string              `json:"service"`
	Name           string              `json:"name"`
	Description    string              `json:"description"`
	InputSchema    jsontext.Value      `json:"input_schema"`
	OutputSchema   jsontext.Value      `json:"output_schema"`
	RequiredCaps   []kernel.Capability `json:"required_caps"`
	EffectLevel    kernel.EffectLevel  `json:"effect_level"`
	Egress         *bool               `json:"egress"`
	ResultReaders  []kernel.Capability `json:"result_readers"`
	ResultSubjects []string            `json:"result_subjects"`
	ResultTrusted  bool                `json:"result_trusted"`
	Idempotency    kernel.Idempotency  `json:"idempotency"`
	Parsers        []string            `json:"parsers"`
	Timeout        string              `json:"timeout"`
}

type caseRule struct {
	ID       string            `json:"id"`
	Effect   kernel.RuleEffect `json:"effect"`
	Tool     string            `json:"tool"`
	When     string            `json:"when"`
	Reads    string            `json:"reads"`
	Control  int               `json:"control_bits"`
	Because  string            `json:"because"`
	Examples jsontext.Value    `json:"examples"`
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

func parseKernelCase(line []byte) (kernelCase, error) {
	var c kernelCase
	if err := json.Unmarshal(line, &c, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
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
	out := kernel.Tool{
		Service: t.Service, Name: t.Name, Description: t.Description, RequiredCaps: t.RequiredCaps, NoEgress: t.Egress != nil && !*t.Egress, Readers: t.ResultReaders,
		Trusted: t.ResultTrusted, Parsers: t.Parsers, Level: t.EffectLevel, Idempotency: t.Idempotency,
	}
	if t.Timeout != "" {
		var err error
		if out.Timeout, err = time.ParseDuration(t.Timeout); err != nil {
			out.Timeout = -1
		}
	}
	for _, s := range t.ResultSubjects {
		switch s {
		case "user":
			out.Subjects |= kernel.SubjectUser
		case "third_party":
			out.Subjects |= kernel.ThirdParty
		default:
			out.Subjects |= unknownWord
		}
	}
	for _, schema := range []struct {
		key string
		raw jsontext.Value
		to  **kernel.Type
	}{{"input_schema", t.InputSchema, &out.Input}, {"output_schema", t.OutputSchema, &out.Output}} {
		var err error
		if *schema.to, err = kernel.ParseType(schema.raw); err != nil && out.Wrong == nil {
			out.Wrong = fmt.Errorf("%s: %w", schema.key, err)
		}
	}
	return out
}

func (r *caseRule) rule() kernel.Rule {
	out := kernel.Rule{ID: r.ID, Tool: r.Tool, When: r.When, ReadsData: r.Reads == "data", ControlBits: r.Control, Because: r.Because, Effect: r.Effect}
	if r.Reads != "" && r.Reads != "data" {
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
	fields := map[string]*int{
		"max_steps": &l.MaxSteps, "max_effects": &l.MaxEffects, "max_q_parses": &l.MaxParses, "max_depth": &l.MaxDepth, "max_plans": &l.MaxPlans,
		"max_planner_bits": &l.MaxPlannerBits, "max_value_bytes": &l.MaxValueBytes, "control_budget_bits": &l.ControlBits, "max_pending_approvals": &l.MaxPendingApprovals, "max_questions": &l.MaxQuestions,
	}
	durations := map[string]*time.Duration{"planner_timeout": &l.PlannerTimeout, "run_ttl": &l.RunTTL, "approval_ttl": &l.ApprovalTTL}
	for name, raw := range in.Limits {
		var err error
		switch {
		case fields[name] != nil:
			err = json.Unmarshal(raw, fields[name])
		case durations[name] != nil:
			var text string
			if err = json.Unmarshal(raw, &text); err == nil {
				*durations[name], err = time.ParseDuration(text)
			}
		default:
			err = errors.New("no such limit")
		}
		if err != nil {
			return fmt.Errorf("limits: %s: expected a whole number, or a duration such as 60s", cli.Quoted(name))
		}
	}
	return nil
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

// setExamples gives the rules of a definition their examples. Where a case has any,
// every rule needs some.
func (in *kernelInput) setExamples(d *kernel.Definition) error {
	byRule, err := in.examplesByRule()
	if err != nil {
		return err
	}
	for i := range d.Rules {
		r := &d.Rules[i]
		examples, given := byRule[r.ID]
		if !given && in.Rules[i].Examples == nil {
			continue
		}
		d.UntestedRules = false
		if in.Rules[i].Examples != nil {
			if examples, err = parseExamples(in.Rules[i].Examples); err != nil {
				return err
			}
		}
		r.Yes, r.No = examples.Yes, examples.No
	}
	return nil
}

// examplesByRule reads the examples of the case, by rule. Examples without a rule are
// about all of them.
func (in *kernelInput) examplesByRule() (map[string]caseExamples, error) {
	byRule := map[string]caseExamples{}
	if in.Examples == nil {
		return byRule, nil
	}
	var named map[string]jsontext.Value
	if json.Unmarshal(in.Examples, &named) != nil {
		return nil, errExamples
	}
	if named["yes"] != nil || named["no"] != nil {
		examples, err := parseExamples(in.Examples)
		for i := range in.Rules {
			byRule[in.Rules[i].ID] = examples
		}
		return byRule, err
	}
	for id, raw := range named {
		examples, err := parseExamples(raw)
		if err != nil {
			return nil, err
		}
		byRule[id] = examples
	}
	return byRule, nil
}

func parseExamples(raw jsontext.Value) (caseExamples, error) {
	var e caseExamples
	if json.Unmarshal(raw, &e, json.RejectUnknownMembers(true)) != nil {
		return e, errExamples
	}
	return e, nil
}
