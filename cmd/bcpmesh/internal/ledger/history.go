package ledger

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/client"
	"github.com/bcpmesh/bcpmesh/mesh/plot"
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
			c, err := who.Books(cmd.Context(), p)
			if err != nil {
				return err
			}
			defer c.Close()
			var lines []client.Sharded[bcp.LedgerLine]
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
				if lines = append(lines, *line); len(lines) > 2*number.Value {
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
func ledgerLines(ctx context.Context, c *client.Client, key bcp.ChannelKey, span *client.SpanFlags) iter.Seq2[*client.Sharded[bcp.LedgerLine], error] {
	return func(yield func(*client.Sharded[bcp.LedgerLine], error) bool) {
		of := func(ctx context.Context, shard int) (agents.Selection, error) {
			from, err := span.From(ctx, c.Auditor(shard))
			return agents.Selection{From: from, Controller: key.Controller, Reader: key.Reader}, err
		}
		for r, err := range c.Records(ctx, c.On(key.Controller), of) {
			if err != nil {
				yield(nil, err)
				return
			}
			if span.Over(&r.Of.Decision) {
				return
			}
			if line, ok := r.Of.Decision.Line(); ok && !yield(&client.Sharded[bcp.LedgerLine]{Of: line, Shard: r.Shard, Several: r.Several}, nil) {
				return
			}
		}
	}
}

func sortLines(lines []bcp.LedgerLine) {
	slices.SortFunc(lines, func(a, b bcp.LedgerLine) int { return cmp.Compare(a.Seq, b.Seq) })
}

func historyTable(o *cli.Output, lines []client.Sharded[bcp.LedgerLine]) {
	var rows [][]string
	for i := range lines {
		l := &lines[i].Of
		what := string(l.Query)
		if l.Subscription != "" {
			what = string(l.Subscription)
		}
		reserved, settled := "", cli.ShortBits(l.Nominal)
		if l.Kind == bcp.KindAsk {
			reserved, settled = settled, ""
		}
		rows = append(rows, []string{lines[i].Cell(), strconv.FormatUint(l.Seq, 10), l.Time.Local().Format(time.DateTime), cli.ChannelName(l.Controller, l.Reader),
			strconv.FormatUint(l.Epoch, 10), l.Kind.String(), what, strconv.Itoa(int(l.Category)), reserved, settled, cli.ShortBits(l.Capacity),
			cli.ShortBits(l.Balance.Settled), cli.ShortBits(l.Balance.Reserved)})
	}
	client.TableOfShards(o, []string{"seq", "time", "channel", "epoch", "by", "query or subscription", "cat", "reserves", "settles", "capacity", "then settled", "reserved"}, rows)
}

func ledgerPlotCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var channel client.ChannelFlag
	var span client.SpanFlags
	var svg string
	cmd := &cobra.Command{
		Use:   "plot",
		Short: "Plot each channel's spending over time",
		Long: `Draw for each channel what its epoch has settled over time, by category, under the
line of its current budget. The curve falls when a new epoch begins; of the epochs
within one step the highest is drawn.

--svg writes a picture to a file, - for stdout. --json gives the points.
It reads the audit as one of the mesh's auditors.`,
		Example: `  bcpmesh ledger plot --since 7d
  bcpmesh ledger plot --channel main/researcher --svg researcher.svg`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := who.Books(cmd.Context(), p)
			if err != nil {
				return err
			}
			defer c.Close()
			return ledgerPlot(cmd.Context(), p, c, channel.Value, &span, svg)
		},
	}
	who.AddTo(cmd, "auditor")
	channel.AddTo(cmd)
	span.AddTo(cmd)
	cmd.Flags().StringVar(&svg, "svg", "", "write a picture to `FILE`, - for stdout")
	return cmd
}

func ledgerPlot(ctx context.Context, p *cli.Program, c *client.Client, only bcp.ChannelKey, span *client.SpanFlags, svg string) error {
	var order []bcp.ChannelKey
	lines := map[bcp.ChannelKey][]spending{}
	// The epoch in which the span begins has a past of its own.
	all := *span
	all.Since = client.TimeFlag{}
	for of, err := range ledgerLines(ctx, c, only, &all) {
		if err != nil {
			return err
		}
		if of.Of.Kind == bcp.KindAsk {
			continue
		}
		line := &of.Of
		key := bcp.ChannelKey{Controller: line.Controller, Reader: line.Reader}
		if lines[key] == nil {
			order = append(order, key)
		}
		lines[key] = append(lines[key], spending{line.Time, line.Epoch, line.Category, line.Nominal})
	}
	slices.SortFunc(order, func(a, b bcp.ChannelKey) int {
		return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Reader, b.Reader))
	})
	var plots []spendingPlot
	for _, key := range order {
		definition, _ := findChannel(c, key)
		begin, end := span.Since.At, span.Until.At
		if begin.IsZero() {
			begin = lines[key][0].time
		}
		if end.IsZero() {
			end = time.Now()
		}
		plots = append(plots, newSpendingPlot(key, definition.Budget, lines[key], begin, end))
	}
	return showPlots(p.Out, plots, svg)
}

