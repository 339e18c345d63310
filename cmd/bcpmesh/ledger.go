package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

func ledgerCommand(p *program) *cobra.Command {
	return group("ledger", "Show what the channels have spent",
		`Show what the channels have spent of their budgets, in bits: now, over time, and
what still fits; and check the figures against the journal.`,
		`  bcpmesh ledger show
  bcpmesh ledger history --channel main/researcher --since 24h
  bcpmesh ledger subscriptions
  bcpmesh ledger forecast
  bcpmesh ledger reconcile`,
		ledgerShowCommand(p), ledgerHistoryCommand(p), ledgerPlotCommand(p), ledgerSubscriptionsCommand(p), ledgerForecastCommand(p), ledgerReconcileCommand(p))
}

// ledgerBook is the newest line of one epoch of a channel beside its budgets,
// which are absent where the definitions are not at hand.
type ledgerBook struct {
	bcp.LedgerLine `json:",inline"`
	Budget         *bcp.Bits   `json:"budget_bits,omitzero"`
	Remaining      *bcp.Bits   `json:"remaining_bits,omitzero"`
	CapacityBudget *bcp.Bits   `json:"capacity_budget_bits,omitzero"` // none where it is 0
	CapacityLeft   *bcp.Bits   `json:"remaining_capacity_bits,omitzero"`
	Window         *windowBook `json:"window,omitzero"` // of the channel, in its newest line
}

// windowBook is what counts in the sliding window of a channel.
type windowBook struct {
	Span  string   `json:"span"`
	Limit bcp.Bits `json:"limit_bits"` // none where it is 0
	Used  bcp.Bits `json:"used_bits"`  // with what open queries reserve
	Left  bcp.Bits `json:"left_bits"`
}

func ledgerShowCommand(p *program) *cobra.Command {
	var who clientFlags
	var channel channelFlag
	var epochs bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show each channel's budget, charges and what remains",
		Long: `Show the newest epoch of each channel: in nominal bits the budget, what is
settled, what open queries reserve and what remains; beside them the capacity that
was charged, which bounds what the controller can have learned. The window is what
counts of budget_window, over all epochs.

With --epochs it shows all epochs of the past too, and reads the whole audit.

It reads as one of the mesh's auditors.`,
		Example: `  bcpmesh ledger show
  bcpmesh ledger show --channel main/researcher --epochs
  bcpmesh ledger show --json`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := who.connect(cmd.Context(), bcp.RoleAuditor)
			if err != nil {
				return err
			}
			defer c.Close()
			books, missing := listOfShards(cmd.Context(), c.on(channel.value.Controller), func(ctx context.Context, shard int) ([]ledgerBook, error) {
				return ledgerBooks(ctx, c, c.auditor(shard), channel.value, epochs)
			})
			err = showList(p.out, books, "nothing was charged yet", ledgerTable)
			if who.creds == "" {
				if o, failed := connectOperator(cmd.Context(), who.where); failed == nil {
					p.talkOfTroubles(cmd.Context(), o)
					o.Close()
				}
			}
			return errors.Join(err, missing)
		},
	}
	who.addTo(cmd, "auditor")
	channel.addTo(cmd)
	cmd.Flags().BoolVar(&epochs, "epochs", false, "show the epochs of the past too")
	return cmd
}

// ledgerBooks reads the books of each channel of a shard, or of one.
func ledgerBooks(ctx context.Context, c *client, auditor *agents.Auditor, only bcp.ChannelKey, epochs bool) ([]ledgerBook, error) {
	newest, err := newestLines(ctx, auditor)
	if err != nil {
		return nil, err
	}
	books := []ledgerBook{}
	for _, line := range newest {
		key := bcp.ChannelKey{Controller: line.Controller, Reader: line.Reader}
		if only != (bcp.ChannelKey{}) && only != key {
			continue
		}
		lines := []bcp.LedgerLine{line}
		var window *windowBook
		definition, known := c.channel(key)
		if known || epochs {
			if lines, window, err = readEpochs(ctx, auditor, &definition, line, epochs); err != nil {
				return nil, err
			}
		}
		for i := range lines {
			book := newBook(c.definition, lines[i])
			if i == len(lines)-1 && known {
				book.Window = window
			}
			books = append(books, book)
		}
	}
	return books, nil
}

