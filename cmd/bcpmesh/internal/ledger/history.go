package ledger

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func ledgerHistoryCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var channel client.ChannelFlag
	var span client.SpanFlags
	number := cli.NumberFlag{Value: 1000, Least: 1}
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show each change of a balance",
		Long: `Show each decision that changed a balance, oldest first: what an ask reserved,
what an answer, a push, an expiry or a denied escalation settled, and what the
epoch held afterwards. A settlement gives back the rest of what its query had
reserved.

It reads the audit as one of the mesh's auditors.`,
		Example: `  bcpmesh ledger history --since 24h
  bcpmesh ledger history --channel main/researcher --since 2026-03-15 --until 2026-03-16
  bcpmesh ledger history --json`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := who.Books(cmd.Context(), p, false)
			if err != nil {
				return err
			}
			defer c.Close()
			var lines []bcp.LedgerLine
			more := 0
			for line, err := range ledgerLines(cmd.Context(), c, channel.Value, &span) {
				if err != nil {
					return err
				}
				if p.Out.JSON {
					if err := p.Out.Line(line); err != nil {
						return err
					}
					continue
				}
				if lines = append(lines, line); len(lines) > 2*number.Value {
					more += len(lines) - number.Value
					lines = slices.Clone(lines[len(lines)-number.Value:])
				}
			}
			if p.Out.JSON {
				return nil
			}
			if extra := len(lines) - number.Value; extra > 0 {
				more, lines = more+extra, lines[extra:]
			}
			if len(lines) == 0 {
				p.Out.Talkf("nothing was charged")
				return nil
			}
			historyTable(p.Out, lines)
			if more > 0 {
				p.Out.Talkf("the newest %d lines; %s before them: -n shows more, --json all", len(lines), cli.Count(more, "line"))
			}
			return nil
		},
	}
	who.AddTo(cmd, "auditor")
	channel.AddTo(cmd)
	span.AddTo(cmd)
	cmd.Flags().VarP(&number, "number", "n", "show at most this many lines in a table, the newest")
	return cmd
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
