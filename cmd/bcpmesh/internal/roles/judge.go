package roles

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/simulate"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func judgeCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var trust []string
	var requirement string
	var last int64
	cmd := &cobra.Command{
		Use:   "judge AGENT --trust ORGANISATION=FILE",
		Short: "Challenge another organisation's mesh about one of its agents",
		Long: `Challenge a mesh of another organisation about an agent of its own, and judge what it
answers: AGENT is a name and an organisation, and --trust has the public key that its
organisation signs with. --creds are those that the other mesh has issued to an agent
of yours, which must be one that shows its roles there; the other mesh proves itself
to them. The other mesh is told the verdict, and records it.

It prints until when the agent is accepted, and the number of the revocation list:
give it as --last-revocations the next time, so that no older list is accepted.

Exit code 3 means that the agent is not accepted; the printed code says why.`,
		Example: "  bcpmesh role judge main@org1.example --trust org1.example=org1.pem --creds desk.creds --url tls://org1.example:4222",
		Args:    cli.Arguments(1, "AGENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			agent, ok := contract.ParseAgentID(args[0])
			if !ok {
				return cli.Usagef("role judge: %s is not an agent", cli.Quoted(args[0])).WithHint("expected a name and an organisation, such as agent-a@org1.example")
			}
			if who.Creds == "" {
				return cli.Usagef("role judge: expected --creds").WithHint("use the creds that the other mesh has issued")
			}
			by := agents.RoleTrust{LastRevocations: last, Requirement: contract.DualLLMRequirement()}
			var err error
			if by.Keys, err = simulate.ReadTrust("role judge", trust); err != nil {
				return err
			}
			if requirement != "" {
				if by.Requirement, err = simulate.ReadRequirement(requirement); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), answerWithin)
			defer cancel()
			c, err := who.Remote(ctx, 0)
			if err != nil {
				return err
			}
			defer c.Close()
			v, list, err := c.JudgeRole(ctx, agent, by)
			if err != nil {
				return meshdir.Failure(err)
			}
			return showVerdict(p.Out, v, list.Number)
		},
	}
	cli.TakeGiven(cmd, "--creds, --url: of the other mesh", cli.Into{"creds": &who.Creds, "url": &who.URL, "ca": &who.CA})
	cmd.Flags().StringArrayVar(&trust, "trust", nil, "`ORGANISATION=FILE` with its public ed25519 key in PEM; may be repeated")
	cmd.Flags().StringVar(&requirement, "requirement", "", "JSON `FILE` with the requirement (default: the draft's six invariants)")
	cmd.Flags().Int64Var(&last, "last-revocations", 0, "`NUMBER` of the newest list seen; older ones are refused")
	cli.Complete(cmd, "trust", cobra.NoFileCompletions)
	cli.Complete(cmd, "last-revocations", cobra.NoFileCompletions)
	return cmd
}
