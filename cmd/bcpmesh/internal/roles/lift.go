package roles

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func liftCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lift AGENT",
		Short: "End the suspension of an agent",
		Long: `End the suspension of an agent, a planner or a tool service that did what its role
does not (on_suspect: suspend in mesh.yaml). Look at what it did first: bcpmesh audit
replay --agent. Refused messages stay refused, and ended runs stay ended.`,
		Example: "  bcpmesh role lift researcher",
		Args:    cli.Arguments(1, "AGENT"), ValidArgsFunction: cli.FirstArgument(meshdir.CompleteAgents(false)),
	}
	return client.OperatorCommand(cmd, nil, func(ctx context.Context, o *client.Client, agent string) error {
		err := o.Operator().Lift(ctx, bcp.AgentName(agent))
		var refused *agents.RefusedError
		switch {
		case errors.As(err, &refused) && refused.Code == bcp.Malformed:
			return cli.Failf("%s is not suspended", cli.Plain(agent)).WithHint("bcpmesh status shows who is")
		case err != nil:
			return err
		case p.Out.JSON:
			return p.Out.Value(map[string]string{"agent": agent, "lifted": "yes"})
		}
		p.Out.Printf("%s is not suspended any more\n", cli.Plain(agent))
		return nil
	})
}
