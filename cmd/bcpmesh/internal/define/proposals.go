package define

import (
	"context"
	"fmt"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// Proposals lists what was approved and is not in the definitions.
type Proposals struct{ client.OperatorFlags }

func (o *Proposals) Run(ctx context.Context, p *cli.Program, _ []string) error {
	return o.Act(ctx, func(ctx context.Context, c *client.Client) error {
		list, err := c.Operator().Proposals(ctx)
		if err != nil {
			return err
		}
		return cli.ShowList(p.Out, list, "no approved proposal of the last day is missing from the definitions", showProposals)
	})
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

// Send proposes a subscription.
type Send struct {
	client.Flags
	Wait cli.DurationFlag `default:"30s"`
}

func (o *Send) Run(ctx context.Context, p *cli.Program, args []string) error {
	proposal := bcp.Proposal{Reader: bcp.AgentName(args[0])}
	object, err := p.AnswerArgument(ctx, "proposals send", args, 1)
	if err != nil {
		return err
	}
	if proposal.Subscription, err = bcp.ParseProposedSubscription(object); err != nil {
		return cli.Usagef("proposals send: this is not a subscription: %s", cli.Plain(err.Error()))
	}
	return o.Act(ctx, bcp.RoleController, o.Wait.Value, func(ctx context.Context, c *client.Client) error {
		item, err := agents.NewController(c.Connection).Propose(ctx, proposal)
		if err != nil {
			return err
		}
		return p.Out.Show(bcp.Proposed{Item: item}, func() { p.Out.Printf("%s waits for a person\n", item) })
	})
}
