package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

func ledgerSubscriptionsCommand(p *program) *cobra.Command {
	var who clientFlags
	var channel channelFlag
	var span spanFlags
	cmd := &cobra.Command{
		Use:   "subscriptions",
		Short: "Show what became of the pushes of each subscription",
		Long: `Show how many pushes of each subscription were accepted, were held for a person,
or came to nothing: filtered by publish_when, beyond max_rate or a full window,
invalid, or refused for want of budget or room. Beside them stand the bits that
they were charged, and how many of a hundred were invalid. Windows are deliveries
of a batch_window.

It reads the audit as one of the mesh's auditors.`,
		Example: `  bcpmesh ledger subscriptions --since 24h
  bcpmesh ledger subscriptions --channel main/researcher
  bcpmesh ledger subscriptions --json`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := who.connect(cmd.Context(), bcp.RoleAuditor)
			if err != nil {
				return err
			}
			defer c.Close()
			counts, missing := listOfShards(cmd.Context(), c.on(channel.value.Controller), func(ctx context.Context, shard int) ([]bcp.PushCount, error) {
				return pushCounts(ctx, c.auditor(shard), c.ofShard(shard), channel.value, &span)
			})
			return errors.Join(showList(p.out, counts, "there is no subscription, and nothing was pushed", pushTable), missing)
		},
	}
	who.addTo(cmd, "auditor")
	channel.addTo(cmd)
	span.addTo(cmd)
	return cmd
}

// pushCounts counts the pushes of a span by subscription, of one channel or of
// all. Those of the definitions are there without a push too.
func pushCounts(ctx context.Context, auditor *agents.Auditor, def *bcp.Mesh, only bcp.ChannelKey, span *spanFlags) ([]bcp.PushCount, error) {
	var counts bcp.PushCounts
	if def != nil {
		for i := range def.Channels {
			if only == (bcp.ChannelKey{}) || only == def.Channels[i].ChannelKey {
				counts.Declare(&def.Channels[i])
			}
		}
	}
	from, err := span.from(ctx, auditor)
	if err != nil {
		return nil, err
	}
	for _, kind := range []bcp.DecisionKind{bcp.KindPush, bcp.KindRefusals, bcp.KindBatch} {
		selection := agents.Selection{From: from, Controller: only.Controller, Reader: only.Reader, Kind: kind}
		for r, err := range auditor.Select(ctx, selection) {
			if err != nil {
				return nil, outcomeOf(err)
			}
			if span.over(&r.Decision) {
				break
			}
			counts.Add(&r.Decision)
		}
	}
	return counts.List(), nil
}

// pushTable shows what became of pushes.
func pushTable(o *output, counts []sharded[bcp.PushCount]) {
	var rows [][]string
	for i := range counts {
		c := &counts[i].Of
		last := ""
		if !c.Last.IsZero() {
			last = c.Last.Local().Format(time.DateTime)
		}
		row := []string{counts[i].cell(), channelName(c.Controller, c.Reader), plain(string(c.Subscription))}
		for _, n := range []int{c.Pushes(), c.Accepted, c.Held, c.Filtered, c.RateLimited} {
			row = append(row, strconv.Itoa(n))
		}
		invalid := strconv.Itoa(c.Invalid)
		if c.Invalid > 0 {
			invalid += " (" + strconv.Itoa(c.InvalidPercent()) + " %)"
		}
		rows = append(rows, append(row, invalid, strconv.Itoa(c.Refused), strconv.Itoa(c.Windows), shortBits(c.Nominal), shortBits(c.Capacity), last))
	}
	o.tableOfShards([]string{"channel", "subscription", "pushes", "accepted", "held", "filtered", "too often", "invalid", "refused", "windows", "bits", "capacity", "last"}, rows)
}
