package byhand

import (
	"context"
	"errors"
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
	var reset, lift bool
	source := cli.WordFlag{}
	for _, s := range bcp.TaintSources() {
		source.Words = append(source.Words, string(s))
	}
	cmd := &cobra.Command{
		Use:               "taint AGENT",
		ValidArgsFunction: cli.FirstArgument(meshdir.CompleteAgents(false)),
	}
	source.AddTo(cmd, "source", "where it came from")
	cmd.Flags().BoolVar(&reset, "reset", false, "forget the reported and delivered taint")
	cmd.Flags().BoolVar(&lift, "lift", false, "end its suspension")
	cmd.MarkFlagsMutuallyExclusive("source", "reset", "lift")
	return client.OperatorCommand(cmd, func(where meshdir.StateFlags, agent string) error {
		if lift { // of a tool service, too
			return nil
		}
		if (source.Value == "") != reset {
			return cli.Usagef("taint: expected --source, --reset or --lift").WithHint("a source is one of %s", strings.Join(source.Words, ", "))
		}
		return isAgent(where, agent)
	}, func(ctx context.Context, o *client.Client, agent string) error {
		did, err := "report", error(nil)
		if lift {
			did, err = "lifted", liftSuspension(ctx, o, agent)
		} else if reset {
			did, err = "reset", o.Operator().ResetTaint(ctx, bcp.AgentName(agent))
		} else {
			err = o.Operator().ReportTaint(ctx, bcp.AgentName(agent), bcp.TaintSource(source.Value))
		}
		switch {
		case err != nil:
			return err
		case p.Out.JSON:
			return p.Out.Value(map[string]string{"agent": agent, "taint": did})
		}
		if lift {
			p.Out.Printf("%s is not suspended any more\n", cli.Plain(agent))
			return nil
		}
		p.Out.Printf("taint of %s: %s\n", agent, did)
		return nil
	})
}

func liftSuspension(ctx context.Context, o *client.Client, agent string) error {
	err := o.Operator().Lift(ctx, bcp.AgentName(agent))
	if refused, ok := errors.AsType[*agents.RefusedError](err); ok && refused.Code == bcp.Malformed {
		return cli.Failf("%s is not suspended", cli.Plain(agent)).WithHint("bcpmesh status shows who is")
	}
	return err
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
