package define

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// Check are the flags of check.
type Check struct{ Elsewhere bool }

// checkResult is the JSON form of check: its keys are a contract.
type checkResult struct {
	OK       bool                 `json:"ok"`
	Errors   []definition.Problem `json:"errors"`
	Warnings []definition.Problem `json:"warnings"`
	Channels []channelInfo        `json:"channels"`
	Kernels  []kernelInfo         `json:"kernels,omitzero"`
	Agents   []reachInfo          `json:"agents,omitzero"`   // what each holds, reads and may send out
	Replicas int                  `json:"replicas,omitzero"` // if above 1: only a cluster can run it
}

// channelInfo describes one channel by what both ends say together, and what its
// subscriptions cost.
type channelInfo struct {
	Controller    bcp.AgentName      `json:"controller"`
	Reader        bcp.AgentName      `json:"reader"`
	MaxCategory   bcp.Category       `json:"max_category"`
	BudgetBits    bcp.Bits           `json:"budget_bits"`
	Timing        string             `json:"timing"` // counted or uncounted
	Subscriptions []subscriptionInfo `json:"subscriptions"`
}

// subscriptionInfo describes one subscription and the price of one push,
// without its timing.
type subscriptionInfo struct {
	ID           bcp.SubscriptionID `json:"id"`
	Category     bcp.Category       `json:"category"`
	NominalBits  bcp.Bits           `json:"nominal_bits"`
	CapacityBits bcp.Bits           `json:"capacity_bits"`
}

// Run checks the definitions of a folder.
func (o *Check) Run(_ context.Context, p *cli.Program, args []string) error {
	folder, err := meshdir.Argument(args)
	if err != nil {
		if !p.Out.JSON {
			return err
		}
		// Whoever reads JSON finds the reason there.
		folder = meshdir.In(".")
		if len(args) > 0 {
			folder = meshdir.In(args[0])
		}
	}
	site := meshdir.Elsewhere()
	if !o.Elsewhere {
		site = folder.Here()
	}
	mesh, report := site.Load(os.DirFS(folder.Dir))
	report.Errors = append(report.Errors, checkWrapped(folder.Dir)...)
	result := checkResult{OK: mesh != nil && report.OK(), Errors: report.Errors, Warnings: report.Warnings}
	if mesh != nil {
		result.Kernels = describeKernels(mesh)
		if result.Channels, err = describeChannels(mesh); err != nil {
			return err
		}
		result.Agents = describeReach(mesh)
		if mesh.Replicas > 1 {
			result.Replicas = mesh.Replicas
		}
	}
	if err := p.Out.Show(result, func() { showCheck(p, folder, mesh, result) }); err != nil {
		return err
	}
	if !result.OK {
		return cli.Failf("%s has %s", cli.Quoted(folder.Dir), cli.Count(len(result.Errors), "error"))
	}
	return nil
}

// checkWrapped looks for mistakes in the files of bcpmesh wrap, which people edit.
func checkWrapped(dir string) (problems []definition.Problem) {
	names, _ := filepath.Glob(filepath.Join(dir, "tools", "*.json")) // the pattern is good
	for _, name := range names {
		p := definition.Problem{File: path.Join("tools", filepath.Base(name)), Line: 1, Column: 1, Code: definition.CodeBadValue}
		content, err := cli.ReadFile(name, wrap.MaxFile)
		if err != nil {
			p.Code, p.Message = definition.CodeUnreadable, cli.FileReason(err)
		} else if _, err = wrap.Parse(content); err != nil {
			p.Line, p.Column = wrap.Place(content, err)
			p.Message = cli.Plain(err.Error())
		}
		if err != nil {
			problems = append(problems, p)
		}
	}
	return problems
}

func showCheck(p *cli.Program, folder meshdir.Folder, mesh *bcp.Mesh, result checkResult) {
	for _, e := range result.Errors {
		e.File = filepath.Join(folder.Dir, e.File)
		p.Out.Talkf("%s", e)
	}
	for _, w := range result.Warnings {
		meshdir.TalkProblem(p, folder, "warning", w)
	}
	if !result.OK {
		return
	}
	p.Out.Heading("Channels")
	rows := cli.Map(result.Channels, func(c channelInfo) []string {
		var ids, nominal, capacity []string
		for _, s := range c.Subscriptions {
			ids = append(ids, string(s.ID)+" ("+strconv.Itoa(int(s.Category))+")")
			nominal = append(nominal, s.NominalBits.Rounded())
			capacity = append(capacity, s.CapacityBits.Rounded())
		}
		return []string{
			string(c.Controller), string(c.Reader), strconv.Itoa(int(c.MaxCategory)), c.BudgetBits.Rounded(),
			strings.Join(ids, "\n"), strings.Join(nominal, "\n"), strings.Join(capacity, "\n"), c.Timing,
		}
	})
	if len(rows) == 0 {
		p.Out.Printf("none: no two entries name each other\n")
	} else {
		p.Out.Table([]string{"controller", "reader", "category", "budget", "subscription", "nominal", "capacity", "timing"}, rows)
	}
	p.Out.Printf("\n")
	showKernels(p.Out, result.Kernels)
	showReach(p.Out, result.Agents)
	p.Out.Printf("\n%s, %s, %s\n", cli.Count(len(mesh.Agents), "agent"), cli.Count(len(result.Channels), "channel"), cli.Count(len(result.Warnings), "warning"))
	if result.Replicas > 0 {
		p.Out.Printf("replicas: %d needs a NATS cluster: bcpmesh gateway runs this mesh, and bcpmesh up refuses it\n", result.Replicas)
	}
}

func describeChannels(mesh *bcp.Mesh) ([]channelInfo, error) {
	channels := []channelInfo{}
	for _, c := range mesh.Channels {
		info := channelInfo{Controller: c.Controller, Reader: c.Reader, MaxCategory: c.MaxCategory, BudgetBits: c.Budget, Timing: "uncounted"}
		if c.ReleaseInterval > 0 {
			info.Timing = "counted"
		}
		settings := c.Settings(mesh, constraint.Compile)
		for _, s := range c.Subscriptions {
			validator, err := bcp.Compile(s.Spec, settings.OfSubscription(s, len(c.Subscriptions)))
			if err != nil {
				return nil, cli.Failf("subscription %s of %s: %s", s.ID, c.Controller, err)
			}
			prices := validator.Prices()
			info.Subscriptions = append(info.Subscriptions, subscriptionInfo{ID: s.ID, Category: s.Spec.Category, NominalBits: prices.Nominal, CapacityBits: prices.Capacity})
		}
		channels = append(channels, info)
	}
	return channels, nil
}
