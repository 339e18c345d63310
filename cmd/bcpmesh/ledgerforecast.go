package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

func ledgerForecastCommand(p *program) *cobra.Command {
	var channel channelFlag
	cmd := operatorCommand(&cobra.Command{
		Use:   "forecast",
		Short: "Show what still fits the budgets",
		Long: `Show for each channel what its budgets have left, how many more queries of each
category and pushes of each subscription would be accepted if they came now, which
limit refuses the next one, and when the sliding window gives back how much.

Queries differ in price; those shown stand for their category. The gateway answers
by the rules that it decides by. What nothing else limits ends at the deliveries
that a channel may have waiting.`,
		Example: `  bcpmesh ledger forecast
  bcpmesh ledger forecast --channel main/researcher --json`,
		Args: arguments(0),
	}, nil, func(ctx context.Context, o *client, _ string) error {
		all, missing := listOfShards(ctx, o.on(channel.value.Controller), func(ctx context.Context, shard int) ([]bcp.Forecast, error) { return o.operator(shard).Forecasts(ctx) })
		if all == nil {
			return missing
		}
		forecasts := []sharded[bcp.Forecast]{}
		for _, f := range all {
			if key := (bcp.ChannelKey{Controller: f.Of.Controller, Reader: f.Of.Reader}); channel.value == (bcp.ChannelKey{}) || channel.value == key {
				forecasts = append(forecasts, f)
			}
		}
		if missing == nil && len(forecasts) == 0 && channel.value != (bcp.ChannelKey{}) {
			return failf("the mesh has no channel %s", channel.String())
		}
		if p.out.json {
			return errors.Join(p.out.value(forecasts), missing)
		}
		for i := range forecasts {
			if i > 0 {
				p.out.printf("\n")
			}
			p.out.printf("%s", forecasts[i].label())
			p.out.forecast(&forecasts[i].Of)
		}
		return missing
	})
	channel.addTo(cmd)
	return cmd
}

func (o *output) forecast(f *bcp.Forecast) {
	o.heading(channelName(f.Controller, f.Reader))
	for _, part := range []struct {
		name string
		room *bcp.Room
	}{{"queries", &f.Queries}, {"pushes", &f.Pushes}} {
		if len(part.room.Fits) == 0 {
			continue
		}
		epoch := fmt.Sprintf("epoch %d", part.room.Epoch)
		if part.room.Opens {
			epoch += ", which the next one opens"
		}
		o.printf("%s: %s\n", part.name, epoch)
		for _, b := range part.room.Budgets {
			o.printf("  %-22s %s of %s left\n", b.Key, shortBits(b.Left), shortBits(b.Limit))
		}
		var rows [][]string
		for _, fit := range part.room.Fits {
			what := fit.Form
			if fit.Subscription != "" {
				what = string(fit.Subscription)
			}
			rows = append(rows, []string{what, strconv.Itoa(int(fit.Category)), shortBits(fit.Nominal), shortBits(fit.Capacity), strconv.Itoa(fit.Times), limitOf(fit.Until)})
		}
		o.table([]string{"of these", "cat", "nominal", "capacity", "fit now", "then refused by"}, rows)
	}
	o.frees(f.Frees)
}

// limitOf names what ends a forecast: the key of the definition, where it is
// one.
func limitOf(c bcp.Check) string {
	if info := c.Info(); info.Key != "" {
		return info.Key
	}
	return "waiting deliveries"
}

// frees says what the window gives back, a line for each of its next parts.
func (o *output) frees(parts []bcp.Freed) {
	if len(parts) == 0 {
		return
	}
	const shown = 5
	o.printf("the window gives back\n")
	var rest bcp.Bits
	for i, part := range parts {
		if i < shown {
			o.printf("  %s  %s\n", part.At.Local().Format(time.DateTime), bitsOf(part.Bits))
		} else {
			rest += part.Bits
		}
	}
	if rest > 0 {
		o.printf("  %s more by %s\n", bitsOf(rest), parts[len(parts)-1].At.Local().Format(time.DateTime))
	}
}