// channel returns the definition of a channel, where it is at hand.
func (c *client) channel(key bcp.ChannelKey) (bcp.Channel, bool) {
	if c.definition != nil {
		if channel, ok := c.definition.Channel(key); ok {
			return channel, true
		}
	}
	return bcp.Channel{ChannelKey: key}, false
}

// readEpochs reads what counts in a channel's window and, where all are wanted,
// the last line of each epoch.
func readEpochs(ctx context.Context, auditor *agents.Auditor, c *bcp.Channel, newest bcp.LedgerLine, all bool) ([]bcp.LedgerLine, *windowBook, error) {
	now := time.Now()
	window := bcp.NewWindow(c)
	from, err := uint64(0), error(nil)
	if !all {
		if from, err = auditor.From(ctx, now.Add(-window.Reach())); err != nil {
			return nil, nil, outcomeOf(err)
		}
	}
	lines := []bcp.LedgerLine{newest}
	epochs := map[uint64]bcp.LedgerLine{}
	for r, err := range auditor.Select(ctx, agents.Selection{From: from, Controller: c.Controller, Reader: c.Reader}) {
		if err != nil {
			return nil, nil, outcomeOf(err)
		}
		if line, ok := r.Decision.Line(); ok {
			window.Add(&line)
			epochs[line.Epoch] = line
		}
	}
	if last, ok := epochs[newest.Epoch]; !ok || last.Seq < newest.Seq {
		epochs[newest.Epoch] = newest
	}
	book := &windowBook{Span: duration(int64(c.BudgetWindow / time.Second)), Limit: c.WindowBudget, Used: window.Sum(now)}
	for epoch, line := range epochs {
		book.Used += line.Balance.Reserved
		if all && epoch != newest.Epoch {
			lines = append(lines, line)
		}
	}
	sortLines(lines)
	book.Left = max(0, book.Limit-book.Used)
	return lines, book, nil
}

func newBook(def *bcp.Mesh, line bcp.LedgerLine) ledgerBook {
	book := ledgerBook{LedgerLine: line}
	if def == nil {
		return book
	}
	if c, ok := def.Channel(bcp.ChannelKey{Controller: line.Controller, Reader: line.Reader}); ok {
		remaining, left := max(0, c.Budget-line.Balance.Spent()), max(0, c.CapacityBudget-line.Balance.SpentCapacity())
		book.Budget, book.Remaining, book.CapacityBudget, book.CapacityLeft = &c.Budget, &remaining, &c.CapacityBudget, &left
	}
	return book
}

// newBooks are the books of lines alone, without their windows.
func newBooks(def *bcp.Mesh, lines []sharded[bcp.LedgerLine]) []sharded[ledgerBook] {
	books := make([]sharded[ledgerBook], 0, len(lines))
	for _, line := range lines {
		books = append(books, sharded[ledgerBook]{Of: newBook(def, line.Of), Shard: line.Shard, several: line.several})
	}
	return books
}

