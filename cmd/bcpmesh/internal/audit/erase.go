package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// erase are the flags of audit erase.
type erase struct {
	meshdir.StateFlags
	Wait    cli.DurationFlag `default:"10m"`
	Channel client.ChannelFlag
	Before  string // a date
	Raw     bool
	Yes     bool `short:"y"`
}

// Run erases what was said on a channel.
func (o *erase) Run(ctx context.Context, p *cli.Program, _ []string) error {
	if o.Channel.Text == "" || o.Before == "" {
		return cli.Usagef("audit erase: expected --channel and --before").WithHint("audit erase --help shows an example")
	}
	if _, err := time.Parse(time.DateOnly, o.Before); err != nil {
		return cli.Usagef("audit erase: --before: expected a date such as 2026-03-15, got %s", cli.Quoted(o.Before))
	}
	if !o.Yes {
		if !p.Interactive() {
			return cli.Usagef("audit erase: expected --yes, since there is no terminal to ask on")
		}
		ok, err := cli.NewPrompter(ctx, p).Confirm(fmt.Sprintf("Erase what was said on %s before %s, for ever?", o.Channel.Text, o.Before))
		if err != nil {
			return err
		}
		if !ok {
			return cli.Failf("nothing was erased")
		}
	}
	// Asked again, it would record another erasure.
	who := client.Flags{Where: o.StateFlags, Attempt: o.Wait.Value}
	return who.Act(ctx, bcp.RoleOperator, o.Wait.Value, func(ctx context.Context, c *client.Client) error {
		of := bcp.EraseRequest{Controller: o.Channel.Value.Controller, Reader: o.Channel.Value.Reader, Before: o.Before, Raw: o.Raw}
		result, err := c.Operator().Erase(ctx, of)
		if err != nil {
			return err
		}
		return showErased(p, result, o.Channel.Text, of.Before)
	})
}

func showErased(p *cli.Program, r status.Erased, channel, before string) error {
	about := channel
	if about == "_" {
		about = "what belongs to no channel"
	}
	var failed error
	switch {
	case r.Decision == 0:
		failed = cli.Failf("nothing was erased: %s", cli.Plain(strings.Join(r.Reasons, "; ")))
	case r.Failed != "":
		failed = cli.Failf("the erasure is recorded but not complete: %s", cli.Plain(r.Failed)).WithHint("try again: what was erased stays erased")
	case r.NoKeys && channel != "_": // that is nobody's typing error
		failed = cli.Failf("nothing was erased: %s has no keys, since it never had any content", about).
			WithHint("recorded as decision %d; was another channel meant? bcpmesh audit replay shows what was said on which", r.Decision)
	}
	if failed == nil && r.Keys+r.RawKeys == 0 {
		p.Out.Talkf("nothing was erased: of %s there was no content before %s, or it was erased earlier", about, before)
	}
	return p.Out.Report(r, failed, func() {
		p.Out.Printf("erased: %s, %s of raw messages\n", cli.Count(r.Keys, "key"), cli.Count(r.RawKeys, "key"))
		p.Out.Talkf("recorded as decision %d; earlier backups and exports are not erased", r.Decision)
	})
}
