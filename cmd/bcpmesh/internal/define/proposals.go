package define

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// ProposalsCommand returns the command proposals.
func ProposalsCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var wait cli.DurationFlag
	cmd := cli.Command("proposals [COMMAND]", func(ctx context.Context, _ []string) error {
		return client.AsOperator(ctx, where, wait.Value, func(ctx context.Context, c *client.Client) error {
			list, err := c.Operator().Proposals(ctx)
			if err != nil {
				return err
			}
			return cli.ShowList(p.Out, list, "no approved proposal of the last day is missing from the definitions", showProposals)
		})
	})
	where.AddTo(cmd)
	cli.WaitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cli.Noun(cmd, nil, proposalsSendCommand(p))
}

// showProposals shows proposals with the lines that a definition would have.
func showProposals(o *cli.Output, list []bcp.ApprovedProposal) {
	for i := range list {
		a := &list[i]
		o.Heading(fmt.Sprintf("%s, approved %s: %s", a.Item, a.Approved.Local().Format(time.DateTime), cli.ChannelName(a.Controller, a.Reader)))
		dash := "- "
		for _, line := range definition.SubscriptionLines(&a.Subscription) {
			o.Printf("%s%s\n", dash, cli.Plain(line))
			dash = "  "
		}
		o.Printf("\n")
	}
	o.Talkf("write them under subscriptions of the controller's entry, then: bcpmesh reload")
}

func proposalsSendCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var wait cli.DurationFlag
	cmd := &cobra.Command{
		Use: "send READER [JSON]",
		RunE: func(cmd *cobra.Command, args []string) error {
			proposal := bcp.Proposal{Reader: bcp.AgentName(args[0])}
			object, err := cli.AnswerArgument(cmd, p, args, 1)
			if err != nil {
				return err
			}
			if proposal.Subscription, err = bcp.ParseProposedSubscription(object); err != nil {
				return cli.Usagef("proposals send: this is not a subscription: %s", cli.Plain(err.Error()))
			}
			return who.Act(cmd.Context(), bcp.RoleController, wait.Value, func(ctx context.Context, c *client.Client) error {
				item, err := agents.NewController(c.Connection).Propose(ctx, proposal)
				if err != nil {
					return err
				}
				return p.Out.Show(bcp.Proposed{Item: item}, func() { p.Out.Printf("%s waits for a person\n", item) })
			})
		},
	}
	who.AddTo(cmd, "controller")
	cli.WaitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cmd
}
