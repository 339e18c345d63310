package define

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// part is an agent in a role.
type part struct {
	Agent bcp.AgentName `json:"agent"`
	Role  contract.Role `json:"role"`
	// Contract is the name of the contract that it keeps.
	Contract    string `json:"contract"`
	ModelFamily string `json:"model_family,omitempty"`
	// By are the kernels that ask it.
	By []string `json:"kernels"`
}

// listParts returns who plays the roles of kernels in a mesh: by its own file, or by the
// kernel that asks it. A planner may have no file.
func listParts(m *bcp.Mesh) []part {
	parts := []part{}
	add := func(name bcp.AgentName, role contract.Role, kernel bcp.AgentName) {
		i := slices.IndexFunc(parts, func(p part) bool { return p.Agent == name && p.Role == role })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{Agent: name, Role: role, Contract: string(role) + "-v1", By: []string{}})
		}
		if kernel != "" {
			parts[i].By = append(parts[i].By, string(kernel))
		}
	}
	for i := range m.Agents {
		a := &m.Agents[i]
		if a.Execution.Role != "" {
			add(a.Name, contract.Role(a.Execution.Role), "")
		}
		k := m.Kernel(a.Name)
		if k == nil {
			continue
		}
		add(a.Name, contract.Orchestrator, "")
		add(k.Planner, contract.Planner, a.Name)
		for _, reader := range k.Processors {
			add(reader, contract.Processor, a.Name)
		}
	}
	for i := range parts {
		if a, ok := m.Agent(parts[i].Agent); ok && a.Execution.Role == string(parts[i].Role) {
			parts[i].Contract, parts[i].ModelFamily = a.Execution.Contract, a.Execution.ModelFamily
		}
	}
	order := contract.Roles()
	slices.SortStableFunc(parts, func(a, b part) int { return slices.Index(order, a.Role) - slices.Index(order, b.Role) })
	return parts
}

// Roles lists who plays which role.
type Roles struct{ meshdir.StateFlags }

func (o *Roles) Run(_ context.Context, p *cli.Program, _ []string) error {
	_, m, err := o.Load()
	if err != nil {
		return err
	}
	parts := listParts(m)
	return p.Out.Show(struct {
		Organisation string `json:"organisation,omitempty"`
		Parts        []part `json:"parts"`
	}{m.Organisation, parts}, func() {
		if len(parts) == 0 {
			p.Out.Printf("no agent has a role: there is no kernel\n")
			return
		}
		if m.Organisation != "" {
			p.Out.Printf("of %s\n\n", m.Organisation)
		}
		p.Out.Table([]string{"agent", "role", "contract", "model family", "asked by"}, cli.Rows(parts, func(x *part) []string {
			return []string{string(x.Agent), string(x.Role), x.Contract, cli.Plain(x.ModelFamily), strings.Join(x.By, ", ")}
		}))
	})
}

// RoleReport reports which contracts are kept.
type RoleReport struct{ client.Flags }

func (o *RoleReport) Run(ctx context.Context, p *cli.Program, _ []string) error {
	reports, err := buildReports(ctx, p, &o.Flags)
	if err != nil {
		return err
	}
	if err := p.Out.Show(reports, func() { showReports(p.Out, reports) }); err != nil {
		return err
	}
	var not []string
	for _, r := range reports {
		if !r.Report.OK {
			not = append(not, r.Contract)
		}
	}
	switch {
	case len(reports) == 0:
		return cli.Failf("no agent of the mesh has a role").WithHint("a kernel gives agents roles: docs/kernel.md")
	case len(not) > 0:
		return cli.Failf("not shown to be kept: %s", strings.Join(not, ", ")).WithHint("docs/contracts.md says what shows each invariant")
	}
	return nil
}

// kept is the report of one contract, and of whom it is.
type kept struct {
	Contract string          `json:"contract"`
	Agents   []bcp.AgentName `json:"agents"`
	Report   contract.Report `json:"report"`
}

// buildReports gathers the facts of a mesh, and reports on each contract that one of its
// agents keeps.
func buildReports(ctx context.Context, p *cli.Program, who *client.Flags) ([]kept, error) {
	folder, m, err := who.Where.Load()
	if err != nil {
		return nil, err
	}
	proven, jwts, err := prove(folder.State)
	if err != nil {
		return nil, err
	}
	f := mesh.ContractFacts(m, proven, jwts, cli.ProgramVersion())
	if proven != nil {
		var monitor mesh.ContractMonitor
		if err := audit.EachDecision(ctx, p, who, monitor.Add); err != nil {
			return nil, err
		}
		f.Monitors = monitor.Facts()
	}
	contracts := definition.Contracts(m)
	reports := []kept{}
	for _, x := range listParts(m) {
		i := slices.IndexFunc(reports, func(k kept) bool { return k.Contract == x.Contract })
		if i < 0 {
			i = len(reports)
			reports = append(reports, kept{Contract: x.Contract, Report: contract.Verify(contracts[x.Contract], f)})
		}
		reports[i].Agents = append(reports[i].Agents, x.Agent)
	}
	return reports, nil
}

func showReports(o *cli.Output, reports []kept) {
	for i, k := range reports {
		if i > 0 {
			o.Printf("\n")
		}
		names := cli.Map(k.Agents, func(name bcp.AgentName) string { return string(name) })
		verdict := "is not shown to be kept"
		if k.Report.OK {
			verdict = "is kept"
		}
		o.Heading(k.Contract + " " + verdict + " by " + strings.Join(names, ", "))
		rows := cli.Map(k.Report.Invariants, func(v contract.InvariantReport) []string {
			verdict := string(v.Verdict)
			if v.But != "" {
				verdict += ", but for errors"
			}
			return []string{v.ID, v.Predicate, v.Declared.String(), levels(v.Shown), verdict}
		})
		for _, w := range k.Report.Prohibited {
			verdict := string(contract.Holds)
			switch {
			case w.Fails:
				verdict = string(contract.Fails)
			case len(w.Shown) == 0:
				verdict = string(contract.Unverified)
			}
			rows = append(rows, []string{"never " + w.Word, w.Predicate, "", levels(w.Shown), verdict})
		}
		o.Table([]string{"invariant", "predicate", "declared", "shown", "verdict"}, rows)
		rows = nil
		for _, v := range k.Report.Invariants {
			for _, e := range v.Evidence {
				says := e.Detail
				if e.Against {
					says = "against it: " + says
				}
				if e.Record > 0 {
					says += ", first by record " + strconv.FormatUint(e.Record, 10)
				}
				rows = append(rows, []string{v.ID, e.Level.String(), e.By, cli.Plain(says)})
			}
			if v.But != "" {
				rows = append(rows, []string{v.ID, "", "but for", v.But})
			}
		}
		if len(rows) > 0 {
			o.Printf("\n")
			o.Table([]string{"invariant", "level", "by", "evidence"}, rows)
		}
	}
}

func levels(shown []contract.Level) string {
	if len(shown) == 0 {
		return "nowhere"
	}
	words := cli.Map(shown, func(l contract.Level) string { return l.String() })
	return strings.Join(words, ", ")
}
