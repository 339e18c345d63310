package main

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
	"github.com/bcpmesh/bcpmesh/mesh/plot"
)

func ledgerHistoryCommand(p *program) *cobra.Command {
	var who clientFlags
	var channel channelFlag
	var span spanFlags
	number := numberFlag{value: 1000, least: 1}
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show each line that moved bits",
		Long: `Show each decision that moved bits, oldest first: what an ask reserved, what an
answer, a push, an expiry or a denied escalation settled, and what the epoch held
afterwards. A settlement gives back the rest of what its query had reserved.

It reads the audit as one of the mesh's auditors.`,
		Example: `  bcpmesh ledger history --since 24h
  bcpmesh ledger history --channel main/researcher --since 2026-03-15 --until 2026-03-16
  bcpmesh ledger history --json`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := who.connect(cmd.Context(), bcp.RoleAuditor)
			if err != nil {
				return err
			}
			defer c.Close()
			var lines []sharded[bcp.LedgerLine]
			more := 0
			for line, err := range ledgerLines(cmd.Context(), c, channel.value, &span) {
				if err != nil {
					return err
				}
				if p.out.json {
					if err := p.out.line(line); err != nil {
						return err
					}
					continue
				}
				if lines = append(lines, *line); len(lines) > 2*number.value {
					more += len(lines) - number.value
					lines = slices.Clone(lines[len(lines)-number.value:])
				}
			}
			if p.out.json {
				return nil
			}
			if extra := len(lines) - number.value; extra > 0 {
				more, lines = more+extra, lines[extra:]
			}
			if len(lines) == 0 {
				p.out.talkf("nothing was charged")
				return nil
			}
			p.out.historyTable(lines)
			if more > 0 {
				p.out.talkf("the newest %d lines; %s before them: -n shows more, --json all", len(lines), count(more, "line"))
			}
			return nil
		},
	}
	who.addTo(cmd, "auditor")
	channel.addTo(cmd)
	span.addTo(cmd)
	cmd.Flags().VarP(&number, "number", "n", "how many lines a table has at most, the newest")
	return cmd
}

// ledgerLines reads the lines of a channel, or of all, from the audit: every
// charge is there, whatever the ledger keeps.
func ledgerLines(ctx context.Context, c *client, key bcp.ChannelKey, span *spanFlags) iter.Seq2[*sharded[bcp.LedgerLine], error] {
	return func(yield func(*sharded[bcp.LedgerLine], error) bool) {
		of := func(ctx context.Context, shard int) (agents.Selection, error) {
			from, err := span.from(ctx, c.auditor(shard))
			return agents.Selection{From: from, Controller: key.Controller, Reader: key.Reader}, err
		}
		for r, err := range c.records(ctx, c.on(key.Controller), of) {
			if err != nil {
				yield(nil, err)
				return
			}
			if span.over(&r.Of.Decision) {
				return
			}
			if line, ok := r.Of.Decision.Line(); ok && !yield(&sharded[bcp.LedgerLine]{Of: line, Shard: r.Shard, several: r.several}, nil) {
				return
			}
		}
	}
}

func sortLines(lines []bcp.LedgerLine) {
	slices.SortFunc(lines, func(a, b bcp.LedgerLine) int { return cmp.Compare(a.Seq, b.Seq) })
}

func (o *output) historyTable(lines []sharded[bcp.LedgerLine]) {
	var rows [][]string
	for i := range lines {
		l := &lines[i].Of
		what := string(l.Query)
		if l.Subscription != "" {
			what = string(l.Subscription)
		}
		reserved, settled := "", shortBits(l.Nominal)
		if l.Kind == bcp.KindAsk {
			reserved, settled = settled, ""
		}
		rows = append(rows, []string{lines[i].cell(), strconv.FormatUint(l.Seq, 10), l.Time.Local().Format(time.DateTime), channelName(l.Controller, l.Reader),
			strconv.FormatUint(l.Epoch, 10), l.Kind.String(), what, strconv.Itoa(int(l.Category)), reserved, settled, shortBits(l.Capacity),
			shortBits(l.Balance.Settled), shortBits(l.Balance.Reserved)})
	}
	o.tableOfShards([]string{"seq", "time", "channel", "epoch", "by", "query or subscription", "cat", "reserves", "settles", "capacity", "then settled", "reserved"}, rows)
}

func ledgerPlotCommand(p *program) *cobra.Command {
	var who clientFlags
	var channel channelFlag
	var span spanFlags
	var svg string
	cmd := &cobra.Command{
		Use:   "plot",
		Short: "Draw what each channel spent over time",
		Long: `Draw for each channel what its epoch has settled over time, by category, under the
line of its budget of today. It falls where a new epoch begins; of the epochs
within one step the highest is drawn.

--svg writes a picture to a file, - for stdout. --json gives the points.
It reads the audit as one of the mesh's auditors.`,
		Example: `  bcpmesh ledger plot --since 7d
  bcpmesh ledger plot --channel main/researcher --svg researcher.svg`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := who.connect(cmd.Context(), bcp.RoleAuditor)
			if err != nil {
				return err
			}
			defer c.Close()
			return ledgerPlot(cmd.Context(), p, c, channel.value, &span, svg)
		},
	}
	who.addTo(cmd, "auditor")
	channel.addTo(cmd)
	span.addTo(cmd)
	cmd.Flags().StringVar(&svg, "svg", "", "write a picture to `FILE`, - for stdout")
	return cmd
}

func ledgerPlot(ctx context.Context, p *program, c *client, only bcp.ChannelKey, span *spanFlags, svg string) error {
	var order []bcp.ChannelKey
	lines := map[bcp.ChannelKey][]spending{}
	// The epoch in which the span begins has a past of its own.
	all := *span
	all.since = timeFlag{}
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
		definition, _ := c.channel(key)
		begin, end := span.since.at, span.until.at
		if begin.IsZero() {
			begin = lines[key][0].time
		}
		if end.IsZero() {
			end = time.Now()
		}
		plots = append(plots, newSpendingPlot(key, definition.Budget, lines[key], begin, end))
	}
	return p.out.plots(plots, svg)
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
	picture := plot.Plot{Title: "bits of " + channelName(p.Controller, p.Reader) + ", by epoch", Unit: "bits", Kind: plot.Areas}
	if p.Budget != nil {
		picture.Limit, picture.LimitName = inBits(*p.Budget), "budget "+shortBits(*p.Budget)
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

func (o *output) plots(plots []spendingPlot, svg string) error {
	if o.json {
		return o.value(plots)
	}
	if len(plots) == 0 {
		o.talkf("nothing was charged")
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
			o.heading(plain(pictures[i].Title))
			o.printf("%s\n", pictures[i].Text(lines))
		}
	case "-":
		o.printf("%s", plot.SVG(pictures...))
	default:
		if err := os.WriteFile(svg, plot.SVG(pictures...), 0o644); err != nil {
			return failf("%s cannot be written: %s", quoted(svg), reasonOf(err))
		}
		o.talkf("%s written to %s", count(len(pictures), "plot"), quoted(svg))
	}
	return nil
}
