package audit

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// mostHistory is how many lines a table of them has, the newest.
const mostHistory = 1000

// showHistory shows each change of the balance of a channel, or of all: in a table the newest, as JSON all. It reads the
// audit: every charge is there, whatever the ledger keeps.
func showHistory(ctx context.Context, o *cli.Output, c *client.Client, of agents.Selection, span client.SpanFlags) error {
	var lines []bcp.LedgerLine
	more := 0
	err := read(ctx, c, of, span, func(d *bcp.Decision) error {
		line, ok := d.Line()
		switch {
		case !ok:
		case o.JSON:
			return o.Value(line)
		case len(lines) == mostHistory:
			lines, more = append(lines[1:], line), more+1
		default:
			lines = append(lines, line)
		}
		return nil
	})
	if err != nil || o.JSON {
		return err
	}
	if err := cli.ShowRows(o, lines, "nothing was charged", historyHeader, historyRow); err != nil || more == 0 {
		return err
	}
	o.Talkf("the newest %d lines; %s before them: --until shows those, --json all", len(lines), cli.Count(more, "line"))
	return nil
}

var historyHeader = []string{"seq", "time", "channel", "epoch", "by", "query or subscription", "cat", "reserves", "settles", "capacity", "then settled", "reserved"}

func historyRow(l *bcp.LedgerLine) []string {
	what := string(l.Query)
	if l.Subscription != "" {
		what = string(l.Subscription)
	}
	reserved, settled := "", l.Nominal.Rounded()
	if l.Kind == bcp.KindAsk {
		reserved, settled = settled, ""
	}
	return []string{strconv.FormatUint(l.Seq, 10), l.Time.Local().Format(time.DateTime), cli.ChannelName(l.Controller, l.Reader),
		strconv.FormatUint(l.Epoch, 10), l.Kind.String(), what, strconv.Itoa(int(l.Category)), reserved, settled, l.Capacity.Rounded(),
		l.Balance.Settled.Rounded(), l.Balance.Reserved.Rounded()}
}

// showSubscriptions counts the pushes of a span by subscription, of one channel or of
// all. Those of the definitions are there without a push too.
func showSubscriptions(ctx context.Context, o *cli.Output, c *client.Client, of agents.Selection, span client.SpanFlags) error {
	var counts state.PushCounts
	if def := c.Definition; def != nil {
		for i := range def.Channels {
			if only := (bcp.ChannelKey{Controller: of.Controller, Reader: of.Reader}); only == (bcp.ChannelKey{}) || only == def.Channels[i].ChannelKey {
				counts.Declare(&def.Channels[i])
			}
		}
	}
	for _, of.Kind = range []bcp.DecisionKind{bcp.KindPush, bcp.KindRefusals, bcp.KindBatch} {
		if err := read(ctx, c, of, span, adds(counts.Add)); err != nil {
			return err
		}
	}
	return cli.ShowRows(o, counts.List(), "there is no subscription, and nothing was pushed",
		[]string{"channel", "subscription", "pushes", "accepted", "held", "filtered", "too often", "invalid", "refused", "windows", "bits", "capacity", "last"}, func(c *state.PushCount) []string {
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
			return append(row, invalid, strconv.Itoa(c.Refused), strconv.Itoa(c.Windows), c.Nominal.Rounded(), c.Capacity.Rounded(), last)
		})
}

// showCost shows what counts of each agent's model. A decision says itself up to when it
// counts, whatever the window is now, so all are read.
func showCost(ctx context.Context, o *cli.Output, c *client.Client) error {
	uses := status.NewTally(c.Definition, time.Now())
	if err := read(ctx, c, agents.Selection{}, client.SpanFlags{}, adds(uses.Add)); err != nil {
		return err
	}
	return cli.ShowRows(o, uses.List(), "no model runs an agent",
		[]string{"agent", "model", "calls", "tokens", "US dollars", "bits delivered", "dollars a bit", "refused", "budget", "window"}, func(u *status.Use) []string {
			budget, window, price := "", "", u.Cost.String()
			switch {
			case u.CostBudget > 0 && u.TokenBudget > 0:
				budget = fmt.Sprintf("%s USD, %d tokens", u.CostBudget, u.TokenBudget)
			case u.CostBudget > 0:
				budget = u.CostBudget.String() + " USD"
			case u.TokenBudget > 0:
				budget = fmt.Sprintf("%d tokens", u.TokenBudget)
			}
			if u.Window > 0 {
				window = cli.Duration(u.Window)
			}
			if u.Unpriced {
				price = "unknown"
			}
			if u.ReservedCost > 0 {
				price += " + " + u.ReservedCost.String() + " reserved"
			}
			tokens := strconv.FormatInt(u.Tokens.Sum(), 10)
			if u.ReservedTokens > 0 {
				tokens += fmt.Sprintf(" + %d reserved", u.ReservedTokens)
			}
			return []string{string(u.Agent), cli.Plain(u.Model), strconv.Itoa(u.Calls), tokens, price, u.Delivered.Rounded(), perBit(u), strconv.Itoa(u.Refused), budget, window}
		})
}

// perBit is what a delivered bit cost, or empty if that is not known.
func perBit(u *status.Use) string {
	if u.Delivered < bcp.Bit || u.Unpriced {
		return ""
	}
	return (u.Cost / bcp.USD(u.Delivered/bcp.Bit)).String()
}

// showEgress shows what counts of each agent's egress. A decision says itself up to when it
// counts, whatever the window is now, so all are read.
func showEgress(ctx context.Context, o *cli.Output, c *client.Client) error {
	uses := state.NewEgressUses(c.Definition, time.Now())
	if err := read(ctx, c, agents.Selection{Kind: bcp.KindEgress}, client.SpanFlags{}, adds(uses.Add)); err != nil {
		return err
	}
	return cli.ShowRows(o, uses.List(), "no agent has a network",
		[]string{"agent", "bits", "budget", "remaining", "bytes", "limit", "requests", "refused", "window"}, func(u *state.EgressUse) []string {
			budget, left, limit, window := "", "", "", ""
			if u.Window > 0 {
				budget, left = u.Budget.Rounded(), max(0, u.Budget-u.Bits).Rounded()
				limit, window = strconv.FormatInt(u.MaxBytes, 10), cli.Duration(u.Window)
			}
			bytes := strconv.FormatInt(u.Bytes, 10)
			if u.ReservedBytes > 0 {
				bytes += fmt.Sprintf(" + %d reserved", u.ReservedBytes)
			}
			return []string{string(u.Agent), u.Bits.Rounded(), budget, left, bytes, limit, strconv.Itoa(u.Requests), strconv.Itoa(u.Refused), window}
		})
}
