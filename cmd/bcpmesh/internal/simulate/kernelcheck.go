package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// KernelCheck checks a kernel of a folder, and a plan for it.
type KernelCheck struct {
	As, Dir       string `how:"given"`
	kernel, grant string
}

func (o *KernelCheck) Run(_ context.Context, p *cli.Program, args []string) error {
	o.kernel, o.grant = args[0], args[1]
	where := meshdir.StateFlags{Dir: o.Dir}
	_, def, err := where.Load()
	if err != nil {
		return err
	}
	k, requester, grant, err := o.find(def)
	if err != nil {
		return err
	}
	report := kernelReport{OK: true, Tools: k.Catalogue(grant)}
	if len(args) > 2 {
		plan, err := cli.ReadFile(args[2], kernel.MaxPlanBytes)
		if err != nil {
			return err
		}
		report.plan(k, o.grant, grant, requester, plan)
	}
	return report.finish(p)
}

// ReportPlan prints what a kernel of definitions will do with a plan for a requester, as
// kernel check does.
func ReportPlan(p *cli.Program, def *bcp.Mesh, of, requester bcp.AgentName, grant string, plan []byte) error {
	o := KernelCheck{kernel: string(of), grant: grant, As: string(requester)}
	k, who, held, err := o.find(def)
	if err != nil {
		return err
	}
	report := kernelReport{OK: true, Tools: k.Catalogue(held), Plan: plan}
	report.plan(k, o.grant, held, who, plan)
	return report.finish(p)
}

// find returns the kernel that the flags name, and who may start which runs of it.
func (o *KernelCheck) find(def *bcp.Mesh) (k *kernel.Kernel, who kernel.Requester, held kernel.Grant, err error) {
	kernels := kernel.OfMesh(def)
	i := slices.IndexFunc(kernels, func(k *kernel.Kernel) bool { return string(k.Name()) == o.kernel })
	if i < 0 {
		f := cli.Failf("the mesh has no kernel %s", cli.Quoted(o.kernel))
		if len(kernels) == 0 {
			return k, who, held, f.WithHint("an agent becomes one by the key kernel: docs/kernel.md")
		}
		names := cli.Map(kernels, func(k *kernel.Kernel) string { return string(k.Name()) })
		return k, who, held, f.WithHint("there is %s", cli.JoinOr(names))
	}
	k = kernels[i]
	d := k.Definition()
	grant, grants := o.grant, slices.Sorted(maps.Keys(d.Grants))
	if !slices.Contains(grants, grant) {
		return k, who, held, cli.Usagef("kernel check: GRANT: expected %s", cli.JoinOr(grants))
	}
	var may []string
	for name, granted := range d.Requesters {
		if slices.Contains(granted, grant) {
			may = append(may, string(name))
		}
	}
	slices.Sort(may)
	if who.Name = o.As; o.As == "" && len(may) == 1 {
		who.Name = may[0]
	}
	held, ok := k.GrantOf(bcp.AgentName(who.Name), grant)
	switch {
	case !ok && len(may) == 0:
		return k, who, held, cli.Failf("no requester of %s has the grant %s", o.kernel, cli.Quoted(grant))
	case !ok:
		return k, who, held, cli.Usagef("kernel check: --as: expected %s", cli.JoinOr(may))
	}
	agent, _ := def.Agent(bcp.AgentName(who.Name))
	who.Address = agent.Address
	return k, who, held, nil
}

// kernelReport is what kernel check prints.
type kernelReport struct {
	OK    bool                  `json:"ok"`
	Tools []string              `json:"tools"` // that the grant allows to call
	Code  kernel.Code           `json:"code,omitempty"`
	Step  string                `json:"step,omitempty"`
	Steps []kernel.StepForecast `json:"steps,omitempty"`
	Calls []kernel.Forecast     `json:"calls,omitempty"`
	// Control is what the dearest path costs by what content steers, of Budget.
	Control bcp.Bits `json:"control_bits,omitzero"`
	Budget  bcp.Bits `json:"control_budget_bits,omitzero"`
	// Plan is that of a planner that was asked for it.
	Plan jsontext.Value `json:"plan,omitempty"`
}

