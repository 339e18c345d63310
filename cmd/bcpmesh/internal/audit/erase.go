package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func auditEraseCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var wait cli.DurationFlag
	var channel client.ChannelFlag
	var before string
	var raw, yes bool
	cmd := cli.Command("erase", func(ctx context.Context, _ []string) error {
		if channel.Text == "" || before == "" {
			return cli.Usagef("audit erase: expected --channel and --before").WithHint("audit erase --help shows an example")
		}
		if !yes {
			if !p.Interactive() {
				return cli.Usagef("audit erase: expected --yes, since there is no terminal to ask on")
			}
			ok, err := cli.NewPrompter(ctx, p).Confirm(fmt.Sprintf("Erase what was said on %s before %s, for ever?", channel.Text, before))
			if err != nil {
				return err
			}
			if !ok {
				return cli.Failf("nothing was erased")
			}
		}
		// Asked again, it would record another erasure.
		who := client.Flags{Where: where, Attempt: wait.Value}
		return who.Act(ctx, bcp.RoleOperator, wait.Value, func(ctx context.Context, c *client.Client) error {
			of := bcp.EraseRequest{Controller: channel.Value.Controller, Reader: channel.Value.Reader, Before: before, Raw: raw}
			result, err := c.Operator().Erase(ctx, of)
			if err != nil {
				return err
			}
			return showErased(p, result, &channel, before)
		})
	})
	where.AddTo(cmd)
	cli.WaitFlag(cmd, &wait, 10*time.Minute, "how long to try")
	cmd.Flags().Var(&channel, "channel", "the channel, or _ for content of no channel")
	cmd.Flags().Func("before", "the first `DATE` to keep, in UTC", func(day string) error {
		before = day
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return errors.New("expected a date such as 2026-03-15")
		}
		return nil
	})
	cmd.Flags().BoolVar(&raw, "raw", false, "also the verbatim messages")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func showErased(p *cli.Program, r status.Erased, channel *client.ChannelFlag, before string) error {
	about := channel.Text
	if about == "_" {
		about = "what belongs to no channel"
	}
	var failed error
	switch {
	case r.Decision == 0:
		failed = cli.Failf("nothing was erased: %s", cli.Plain(strings.Join(r.Reasons, "; ")))
	case r.Failed != "":
		failed = cli.Failf("the erasure is recorded but not complete: %s", cli.Plain(r.Failed)).WithHint("try again: what was erased stays erased")
	case r.NoKeys && channel.Text != "_": // that is nobody's typing error
		failed = cli.Failf("nothing was erased: %s has no keys, since it never had any content", about).
			WithHint("recorded as decision %d; was another channel meant? bcpmesh audit replay shows what was said on which", r.Decision)
	}
	if failed == nil && r.Keys+r.RawKeys == 0 {
		p.Out.Talkf("nothing was erased: of %s there was no content before %s, or it was erased earlier", about, before)
	}
	if p.Out.JSON {
		return errors.Join(p.Out.Value(r), failed)
	}
	if failed == nil {
		p.Out.Printf("erased: %s, %s of raw messages\n", cli.Count(r.Keys, "key"), cli.Count(r.RawKeys, "key"))
		p.Out.Talkf("recorded as decision %d; earlier backups and exports are not erased", r.Decision)
	}
	return failed
}
