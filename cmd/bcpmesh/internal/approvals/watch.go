package approvals

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func watchCommand(p *cli.Program) *cobra.Command {
	var f approverFlags
	cmd := &cobra.Command{
		Use: "watch",
		RunE: func(cmd *cobra.Command, _ []string) error {
			screen, isFile := p.Out.Screen.(*os.File)
			if !isFile || !p.Out.Terminal || !cli.IsTerminal(p.In) || p.Env("TERM") == "dumb" || p.Out.JSON {
				return cli.Usagef("approvals watch: it needs a terminal and writes no JSON").
					WithHint("use bcpmesh approvals --json and show ITEM --json")
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel() // ends what the view still asks the mesh
			d := &desk{flags: &f, alerts: make(chan struct{}, 1)}
			defer d.close()
			// The first connection is made here: what is wrong with the command line
			// or the mesh is one line on stderr.
			err := f.withTimeout(ctx, func(ctx context.Context) error {
				_, err := d.approver(ctx)
				return err
			})
			if err != nil {
				return err
			}
			m := newWatchModel(ctx, d, string(d.c.Name), p.Out.Colours)
			program := tea.NewProgram(m, tea.WithInput(p.In), tea.WithOutput(screen), tea.WithoutSignalHandler())
			// A program with a context is killed when that ends, and closes its input while
			// it still reads it.
			stop := context.AfterFunc(ctx, program.Quit)
			defer stop()
			_, err = program.Run()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return cli.Failf("the terminal: %s", err)
			}
			return nil
		},
	}
	f.addTo(cmd)
	return cmd
}

// decider is what a person does about items: an [agents.Approver], or a desk that
// comes back when the mesh does.
type decider interface {
	List(ctx context.Context) ([]bcp.Item, error)
	View(ctx context.Context, id bcp.ItemID) (bcp.ItemView, error)
	Together(ctx context.Context, act bcp.Act, views []bcp.ItemView, reason string) ([]error, error)
	Preview(ctx context.Context, view bcp.ItemView, response any) (bcp.EditPreview, error)
	Edit(ctx context.Context, view bcp.ItemView, preview bcp.EditPreview) error
}

// Limits of a desk.
const (
	// deskTime is how long one exchange may take before the mesh counts as away.
	deskTime = 5 * time.Second
	// deskRenewal is when a desk reconnects: well before the credentials
	// expire that it made for itself.
	deskRenewal = client.OwnCredsTTL / 2
)

// desk is an approver's connection that one can live with: it comes back after
// the mesh was away or moved to another port, and with fresh credentials before
// its own expire. It may be used concurrently.
type desk struct {
	flags  *approverFlags
	alerts chan struct{} // something was held; holds one

	mu    sync.Mutex
	c     *client.Client
	on    *agents.Approver // of c
	since time.Time
}

func (d *desk) approver(ctx context.Context) (*agents.Approver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.c != nil && (d.c.NATS().IsClosed() || time.Since(d.since) > deskRenewal) {
		d.drop()
	}
	if d.c == nil {
		c, err := d.flags.who.Connect(ctx, bcp.RoleApprover)
		if err != nil {
			return nil, err
		}
		err = c.OnAlert(func(a bcp.Alert) {
			if a.Alert == bcp.AlertHeld {
				select {
				case d.alerts <- struct{}{}:
				default:
				}
			}
		})
		if err != nil {
			c.Close()
			return nil, meshdir.Failure(err)
		}
		d.c, d.on, d.since = c, agents.NewApprover(c.Connection), time.Now()
	}
	return d.on, nil
}

// drop forgets the connection; the caller holds the lock.
func (d *desk) drop() {
	if d.c != nil {
		d.c.Close()
		d.c = nil
	}
}

func (d *desk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop()
}

// try runs one exchange. A mesh that does not answer is dialled again the next
// time: it may serve somewhere else by then.
func (d *desk) try(ctx context.Context, exchange func(context.Context, *agents.Approver) error) error {
	ctx, cancel := context.WithTimeout(ctx, deskTime)
	defer cancel()
	a, err := d.approver(ctx)
	if err != nil {
		return err
	}
	err = exchange(ctx, a)
	if err != nil && !isRefused(err) {
		d.close()
	}
	return err
}

// List implements decider.
func (d *desk) List(ctx context.Context) (items []bcp.Item, err error) {
	var missing error
	err = d.try(ctx, func(ctx context.Context, a *agents.Approver) error {
		if items, missing = a.List(ctx); items == nil {
			return missing
		}
		return nil
	})
	return items, cmp.Or(err, missing)
}

// View implements decider.
func (d *desk) View(ctx context.Context, id bcp.ItemID) (view bcp.ItemView, err error) {
	err = d.try(ctx, func(ctx context.Context, a *agents.Approver) error {
		view, err = a.View(ctx, id)
		return err
	})
	return view, err
}

// Together implements decider. Its error may also be of decisions whose reply is missing.
func (d *desk) Together(ctx context.Context, act bcp.Act, views []bcp.ItemView, reason string) (left []error, err error) {
	err = d.try(ctx, func(ctx context.Context, a *agents.Approver) error {
		if left, err = a.Together(ctx, act, views, reason); err != nil {
			return err
		}
		if lost := slices.IndexFunc(left, func(err error) bool { return err != nil && !isRefused(err) }); lost >= 0 {
			return left[lost]
		}
		return nil
	})
	return left, err
}

// Preview implements decider.
func (d *desk) Preview(ctx context.Context, view bcp.ItemView, response any) (preview bcp.EditPreview, err error) {
	err = d.try(ctx, func(ctx context.Context, a *agents.Approver) error {
		preview, err = a.Preview(ctx, view, response)
		return err
	})
	return preview, err
}

// Edit implements decider.
func (d *desk) Edit(ctx context.Context, view bcp.ItemView, preview bcp.EditPreview) error {
	return d.try(ctx, func(ctx context.Context, a *agents.Approver) error { return a.Edit(ctx, view, preview) })
}

// alerted waits for the next alert of something held.
func (d *desk) alerted(ctx context.Context) bool {
	select {
	case <-d.alerts:
		return true
	case <-ctx.Done():
		return false
	}
}
