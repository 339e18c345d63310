package simulate

import (
	"cmp"
	"errors"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
)

func kernelCheckCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE [PLAN]",
		Short: "Check a kernel, and a plan: verdicts, labels and widths before anything runs",
		Long: `Check a kernel, and a plan for it: what the gate will say about each call, what
label each value will have, and how many bits of it content can have chosen.

FILE is a JSON object with the keys tools, schemas, rules (each with examples),
grant, requester and limits, as in the cases of kernel simulate. PLAN is a plan as
planners write it. docs/kernel.md has an example of both.

Exit code 1 says that the definition or the plan is wrong, or that a call is
certain to be denied.`,
		Example: "  bcpmesh kernel check kernel.json\n  bcpmesh kernel check kernel.json plan.json",
		Args:    cli.Arguments(1, "FILE", "PLAN"),
		RunE:    func(_ *cobra.Command, args []string) error { return checkKernel(p, args) },
	}
}

// kernelReport is what kernel check prints.
type kernelReport struct {
	OK      bool           `json:"ok"`
	Defects []defectReport `json:"defects"`
	Tools   []string       `json:"tools"` // that the grant allows to call
	Code    kernel.Code    `json:"code,omitempty"`
	Step    string         `json:"step,omitempty"`
	Steps   []stepReport   `json:"steps,omitempty"`
	Calls   []callReport   `json:"calls,omitempty"`
}

type defectReport struct {
	Code    kernel.DefectCode `json:"code"`
	Where   string            `json:"where"`
	Message string            `json:"message"`
}

type stepReport struct {
	Step  string         `json:"step"`
	Kind  string         `json:"kind"`
	Label kernel.Label   `json:"label"`
	Bits  jsontext.Value `json:"bits"`
	// Hazy says that a sub-run may add to the label.
	Hazy bool `json:"hazy,omitzero"`
}

type callReport struct {
	Step    string      `json:"step"`
	Tool    string      `json:"tool"`
	Verdict string      `json:"verdict"`
	Code    kernel.Code `json:"code"`
	Rules   []string    `json:"rules"`
	Certain bool        `json:"certain"`
}

func checkKernel(p *cli.Program, args []string) error {
	read := func(name string) ([]byte, error) {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.ReasonOf(err))
		}
		return b, nil
	}
	file, err := read(args[0])
	if err != nil {
		return err
	}
	c, err := parseKernelCase([]byte(`{"kind":"check","input":` + string(file) + `}`))
	if err != nil {
		return cli.Failf("%s: expected a JSON object with the keys of a kernel", cli.Quoted(args[0])).WithHint("bcpmesh kernel check --help lists the keys")
	}
	if unknown := c.Input.unknownKeys(); len(unknown) > 0 {
		return cli.Failf("%s: %s is no key of a kernel", cli.Quoted(args[0]), cli.Quoted(unknown[0])).WithHint("bcpmesh kernel check --help lists the keys")
	}
	var strict kernelInput
	var wrong *json.SemanticError
	if err := json.Unmarshal(file, &strict, json.RejectUnknownMembers(true)); errors.As(err, &wrong) {
		return cli.Failf("%s: %s is no key of a kernel", cli.Quoted(args[0]), cli.Quoted(string(wrong.JSONPointer))).WithHint("bcpmesh kernel check --help lists the keys")
	}
	report := kernelReport{Defects: []defectReport{}}
	d, err := c.Input.definition(true)
	if err == nil {
		err = c.Input.setExamples(&d)
	}
	if err != nil {
		return cli.Failf("%s: %s", cli.Quoted(args[0]), err)
	}
	d.UntestedRules = false
	k, defects := kernel.New(d)
	for _, defect := range defects {
		report.Defects = append(report.Defects, defectReport(defect))
	}
	if report.OK = k != nil; k != nil {
		report.Tools = k.Catalogue(kernel.NewGrant(c.Input.Grant...))
	}
	if k != nil && len(args) == 2 {
		plan, err := read(args[1])
		if err != nil {
			return err
		}
		report.plan(k, &c.Input, plan)
	}
	if err := report.print(p); err != nil {
		return err
	}
	if !report.OK {
		return cli.Failf("%s", report.summary())
	}
	return nil
}

// plan fills in what is known of a plan before it runs.
func (r *kernelReport) plan(k *kernel.Kernel, in *kernelInput, plan []byte) {
	checked, fault := k.ReadPlan(plan, kernel.Frame{Grant: kernel.NewGrant(in.Grant...), Query: kernel.Trusted()})
	if r.Code, r.Step = fault.Code, fault.Step; fault.Code != "" {
		r.OK = false
		return
	}
	for _, s := range checked.Steps() {
		r.Steps = append(r.Steps, stepReport{s.ID, s.Kind.Word(), s.Label, jsontext.Value(s.Label.Width().String()), s.Hazy})
	}
	for _, f := range checked.Preflight(kernel.Requester(in.Requester)) {
		r.Calls = append(r.Calls, callReport{f.Step, f.Tool, f.Verdict.Ruling.Word(), f.Verdict.Code, append([]string{}, f.Verdict.Rules...), f.Certain})
		if f.Certain && f.Verdict.Ruling == kernel.Deny {
			r.OK = false
		}
	}
}

func (r *kernelReport) summary() string {
	switch {
	case len(r.Defects) > 0:
		return "the kernel is wrong: " + cli.Count(len(r.Defects), "defect")
	case r.Code != "" && r.Step != "":
		return "the plan is wrong at step " + cli.Quoted(r.Step) + ": " + string(r.Code)
	case r.Code != "":
		return "the plan is wrong: " + string(r.Code)
	default:
		return "a call is certain to be denied: nothing of the plan would run"
	}
}

func (r *kernelReport) print(p *cli.Program) error {
	if p.Out.JSON {
		return p.Out.Line(r)
	}
	for _, d := range r.Defects {
		p.Out.Printf("%s: %s (%s)\n", cli.Plain(d.Where), cli.Plain(d.Message), d.Code)
	}
	if len(r.Defects) == 0 {
		p.Out.Printf("The kernel is right. Its grant allows to call: %s.\n", cmp.Or(cli.Plain(strings.Join(r.Tools, ", ")), "nothing"))
	}
	if len(r.Steps) == 0 {
		return nil
	}
	var rows [][]string
	for _, s := range r.Steps {
		rows = append(rows, []string{s.Step, s.Kind, s.words(), strings.Trim(string(s.Bits), `"`)})
	}
	p.Out.Heading("What each value will be")
	p.Out.Table([]string{"STEP", "KIND", "LABEL", "INFLUENCE, BITS"}, rows)
	if rows = nil; len(r.Calls) == 0 {
		return nil
	}
	for _, c := range r.Calls {
		rows = append(rows, []string{c.Step, c.Tool, c.Verdict, string(c.Code), strings.Join(c.Rules, ", "), map[bool]string{true: "yes", false: "no"}[c.Certain]})
	}
	p.Out.Heading("What the gate will say")
	p.Out.Table([]string{"STEP", "TOOL", "VERDICT", "CODE", "RULES", "CERTAIN"}, rows)
	return nil
}

// words says what matters of a label.
func (s *stepReport) words() string {
	words := "trusted"
	if s.Label.Tainted() {
		words = "tainted"
	}
	if s.Label.ThirdParty() {
		words += ", third party"
	}
	if s.Hazy {
		words += ", or more"
	}
	return words
}
