package byhand

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// Inbox shows deliveries.
type Inbox struct {
	client.Flags
	Follow bool             `short:"f"`
	Wait   cli.DurationFlag `default:"1s"`
}

func (o *Inbox) Run(ctx context.Context, p *cli.Program, _ []string) error {
	return o.Act(ctx, bcp.RoleController, 0, func(ctx context.Context, c *client.Client) error {
		return showInbox(ctx, p, agents.NewController(c.Connection), o.Follow, o.Wait.Value)
	})
}

// arrival is a delivery that waits to be shown.
type arrival struct {
	delivery bcp.Delivery
	shown    chan<- error // has room
}

// showInbox shows deliveries until none has come for a while, or until interrupted. Each is
// acknowledged once it was shown.
func showInbox(ctx context.Context, p *cli.Program, c *agents.Controller, follow bool, wait time.Duration) error {
	arrivals, left := make(chan arrival), make(chan struct{})
	c.OnDelivery(handOver(arrivals, left))
	// What was shown is acknowledged even when the command is interrupted.
	lasting := context.WithoutCancel(ctx)
	if err := c.Start(lasting); err != nil {
		return err
	}
	defer func() {
		close(left)
		_ = c.Stop(lasting) // what was not shown comes again
	}()
	patience := time.NewTimer(wait)
	defer patience.Stop()
	if follow {
		patience.Stop()
	}
	for n := 0; ; n++ {
		select {
		case a := <-arrivals:
			err := showArrived(p.Out, a.delivery)
			a.shown <- err
			if err != nil {
				return err
			}
			if !follow {
				patience.Reset(wait)
			}
		case <-patience.C:
			if n == 0 && !p.Out.JSON {
				p.Out.Talkf("nothing waits")
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// handOver is a handler of deliveries that hands them over until left is closed. The
// agent acknowledges each that was shown.
func handOver(arrivals chan<- arrival, left <-chan struct{}) func(context.Context, bcp.Delivery) error {
	return func(_ context.Context, d bcp.Delivery) error {
		shown := make(chan error, 1)
		select {
		case arrivals <- arrival{d, shown}:
			return <-shown
		case <-left:
			return agents.ErrKeep
		}
	}
}

// showArrived shows one delivery of an inbox, at once.
func showArrived(o *cli.Output, d bcp.Delivery) error {
	if err := o.Show(d, func() {
		source := "query " + string(d.QueryID)
		if d.SubscriptionID != "" {
			source = "subscription " + string(d.SubscriptionID)
		}
		what, price := string(d.Outcome), d.BandwidthBits.Words()+", "
		switch d.Outcome {
		case "":
			what = answerText(d)
		case bcp.Held: // what it costs is told with what comes of it
			price = ""
		}
		o.Printf("%s, %s: %s  (%sdelivered taint %s)\n", d.FromAgent, source, cli.Plain(what), price, d.Taint)
	}); err != nil {
		return err
	}
	return o.Flush()
}

// answerText is the answer of a delivery, or its pushes, with commas between them.
func answerText(d bcp.Delivery) string {
	texts := []string{string(bytes.TrimSpace(d.Response))}
	if len(d.Batch) > 0 {
		texts = nil
	}
	for _, p := range d.Batch {
		texts = append(texts, string(p.Response))
	}
	return strings.Join(texts, ", ")
}