// spending is one settlement.
type spending struct {
	time     time.Time
	epoch    uint64
	category bcp.Category
	nominal  bcp.Bits
}

// spendingPlot is what a channel's epochs had settled at the end of each of
// equal steps.
type spendingPlot struct {
	Controller bcp.AgentName   `json:"controller"`
	Reader     bcp.AgentName   `json:"reader"`
	Budget     *bcp.Bits       `json:"budget_bits,omitzero"`
	Points     []spendingPoint `json:"points"`
}

type spendingPoint struct {
	Until   time.Time   `json:"until"`
	Epoch   uint64      `json:"epoch"`
	Settled [3]bcp.Bits `json:"settled_bits"` // of categories 1, 2 and 3
}

func (s *spendingPoint) sum() bcp.Bits { return s.Settled[0] + s.Settled[1] + s.Settled[2] }

// plotSteps is how many steps a plot has: the columns of a terminal's.
const plotSteps = 72

func newSpendingPlot(key bcp.ChannelKey, budget bcp.Bits, lines []spending, begin, end time.Time) spendingPlot {
	p := spendingPlot{Controller: key.Controller, Reader: key.Reader}
	if budget > 0 {
		p.Budget = &budget
	}
	step := max(time.Nanosecond, (end.Sub(begin)+plotSteps-1)/plotSteps)
	var now spendingPoint
	for i := range plotSteps {
		until := begin.Add(time.Duration(i+1) * step)
		highest := now
		for len(lines) > 0 && (lines[0].time.Before(until) || i == plotSteps-1) {
			l := lines[0]
			lines = lines[1:]
			if l.epoch != now.Epoch {
				now = spendingPoint{Epoch: l.epoch}
			}
			if l.category.Valid() {
				now.Settled[l.category-1] += l.nominal
			}
			if l.time.Before(begin) || now.sum() >= highest.sum() {
				highest = now
			}
		}
		highest.Until = until
		p.Points = append(p.Points, highest)
	}
	return p
}

// plot is the picture of it.
func (p *spendingPlot) plot() plot.Plot {
	picture := plot.Plot{Title: "bits of " + cli.ChannelName(p.Controller, p.Reader) + ", by epoch", Unit: "bits", Kind: plot.Areas}
	if p.Budget != nil {
		picture.Limit, picture.LimitName = inBits(*p.Budget), "budget "+cli.ShortBits(*p.Budget)
	}
	for c := range 3 {
		s := plot.Series{Name: fmt.Sprintf("category %d", c+1)}
		for i := range p.Points {
			s.Values = append(s.Values, inBits(p.Points[i].Settled[c]))
		}
		picture.Series = append(picture.Series, s)
	}
	first, last := p.Points[0].Until, p.Points[len(p.Points)-1].Until
	layout := "15:04:05"
	if last.Sub(first) > 20*time.Hour {
		layout = "01-02 15:04"
	}
	for i := range p.Points {
		name := ""
		if i%(plotSteps/4) == plotSteps/8 {
			name = p.Points[i].Until.Local().Format(layout)
		}
		picture.Groups = append(picture.Groups, name)
	}
	return picture
}

func inBits(b bcp.Bits) float64 { return float64(b) / float64(bcp.Bit) }

func showPlots(o *cli.Output, plots []spendingPlot, svg string) error {
	if o.JSON {
		return o.Value(plots)
	}
	if len(plots) == 0 {
		o.Talkf("nothing was charged")
		return nil
	}
	var pictures []plot.Plot
	for i := range plots {
		pictures = append(pictures, plots[i].plot())
	}
	switch svg {
	case "":
		const lines = 12
		for i := range pictures {
			o.Heading(cli.Plain(pictures[i].Title))
			o.Printf("%s\n", pictures[i].Text(lines))
		}
	case "-":
		o.Printf("%s", plot.SVG(pictures...))
	default:
		if err := os.WriteFile(svg, plot.SVG(pictures...), 0o644); err != nil {
			return cli.Failf("%s cannot be written: %s", cli.Quoted(svg), cli.FileReason(err))
		}
		o.Talkf("%s written to %s", cli.Count(len(pictures), "plot"), cli.Quoted(svg))
	}
	return nil
}
