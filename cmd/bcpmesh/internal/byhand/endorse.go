package byhand

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// endorsing endorses what is like an item, or lists what is endorsed.
type endorsing struct {
	approverFlags
	Uses, Bits int
	Expires    cli.DurationFlag `least:"1m"`
	Yes        bool             `short:"y"`
	Revoke     string
}

func (f *endorsing) Run(ctx context.Context, p *cli.Program, args []string) error {
	switch {
	case len(args) == 0:
		return f.as(ctx, p, func(approver *agents.Approver) error {
			return listEndorsed(ctx, p, &f.approverFlags, approver, f.Revoke)
		})
	case f.Revoke != "":
		return cli.Usagef("approvals endorse: --revoke takes no ITEM")
	}
	id, err := itemArgument("approvals endorse", args)
	if err != nil {
		return err
	}
	asking := !f.Yes && p.Interactive()
	switch {
	case f.Uses < 1 || f.Bits < 1 || f.Expires.Value == 0:
		return cli.Usagef("approvals endorse: expected --uses, --expires and --bits").WithHint("endorse of mesh.yaml says how much of each you may give")
	case !asking && !f.Yes:
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
		e.Uses, e.Bits, e.Until = f.Uses, f.Bits, time.Now().Add(f.Expires.Value).UTC().Truncate(time.Second)
		if asking {
			err = confirmed(showAll(ctx, p, []bcp.ItemView{view}),
				fmt.Sprintf("Let the next %s like it through without you, until %s, at most %d bits?", tell.Count(f.Uses, kind), tell.Moment(e.Until), f.Bits))
		}
		if err == nil {
			err = f.signed(ctx, func(ctx context.Context) error { return approver.Endorse(ctx, e) })
		}
		if err != nil {
			return err
		}
		return p.Out.Show(e, func() {
			_, _, signs := tell.Endorsed(&e)
			p.Out.Printf("endorsed as %s: %s with %s, until %s\n", e.ID, tell.Count(f.Uses, kind), signs, tell.Moment(e.Until))
			p.Out.Printf("%s itself still waits\n", id)
		})
	})
}

// listEndorsed lists what is endorsed, or ends the endorsement with an id.
func listEndorsed(ctx context.Context, p *cli.Program, f *approverFlags, approver *agents.Approver, revoke string) error {
	list, err := within(ctx, f.Wait, approver.Endorsements)
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
	return cli.ShowRows(p.Out, list, "nothing is endorsed",
		[]string{"endorsement", "by", "channel", "what", "signs", "uses left", "bits left", ""}, func(e *bcp.EndorsementView) []string {
			channel, what, signs := tell.Endorsed(&e.Endorsement)
			return []string{string(e.ID), string(e.By), channel, what, signs, tell.UsesLeft(e), e.BitsLeft.Rounded(), tell.EndorsementState(e)}
		})
}