func ledgerReconcileCommand(p *program) *cobra.Command {
	var where stateFlags
	var shard shardFlag
	var wait durationFlag
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Add up the journal again and compare",
		Long: `Add up the charges of the whole journal again, from its decisions alone, and
compare them with the balance that each decision records, with the ledger, and with
the books that the gateway decides by.

It works while the mesh runs, and while it rests. The exit code is 1 where anything
differs.`,
		Example: `  bcpmesh ledger reconcile
  bcpmesh ledger reconcile --json`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.value)
			defer cancel()
			who := clientFlags{where: where, attempt: wait.value, shard: shard}
			all, missing := reconcile(ctx, &who)
			if all == nil {
				return missing
			}
			var shards []int
			var differ []error
			for i := range all {
				shards, differ = append(shards, all[i].Shard), append(differ, p.showReconciliation(&all[i]))
			}
			if len(all) == 1 {
				return errors.Join(differ[0], missing)
			}
			return errors.Join(ofShards(shards, differ), missing)
		},
	}
	where.addTo(cmd)
	shard.addTo(cmd, ofPeople)
	waitFlag(cmd, &wait, 10*time.Minute, "how long it may take")
	return cmd
}

// reconcile has the gateway of each shard do it, or does it where the mesh rests.
func reconcile(ctx context.Context, who *clientFlags) ([]sharded[bcp.Reconciliation], error) {
	folder, err := who.where.folder()
	if err != nil {
		return nil, err
	}
	if about, err := folder.running(); err == nil && about.alive() {
		o, err := who.connect(ctx, bcp.RoleOperator)
		if err != nil {
			return nil, err
		}
		defer o.Close()
		all, err := onShards(ctx, o.shards, func(ctx context.Context, shard int) (bcp.Reconciliation, error) {
			return o.operator(shard).Reconcile(ctx)
		})
		return all, outcomeOf(err)
	}
	if _, err := who.shard.among(1); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(folder.state, "jetstream")); err != nil {
		return nil, failf("there is no journal in %s", quoted(folder.state)).withHint("the mesh never ran there; --state names another folder")
	}
	def, err := folder.load()
	if err != nil {
		return nil, err
	}
	r, err := mesh.Reconcile(ctx, folder.state, def, programVersion(), unlock())
	if errors.Is(err, server.ErrInUse) {
		return nil, failf("a mesh is starting on %s", quoted(folder.state)).withHint("try again when it serves")
	}
	if err != nil {
		return nil, outcomeOf(err)
	}
	return alone([]bcp.Reconciliation{r}), nil
}

func (p *program) showReconciliation(of *sharded[bcp.Reconciliation]) error {
	r := &of.Of
	if p.out.json {
		if err := p.out.value(of); err != nil {
			return err
		}
	} else {
		var rows [][]string
		for _, pool := range r.Pools {
			b := &pool.Balance
			rows = append(rows, []string{channelName(pool.Controller, pool.Reader), strconv.FormatUint(pool.Epoch, 10), b.Settled.String(), b.Reserved.String(),
				b.Pushed.String(), b.SettledCapacity.String(), b.ReservedCapacity.String(), strconv.Itoa(b.Cat2Queries)})
		}
		if of.several {
			p.out.heading("shard " + of.cell())
		}
		if len(rows) > 0 {
			p.out.table([]string{"channel", "epoch", "settled", "reserved", "by pushes", "capacity settled", "reserved", "cat 2 queries"}, rows)
		}
		for _, d := range r.Differences {
			p.out.printf("%s: %s\n", d.Where, plain(d.Text))
		}
		if r.Behind > 0 {
			p.out.talkf(of.label()+"the ledger does not show the last %s yet", count(int(r.Behind), "decision"))
		}
	}
	n := len(r.Differences) + int(r.More)
	if n > 0 {
		return failf("%s in %s and %s of the ledger", count(n, "difference"), count(int(r.Decisions), "decision"), count(int(r.Lines), "line")).
			withHint("a ledger that differs is made again by bcpmesh up --rebuild; a journal or a state that does is an incident")
	}
	p.out.talkf(of.label()+"journal, ledger and state agree: %s, %s of the ledger", count(int(r.Decisions), "decision"), count(int(r.Lines), "line"))
	return nil
}
