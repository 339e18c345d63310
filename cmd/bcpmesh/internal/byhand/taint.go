package byhand

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// TaintCommand returns the command taint.
func TaintCommand(p *cli.Program) *cobra.Command {
	return cli.Group("taint", "Report or reset the taint of an agent",
		`Report or reset the taint of an agent. An agent's answers are as tainted as what
it has read: its base_taint, its reported taint, and the taint of deliveries to
it. A report never lowers taint; it holds across restarts.`,
		`  bcpmesh taint report main --source web
  bcpmesh taint reset main`,
		taintReportCommand(p), taintResetCommand(p))
}

func taintReportCommand(p *cli.Program) *cobra.Command {
	source := cli.WordFlag{}
	for _, s := range bcp.TaintSources() {
		source.Words = append(source.Words, string(s))
	}
	cmd := &cobra.Command{
		Use: "report AGENT", Short: "Report that an agent has read untrusted content",
		Long: `Report that an agent has read something that others may have written: a web
page, a document, the answer of an API, a row of a database, the output of an
agent outside the mesh. Each makes its taint high. A Controller can report so
itself.`,
		Example: "  bcpmesh taint report main --source document",
	}
	source.AddTo(cmd, "source", "where it came from")
	return taintVerbCommand(p, cmd, func(where meshdir.StateFlags, agent string) error {
		if source.Value == "" {
			return cli.Usagef("taint report: expected --source").WithHint("one of %s", strings.Join(source.Words, ", "))
		}
		return isAgent(where, agent)
	}, func(ctx context.Context, o *agents.Operator, agent bcp.AgentName) error {
		return o.ReportTaint(ctx, agent, bcp.TaintSource(source.Value))
	})
}

func taintResetCommand(p *cli.Program) *cobra.Command {
	return taintVerbCommand(p, &cobra.Command{
		Use: "reset AGENT", Short: "Forget an agent's reported and delivered taint",
		Long: `Reset the taint from reports and deliveries, for an agent that has restarted and
remembers nothing. Its base_taint stays.`,
		Example: "  bcpmesh taint reset main",
	}, isAgent, func(ctx context.Context, o *agents.Operator, agent bcp.AgentName) error {
		return o.ResetTaint(ctx, agent)
	})
}

func taintVerbCommand(p *cli.Program, cmd *cobra.Command, check func(meshdir.StateFlags, string) error, do func(context.Context, *agents.Operator, bcp.AgentName) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cli.Arguments(1, "AGENT"), cli.FirstArgument(meshdir.CompleteAgents(false))
	return client.OperatorCommand(cmd, check, func(ctx context.Context, o *client.Client, agent string) error {
		if err := do(ctx, o.Operator(), bcp.AgentName(agent)); err != nil {
			return err
		}
		if p.Out.JSON {
			return p.Out.Value(map[string]string{"agent": agent, "taint": cmd.Name()})
		}
		p.Out.Printf("taint of %s: %s\n", agent, cmd.Name())
		return nil
	})
}

// isAgent refuses what is no agent of the mesh.
func isAgent(where meshdir.StateFlags, name string) error {
	folder, err := where.Folder()
	if err != nil {
		return err
	}
	def, err := folder.Load()
	if err != nil {
		return err
	}
	var names []string
	for _, a := range def.Agents {
		if string(a.Name) == name {
			return nil
		}
		names = append(names, string(a.Name))
	}
	return cli.UnknownAgent(name, names)
}
