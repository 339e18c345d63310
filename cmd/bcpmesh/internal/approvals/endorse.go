package approvals

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

func endorseCommand(p *cli.Program) *cobra.Command {
	var f approverFlags
	var uses, bits int
	length := cli.DurationFlag{Least: time.Minute}
	var yes bool
	var revoke string
	cmd := &cobra.Command{
		Use:               "endorse [ITEM]",
		ValidArgsFunction: completeItems(&f.who, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			switch {
			case len(args) == 0:
				return f.as(ctx, p, func(approver *agents.Approver) error { return listEndorsed(ctx, p, &f, approver, revoke) })
			case revoke != "":
				return cli.Usagef("approvals endorse: --revoke takes no ITEM")
			}
			id, err := itemArgument(cmd, args)
			if err != nil {
				return err
			}
			asking := !yes && p.Interactive()
			switch {
			case uses < 1 || bits < 1 || length.Value == 0:
				return cli.Usagef("approvals endorse: expected --uses, --expires and --bits").WithHint("endorse of mesh.yaml says how much of each you may give")
			case !asking && !yes:
				return cli.Usagef("approvals endorse: expected --yes for what releases without you")
			}
			return f.as(ctx, p, func(approver *agents.Approver) error {
				view, err := f.view(ctx, approver, id)
				if err != nil {
					return err
				}
				e, why := bcp.EndorsementOf(&view, bcp.EndorsementID("e"+strings.ToLower(rand.Text())))
				if why != "" {
					return cli.Failf("%s cannot be endorsed: %s", id, why)
				}
				if view.Endorse == nil {
					return cli.Failf("you may not endorse what is like %s", id).WithHint("endorse of mesh.yaml names who may")
				}
				kind := tell.EndorsedKind(&e)
				e.Uses, e.Bits, e.Until = uses, bits, time.Now().Add(length.Value).UTC().Truncate(time.Second)
				if asking {
					err = confirmed(showAll(ctx, p, []bcp.ItemView{view}),
						fmt.Sprintf("Let the next %s like it through without you, until %s, at most %d bits?", tell.Count(uses, kind), tell.Moment(e.Until), bits))
				}
				if err == nil {
					err = f.signed(ctx, func(ctx context.Context) error { return approver.Endorse(ctx, e) })
				}
				if err != nil {
					return err
				}
				return p.Out.Show(e, func() {
					_, _, signs := tell.Endorsed(&e)
					p.Out.Printf("endorsed as %s: %s with %s, until %s\n", e.ID, tell.Count(uses, kind), signs, tell.Moment(e.Until))
					p.Out.Printf("%s itself still waits\n", id)
				})
			})
		},
	}
	f.addTo(cmd)
	cmd.Flags().IntVar(&uses, "uses", 0, "how many it lets through")
	cmd.Flags().Var(&length, "expires", "how long it holds")
	cmd.Flags().IntVar(&bits, "bits", 0, "bits of all that it lets through")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().StringVar(&revoke, "revoke", "", "end the endorsement with this `ID`")
	return cmd
}

// listEndorsed lists what is endorsed, or ends the endorsement with an id.
func listEndorsed(ctx context.Context, p *cli.Program, f *approverFlags, approver *agents.Approver, revoke string) error {
	list, err := within(ctx, f.wait, approver.Endorsements)
	if err != nil {
		return err
	}
	if revoke != "" {
		for i := range list {
			if string(list[i].ID) != revoke {
				continue
			}
			if err := f.signed(ctx, func(ctx context.Context) error { return approver.Revoke(ctx, list[i]) }); err != nil {
				return err
			}
			return p.Out.Show(list[i], func() { p.Out.Printf("ended %s: what is like it is held again\n", revoke) })
		}
		return cli.Failf("there is no endorsement %s", cli.Quoted(revoke)).WithHint("bcpmesh approvals endorse lists them")
	}
	return cli.ShowList(p.Out, list, "nothing is endorsed", func(o *cli.Output, list []bcp.EndorsementView) {
		o.Table([]string{"endorsement", "by", "channel", "what", "signs", "uses left", "bits left", ""}, cli.Rows(list, func(e *bcp.EndorsementView) []string {
			channel, what, signs := tell.Endorsed(&e.Endorsement)
			return []string{string(e.ID), string(e.By), channel, what, signs, tell.UsesLeft(e), e.BitsLeft.Rounded(), tell.EndorsementState(e)}
		}))
	})
}
