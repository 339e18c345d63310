package ledger

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// mostHistory is how many lines a table of them has, the newest.
const mostHistory = 1000

// showHistory shows each change of the balance of a channel, or of all: in a table the newest, as JSON all.
func showHistory(ctx context.Context, o *cli.Output, c *client.Client, channel bcp.ChannelKey, span *client.SpanFlags) error {
	var lines []bcp.LedgerLine
	more := 0
	for line, err := range ledgerLines(ctx, c, channel, span) {
		if err != nil {
			return err
		}
		if o.JSON {
			if err := o.Line(line); err != nil {
				return err
			}
			continue
		}
		if lines = append(lines, line); len(lines) > mostHistory {
			lines, more = lines[1:], more+1
		}
	}
	switch {
	case o.JSON:
		return nil
	case len(lines) == 0:
		o.Talkf("nothing was charged")
		return nil
	}
	historyTable(o, lines)
	if more > 0 {
		o.Talkf("the newest %d lines; %s before them: --until shows those, --json all", len(lines), cli.Count(more, "line"))
	}
	return nil
}

// ledgerLines reads the lines of a channel, or of all, from the audit: every
// charge is there, whatever the ledger keeps.
func ledgerLines(ctx context.Context, c *client.Client, key bcp.ChannelKey, span *client.SpanFlags) iter.Seq2[bcp.LedgerLine, error] {
	return func(yield func(bcp.LedgerLine, error) bool) {
		from, err := span.From(ctx, c.Auditor())
		if err != nil {
			yield(bcp.LedgerLine{}, err)
			return
		}
		for r, err := range c.Auditor().Select(ctx, agents.Selection{From: from, Controller: key.Controller, Reader: key.Reader}) {
			if err != nil {
				yield(bcp.LedgerLine{}, meshdir.Failure(err))
				return
			}
			if span.Over(&r.Decision) {
				return
			}
			if line, ok := r.Decision.Line(); ok && !yield(line, nil) {
				return
			}
		}
	}
}

func sortLines(lines []bcp.LedgerLine) {
	slices.SortFunc(lines, func(a, b bcp.LedgerLine) int { return cmp.Compare(a.Seq, b.Seq) })
}

func historyTable(o *cli.Output, lines []bcp.LedgerLine) {
	var rows [][]string
	for i := range lines {
		l := &lines[i]
		what := string(l.Query)
		if l.Subscription != "" {
			what = string(l.Subscription)
		}
		reserved, settled := "", l.Nominal.Rounded()
		if l.Kind == bcp.KindAsk {
			reserved, settled = settled, ""
		}
		rows = append(rows, []string{strconv.FormatUint(l.Seq, 10), l.Time.Local().Format(time.DateTime), cli.ChannelName(l.Controller, l.Reader),
			strconv.FormatUint(l.Epoch, 10), l.Kind.String(), what, strconv.Itoa(int(l.Category)), reserved, settled, l.Capacity.Rounded(),
			l.Balance.Settled.Rounded(), l.Balance.Reserved.Rounded()})
	}
	o.Table([]string{"seq", "time", "channel", "epoch", "by", "query or subscription", "cat", "reserves", "settles", "capacity", "then settled", "reserved"}, rows)
}
