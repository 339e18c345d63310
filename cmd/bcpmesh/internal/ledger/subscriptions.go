package ledger

import (
	"context"
	"strconv"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func showSubscriptions(ctx context.Context, o *cli.Output, c *client.Client, channel bcp.ChannelKey, span *client.SpanFlags) error {
	counts, err := PushCounts(ctx, c.Auditor(), c.Definition, channel, span)
	if err != nil {
		return err
	}
	return cli.ShowList(o, counts, "there is no subscription, and nothing was pushed", PushTable)
}

// PushCounts counts the pushes of a span by subscription, of one channel or of
// all. Those of the definitions are there without a push too.
func PushCounts(ctx context.Context, auditor *agents.Auditor, def *bcp.Mesh, only bcp.ChannelKey, span *client.SpanFlags) ([]state.PushCount, error) {
	var counts state.PushCounts
	if def != nil {
		for i := range def.Channels {
			if only == (bcp.ChannelKey{}) || only == def.Channels[i].ChannelKey {
				counts.Declare(&def.Channels[i])
			}
		}
	}
	from, err := span.From(ctx, auditor)
	if err != nil {
		return nil, err
	}
	for _, kind := range []bcp.DecisionKind{bcp.KindPush, bcp.KindRefusals, bcp.KindBatch} {
		selection := agents.Selection{From: from, Controller: only.Controller, Reader: only.Reader, Kind: kind}
		for r, err := range auditor.Select(ctx, selection) {
			if err != nil {
				return nil, meshdir.Failure(err)
			}
			if span.Over(&r.Decision) {
				break
			}
			counts.Add(&r.Decision)
		}
	}
	return counts.List(), nil
}

// PushTable shows what became of pushes.
func PushTable(o *cli.Output, counts []state.PushCount) {
	var rows [][]string
	for i := range counts {
		c := &counts[i]
		last := ""
		if !c.Last.IsZero() {
			last = c.Last.Local().Format(time.DateTime)
		}
		row := []string{cli.ChannelName(c.Controller, c.Reader), cli.Plain(string(c.Subscription))}
		for _, n := range []int{c.Pushes(), c.Accepted, c.Held, c.Filtered, c.RateLimited} {
			row = append(row, strconv.Itoa(n))
		}
		invalid := strconv.Itoa(c.Invalid)
		if c.Invalid > 0 {
			invalid += " (" + strconv.Itoa(c.InvalidPercent()) + " %)"
		}
		rows = append(rows, append(row, invalid, strconv.Itoa(c.Refused), strconv.Itoa(c.Windows), c.Nominal.Rounded(), c.Capacity.Rounded(), last))
	}
	o.Table([]string{"channel", "subscription", "pushes", "accepted", "held", "filtered", "too often", "invalid", "refused", "windows", "bits", "capacity", "last"}, rows)
}
