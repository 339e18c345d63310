package ledger

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func ledgerReconcileCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var wait cli.DurationFlag
	cmd := &cobra.Command{
		Use:  "reconcile",
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.Value)
			defer cancel()
			source, err := client.OpenSource(ctx, where)
			if err != nil {
				return err
			}
			defer source.Close()
			if !source.Running { // the state is made under the definitions
				if _, err := source.Folder.Load(); err != nil {
					return err
				}
			}
			r, err := source.Reconcile(ctx, cli.ProgramVersion())
			if err != nil {
				return meshdir.Failure(err)
			}
			return showReconciliation(p, &r)
		},
	}
	where.AddTo(cmd)
	cli.WaitFlag(cmd, &wait, 10*time.Minute, "how long it may take")
	return cmd
}

func showReconciliation(p *cli.Program, r *status.Reconciliation) error {
	if p.Out.JSON {
		if err := p.Out.Value(r); err != nil {
			return err
		}
	} else {
		var rows [][]string
		for _, pool := range r.Pools {
			b := &pool.Balance
			rows = append(rows, []string{cli.ChannelName(pool.Controller, pool.Reader), strconv.FormatUint(pool.Epoch, 10), b.Settled.Rounded(), b.Reserved.Rounded(),
				b.Pushed.Rounded(), b.SettledCapacity.Rounded(), b.ReservedCapacity.Rounded(), strconv.Itoa(b.Cat2Queries)})
		}
		if len(rows) > 0 {
			p.Out.Table([]string{"channel", "epoch", "settled", "reserved", "by pushes", "capacity settled", "reserved", "cat 2 queries"}, rows)
		}
		for _, d := range r.Differences {
			p.Out.Printf("%s: %s\n", d.Where, cli.Plain(d.Text))
		}
		if r.Behind > 0 {
			p.Out.Talkf("the ledger does not show the last %s yet", cli.Count(int(r.Behind), "decision"))
		}
	}
	n := len(r.Differences) + int(r.More)
	if n > 0 {
		return cli.Failf("%s in %s and %s of the ledger", cli.Count(n, "difference"), cli.Count(int(r.Decisions), "decision"), cli.Count(int(r.Lines), "line")).
			WithHint("bcpmesh up --rebuild rewrites a ledger that differs; a journal or state that differs is an incident")
	}
	p.Out.Talkf("journal, ledger and state agree: %s, %s of the ledger", cli.Count(int(r.Decisions), "decision"), cli.Count(int(r.Lines), "line"))
	return nil
}
