package byhand

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// InboxCommand returns the command inbox.
func InboxCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var follow, keep bool
	var wait cli.DurationFlag
	cmd := cli.Command("inbox", func(ctx context.Context, _ []string) error {
		if keep && follow {
			return cli.Usagef("inbox: --keep and --follow cannot be combined")
		}
		c, err := who.Connect(ctx, bcp.RoleController)
		if err != nil {
			return err
		}
		defer c.Close()
		return inbox(ctx, p, c, follow, keep, wait.Value)
	})
	who.AddTo(cmd, "controller")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow until interrupted")
	cmd.Flags().BoolVar(&keep, "keep", false, "acknowledge nothing")
	cli.WaitFlag(cmd, &wait, time.Second, "how long to wait for the next one")
	return cmd
}

// ErrKept leaves what came where it is: with the gateway.
var ErrKept = errors.New("kept")

// arrival is a delivery that waits to be shown.
type arrival struct {
	delivery bcp.Delivery
	shown    chan<- error // has room
}

// inbox shows deliveries until none has come for a while, or until interrupted.
func inbox(ctx context.Context, p *cli.Program, c *client.Client, follow, keep bool, wait time.Duration) error {
	listen := acknowledge
	if keep {
		listen = look
	}
	arrivals := make(chan arrival)
	stop, err := listen(ctx, c, arrivals)
	if err != nil {
		return meshdir.Failure(err)
	}
	defer stop()
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

// acknowledge hands deliveries over, and acknowledges each once it was shown.
func acknowledge(ctx context.Context, c *client.Client, arrivals chan<- arrival) (stop func(), err error) {
	// What was shown is acknowledged even when the command is interrupted.
	ctx = context.WithoutCancel(ctx)
	left := make(chan struct{})
	controller := agents.NewController(c.Connection)
	controller.OnDelivery(handOver(arrivals, left))
	if err := controller.Start(ctx); err != nil {
		return nil, err
	}
	return func() {
		close(left)
		_ = controller.Stop(ctx) // what was not shown comes again
	}, nil
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
			return ErrKept
		}
	}
}

// look hands deliveries over and acknowledges none, which the SDK does not
// offer: an agent that acknowledges nothing gets no further.
func look(_ context.Context, c *client.Client, arrivals chan<- arrival) (stop func(), err error) {
	left := make(chan struct{})
	seen := make(map[bcp.DeliveryID]bool)
	nc := c.NATS()
	sub, err := nc.Subscribe(subjects.DeliveriesOf(bcp.RoleController, c.Name), func(m *nats.Msg) {
		var d bcp.Delivery
		if bcp.Decode(m.Data, c.Encoding, &d) != nil || seen[d.DeliveryID] {
			return
		}
		seen[d.DeliveryID] = true
		select {
		case arrivals <- arrival{d, make(chan error, 1)}:
		case <-left:
		}
	})
	if err != nil {
		return nil, err
	}
	return func() {
		close(left)
		_ = sub.Unsubscribe() // the connection is closed next
	}, nc.Flush()
}

// showArrived shows one delivery of an inbox, at once.
func showArrived(o *cli.Output, d bcp.Delivery) error {
	if err := o.ShowLine(d, func() {
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
