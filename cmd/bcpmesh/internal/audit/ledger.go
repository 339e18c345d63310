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
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// ledgerBook is the newest line of one epoch of a channel with its budgets,
// which are absent if the definitions are not at hand.
type ledgerBook struct {
	bcp.LedgerLine `json:",inline"`
	Budget         *bcp.Bits   `json:"budget_bits,omitzero"`
	Remaining      *bcp.Bits   `json:"remaining_bits,omitzero"`
	CapacityBudget *bcp.Bits   `json:"capacity_budget_bits,omitzero"` // none where it is 0
	CapacityLeft   *bcp.Bits   `json:"remaining_capacity_bits,omitzero"`
	Window         *windowBook `json:"window,omitzero"` // of the channel, in its newest line
	// Behind is how many decisions the gateway has made that audit and ledger do not show.
	Behind uint64 `json:"behind_decisions,omitzero"`
}

// windowBook is what counts in the sliding window of a channel.
type windowBook struct {
	Span  string   `json:"span"`
	Limit bcp.Bits `json:"limit_bits"` // none where it is 0
	Used  bcp.Bits `json:"used_bits"`  // with what open queries reserve
	Left  bcp.Bits `json:"left_bits"`
}

// LedgerShow shows the books of channels, or what else is counted.
type LedgerShow struct {
	client.Flags
	client.SpanFlags
	Channel                              client.ChannelFlag
	History, Subscriptions, Egress, Cost bool `not:"history subscriptions egress cost"`
}

func (o *LedgerShow) Run(ctx context.Context, p *cli.Program, _ []string) error {
	only := o.Channel.Value
	switch {
	case (o.Egress || o.Cost) && only != (bcp.ChannelKey{}):
		return cli.Usagef("ledger show: --egress and --cost are about agents, and take no --channel")
	case o.SpanFlags != (client.SpanFlags{}) && !o.History && !o.Subscriptions:
		return cli.Usagef("ledger show: --since and --until are for --history and --subscriptions")
	}
	c, err := o.Books(ctx, p, false)
	if err != nil {
		return err
	}
	defer c.Close()
	of := agents.Selection{Controller: only.Controller, Reader: only.Reader}
	switch {
	case o.History:
		return showHistory(ctx, p.Out, c, of, o.SpanFlags)
	case o.Subscriptions:
		return showSubscriptions(ctx, p.Out, c, of, o.SpanFlags)
	case o.Egress:
		return showEgress(ctx, p.Out, c)
	case o.Cost:
		return showCost(ctx, p.Out, c)
	}
	books, err := ledgerBooks(ctx, c, only)
	if err != nil {
		return err
	}
	for i := range books {
		books[i].Behind = c.Behind
	}
	c.TalkOfAge(ctx, p)
	return cli.ShowList(p.Out, books, "nothing was charged yet", ledgerTable)
}

// ledgerBooks reads the books of each channel, or of one.
func ledgerBooks(ctx context.Context, c *client.Client, only bcp.ChannelKey) ([]ledgerBook, error) {
	newest, err := c.Auditor().Ledger(ctx)
	if err != nil {
		return nil, err
	}
	books := []ledgerBook{}
	for _, r := range newest {
		line, err := bcp.DecodeLedgerLine(r.Data)
		if err != nil {
			return nil, cli.Failf("a line of the ledger cannot be read: %s", err)
		}
		key := bcp.ChannelKey{Controller: line.Controller, Reader: line.Reader}
		if only != (bcp.ChannelKey{}) && only != key {
			continue
		}
		book := ledgerBook{LedgerLine: line}
		if c.Definition != nil {
			if channel, known := c.Definition.Channel(key); known {
				if err := book.read(ctx, c, &channel); err != nil {
					return nil, err
				}
			}
		}
		books = append(books, book)
	}
	return books, nil
}