// finish prints the report, and fails if something is wrong.
func (r *kernelReport) finish(p *cli.Program) error {
	if err := r.print(p); err != nil {
		return err
	}
	if !r.OK {
		return cli.Failf("%s", r.summary())
	}
	return nil
}

// plan fills in what is known of a plan under a grant before it runs.
func (r *kernelReport) plan(k *kernel.Kernel, name string, grant kernel.Grant, requester kernel.Requester, plan []byte) {
	limits := k.LimitsOf(name)
	checked, fault := k.ReadPlan(plan, kernel.Frame{
		Grant: grant, Query: kernel.Trusted(), Asker: kernel.Asker{Requester: requester, Task: kernel.Task{Label: kernel.Trusted()}},
		ControlBits: limits.ControlBits, Questions: limits.MaxQuestions,
	})
	r.Control, r.Budget = fault.Bits, bcp.Bits(limits.ControlBits)*bcp.Bit
	if r.Code, r.Step = fault.Code, fault.Step; fault.Code != "" {
		r.OK = false
		return
	}
	r.Control, r.Steps, r.Calls = checked.Worst(), checked.Steps(), checked.Preflight()
	r.OK = !slices.ContainsFunc(r.Calls, func(f kernel.Forecast) bool { return f.Certain && f.Ruling == kernel.Deny })
}

func (r *kernelReport) summary() string {
	switch {
	case r.Code != "" && r.Step != "":
		return "the plan is wrong at step " + cli.Quoted(r.Step) + ": " + string(r.Code)
	case r.Code == kernel.ControlTooWide:
		return fmt.Sprintf("content can steer the plan by %s, and control_budget_bits is %s", r.Control, r.Budget)
	case r.Code != "":
		return "the plan is wrong: " + string(r.Code)
	default:
		return "a call is certain to be denied: nothing of the plan would run"
	}
}

// planWidth is how wide a plan is shown.
const planWidth = 100

func (r *kernelReport) print(p *cli.Program) error {
	if p.Out.JSON {
		return p.Out.Value(r)
	}
	p.Out.Printf("Its grant allows to call: %s.\n", cmp.Or(cli.Plain(strings.Join(r.Tools, ", ")), "nothing"))
	if len(r.Plan) > 0 {
		p.Out.Heading("What the planner says")
		for _, line := range inert.Prefixed(inert.Gutter, string(r.Plan), planWidth) {
			p.Out.Printf("%s\n", line)
		}
	}
	if len(r.Steps) == 0 {
		return nil
	}
	rows := cli.Map(r.Steps, func(s kernel.StepForecast) []string {
		return []string{s.ID, string(s.Kind), labelWords(&s), strings.Trim(s.Width.String(), `"`)}
	})
	p.Out.Heading("What each value will be")
	p.Out.Table([]string{"STEP", "KIND", "LABEL", "INFLUENCE, BITS"}, rows)
	r.printTree(p)
	if rows = nil; len(r.Calls) == 0 {
		return nil
	}
	for _, c := range r.Calls {
		rows = append(rows, []string{c.Step, c.Tool, c.Ruling.Word(), string(c.Code), strings.Join(c.Rules, ", "), map[bool]string{true: "yes", false: "no"}[c.Certain]})
	}
	p.Out.Heading("What the gate will say")
	p.Out.Table([]string{"STEP", "TOOL", "VERDICT", "CODE", "RULES", "CERTAIN"}, rows)
	return nil
}

// printTree prints the paths of a plan that content can choose, with what each fork costs.
func (r *kernelReport) printTree(p *cli.Program) {
	if !slices.ContainsFunc(r.Steps, func(s kernel.StepForecast) bool { return s.Kind == kernel.EndStep }) {
		return
	}
	p.Out.Heading("What content can steer: at most " + r.Control.String() + " of " + r.Budget.String())
	steps := cli.Map(r.Steps, func(s kernel.StepForecast) tell.TreeStep {
		return tell.TreeStep{Path: s.ID, Kind: string(s.Kind), Bits: s.Bits}
	})
	for _, line := range tell.TreeLines(tell.StepTree(steps)) {
		p.Out.Printf("%s\n", cli.Plain(line))
	}
}

// labelWords says what matters of a label.
func labelWords(s *kernel.StepForecast) string {
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