// newestLines reads the newest line of each channel.
func newestLines(ctx context.Context, auditor *agents.Auditor) ([]bcp.LedgerLine, error) {
	records, err := auditor.Ledger(ctx)
	if err != nil {
		return nil, outcomeOf(err)
	}
	lines := []bcp.LedgerLine{}
	for _, r := range records {
		line, err := bcp.DecodeLedgerLine(r.Data)
		if err != nil {
			return nil, failf("a line of the ledger cannot be read: %s", err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// ledgerTable shows books: nominal and capacity bits side by side, in two lines.
func ledgerTable(o *output, books []sharded[ledgerBook]) {
	var rows [][]string
	for i := range books {
		b := &books[i].Of
		window := ""
		if w := b.Window; w != nil && w.Limit > 0 {
			window = fmt.Sprintf("%s of %s in %s", shortBits(w.Used), shortBits(w.Limit), w.Span)
		} else if w != nil {
			window = shortBits(w.Used) + " in " + w.Span + ", no limit"
		}
		rows = append(rows,
			[]string{books[i].cell(), channelName(b.Controller, b.Reader), strconv.FormatUint(b.Epoch, 10), "nominal", bitsOrNot(b.Budget), shortBits(b.Balance.Settled),
				shortBits(b.Balance.Reserved), bitsOrNot(b.Remaining), shortBits(b.Balance.Pushed), window, b.Exposure.String()},
			[]string{"", "", "", "capacity", bitsOrNone(b.CapacityBudget), shortBits(b.Balance.SettledCapacity), shortBits(b.Balance.ReservedCapacity),
				leftOrNone(b), "", "", ""})
	}
	o.tableOfShards([]string{"channel", "epoch", "bits", "budget", "settled", "reserved", "remaining", "by pushes", "window", "exposure"}, rows)
}

func channelName(controller, reader bcp.AgentName) string {
	return string(controller) + " ← " + string(reader)
}

func bitsOrNot(b *bcp.Bits) string {
	if b == nil {
		return ""
	}
	return shortBits(*b)
}

// bitsOrNone writes a budget that may not be set.
func bitsOrNone(b *bcp.Bits) string {
	if b != nil && *b == 0 {
		return "none"
	}
	return bitsOrNot(b)
}

func leftOrNone(b *ledgerBook) string {
	if b.CapacityBudget == nil || *b.CapacityBudget == 0 {
		return ""
	}
	return bitsOrNot(b.CapacityLeft)
}

// addTo makes it a flag of cmd that takes a channel, with completion.
func (f *channelFlag) addTo(cmd *cobra.Command) {
	f.named = true
	cmd.Flags().Var(f, "channel", "only this channel")
	complete(cmd, "channel", completeChannels)
}

// completeChannels completes the channels of the mesh that a command line is
// about.
func completeChannels(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	mesh, err := meshOf(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range mesh.Channels {
		names = append(names, string(c.Controller)+"/"+string(c.Reader))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// meshOf loads the definitions of the mesh that a command line is about.
func meshOf(cmd *cobra.Command) (*bcp.Mesh, error) {
	folder, err := findMesh(".")
	if flag := cmd.Flags().Lookup("dir"); flag != nil && flag.Value.String() != "" {
		folder, err = meshIn(flag.Value.String()), nil
	}
	if err != nil {
		return nil, err
	}
	return folder.load()
}

// timeFlag takes a moment: a time, a date, or how long ago it was.
type timeFlag struct{ at time.Time }

// String returns the moment, or nothing for none.
func (f *timeFlag) String() string {
	if f.at.IsZero() {
		return ""
	}
	return f.at.Format(time.RFC3339)
}

// Type names the flag's values in the help.
func (f *timeFlag) Type() string { return "TIME" }

// Set takes 2026-03-15T12:00:00Z, "2026-03-15 12:00:00" or 2026-03-15, the last
// two in local time, or a duration such as 90m or 7d: so long ago.
func (f *timeFlag) Set(s string) error {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		f.at = at
		return nil
	}
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			f.at = at
			return nil
		}
	}
	var ago durationFlag
	if err := ago.Set(s); err != nil {
		return fmt.Errorf("expected a time such as 2026-03-15T12:00:00Z or \"2026-03-15 12:00\", or how long ago: 90m, 7d")
	}
	f.at = time.Now().Add(-ago.value)
	return nil
}

// spanFlags say from when and until when.
type spanFlags struct{ since, until timeFlag }

func (f *spanFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().Var(&f.since, "since", "from this time on, or for so long: 2026-03-15, 24h")
	cmd.Flags().Var(&f.until, "until", "up to this time, or so long ago")
}

// over reports whether a decision comes behind the span.
func (f *spanFlags) over(d *bcp.Decision) bool {
	return !f.until.at.IsZero() && !d.At().Before(f.until.at)
}

// from finds the first record of the span.
func (f *spanFlags) from(ctx context.Context, auditor *agents.Auditor) (uint64, error) {
	if f.since.at.IsZero() {
		return 0, nil
	}
	from, err := auditor.From(ctx, f.since.at)
	return from, outcomeOf(err)
}