// read adds the budgets of a channel, what counts in its window, and its newest line.
func (b *ledgerBook) read(ctx context.Context, from *client.Client, c *bcp.Channel) error {
	now := time.Now()
	window := state.NewWindow(c)
	epochs := map[uint64]bcp.LedgerLine{}
	err := read(ctx, from, agents.Selection{Controller: c.Controller, Reader: c.Reader}, client.SpanFlags{Since: client.TimeFlag{At: now.Add(-window.Reach())}}, func(d *bcp.Decision) error {
		if line, ok := d.Line(); ok {
			window.Add(&line)
			epochs[line.Epoch] = line
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Two servers of a cluster may have answered: the newer line counts.
	for _, line := range epochs {
		if line.Seq > b.Seq {
			b.LedgerLine = line
		}
	}
	epochs[b.Epoch] = b.LedgerLine
	w := &windowBook{Span: cli.Duration(int64(c.BudgetWindow / time.Second)), Limit: c.WindowBudget, Used: window.Sum(now)}
	for _, line := range epochs {
		w.Used += line.Balance.Reserved
	}
	w.Left = max(0, w.Limit-w.Used)
	remaining, left := max(0, c.Budget-b.Balance.Spent()), max(0, c.CapacityBudget-b.Balance.SpentCapacity())
	b.Budget, b.Remaining, b.CapacityBudget, b.CapacityLeft, b.Window = &c.Budget, &remaining, &c.CapacityBudget, &left, w
	return nil
}

// ledgerTable shows books: nominal and capacity bits side by side, in two lines.
func ledgerTable(o *cli.Output, books []ledgerBook) {
	var rows [][]string
	for i := range books {
		b := &books[i]
		window := ""
		if w := b.Window; w != nil && w.Limit > 0 {
			window = fmt.Sprintf("%s of %s in %s", w.Used.Rounded(), w.Limit.Rounded(), w.Span)
		} else if w != nil {
			window = w.Used.Rounded() + " in " + w.Span + ", no limit"
		}
		left := ""
		if b.CapacityBudget != nil && *b.CapacityBudget > 0 {
			left = b.CapacityLeft.Rounded()
		}
		rows = append(rows,
			[]string{cli.ChannelName(b.Controller, b.Reader), strconv.FormatUint(b.Epoch, 10), "nominal", bitsOf(b.Budget, ""), b.Balance.Settled.Rounded(),
				b.Balance.Reserved.Rounded(), bitsOf(b.Remaining, ""), b.Balance.Pushed.Rounded(), window, b.Exposure.String()},
			[]string{"", "", "capacity", bitsOf(b.CapacityBudget, "none"), b.Balance.SettledCapacity.Rounded(), b.Balance.ReservedCapacity.Rounded(),
				left, "", "", ""})
	}
	o.Table([]string{"channel", "epoch", "bits", "budget", "settled", "reserved", "remaining", "by pushes", "window", "exposure"}, rows)
}

// bitsOf writes bits that may not be known; of none says what a limit of 0 is.
func bitsOf(b *bcp.Bits, none string) string {
	switch {
	case b == nil:
		return ""
	case *b == 0 && none != "":
		return none
	}
	return b.Rounded()
}

// LedgerReconcile compares journal, ledger and state.
type LedgerReconcile struct {
	meshdir.StateFlags
	Wait cli.DurationFlag `default:"10m"`
}

func (o *LedgerReconcile) Run(ctx context.Context, p *cli.Program, _ []string) error {
	ctx, cancel := context.WithTimeout(ctx, o.Wait.Value)
	defer cancel()
	source, err := client.OpenSource(ctx, o.StateFlags)
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
		return err
	}
	return showReconciliation(p, &r)
}

func showReconciliation(p *cli.Program, r *status.Reconciliation) error {
	if err := p.Out.Show(r, func() {
		rows := cli.Map(r.Pools, func(pool bcp.PoolBalance) []string {
			b := &pool.Balance
			return []string{cli.ChannelName(pool.Controller, pool.Reader), strconv.FormatUint(pool.Epoch, 10), b.Settled.Rounded(), b.Reserved.Rounded(),
				b.Pushed.Rounded(), b.SettledCapacity.Rounded(), b.ReservedCapacity.Rounded(), strconv.Itoa(b.Cat2Queries)}
		})
		if len(rows) > 0 {
			p.Out.Table([]string{"channel", "epoch", "settled", "reserved", "by pushes", "capacity settled", "reserved", "cat 2 queries"}, rows)
		}
		for _, d := range r.Differences {
			p.Out.Printf("%s: %s\n", d.Where, cli.Plain(d.Text))
		}
		if r.Behind > 0 {
			p.Out.Talkf("the ledger does not show the last %s yet", cli.Count(int(r.Behind), "decision"))
		}
	}); err != nil {
		return err
	}
	n := len(r.Differences) + int(r.More)
	if n > 0 {
		return cli.Failf("%s in %s and %s of the ledger", cli.Count(n, "difference"), cli.Count(int(r.Decisions), "decision"), cli.Count(int(r.Lines), "line")).
			WithHint("bcpmesh up --rebuild rewrites a ledger that differs; a journal or state that differs is an incident")
	}
	p.Out.Talkf("journal, ledger and state agree: %s, %s of the ledger", cli.Count(int(r.Decisions), "decision"), cli.Count(int(r.Lines), "line"))
	return nil
}
