package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// restingChannel is what the journal says of one channel.
type restingChannel struct {
	epochs map[uint64]bcp.LedgerLine // the newest of each
	window *state.Window
	newest bcp.LedgerLine
	known  bool // to the definitions
	of     bcp.Channel
}

// showResting shows the ledger of a stopped mesh, read from its journal, and so never
// lagging it.
func showResting(ctx context.Context, p *cli.Program, j *client.Journal, only bcp.ChannelKey, all bool) error {
	def := j.Folder.Definition()
	channels := map[bcp.ChannelKey]*restingChannel{}
	for d, err := range j.Decisions(ctx, p) {
		if errors.Is(err, server.ErrInUse) {
			return cli.Failf("a mesh is starting on %s", cli.Quoted(j.Folder.State)).WithHint("try again when it serves")
		}
		if err != nil {
			return meshdir.Failure(err)
		}
		line, ok := d.Line()
		key := bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader}
		if !ok || only != (bcp.ChannelKey{}) && only != key {
			continue
		}
		c := channels[key]
		if c == nil {
			c = &restingChannel{epochs: map[uint64]bcp.LedgerLine{}}
			c.of, c.known = findChannel(&client.Client{Definition: def}, key)
			c.window = state.NewWindow(&c.of)
			channels[key] = c
		}
		c.window.Add(&line)
		c.epochs[line.Epoch], c.newest = line, line
	}
	now := time.Now()
	books := []ledgerBook{}
	for _, c := range channels {
		window := &windowBook{Span: cli.Duration(int64(c.of.BudgetWindow / time.Second)), Limit: c.of.WindowBudget, Used: c.window.Sum(now)}
		lines := []bcp.LedgerLine{}
		for epoch, line := range c.epochs {
			window.Used += line.Balance.Reserved
			if all || epoch == c.newest.Epoch {
				lines = append(lines, line)
			}
		}
		window.Left = max(0, window.Limit-window.Used)
		sortLines(lines)
		for i := range lines {
			book := newBook(def, lines[i])
			if i == len(lines)-1 && c.known {
				book.Window = window
			}
			books = append(books, book)
		}
	}
	slices.SortStableFunc(books, func(a, b ledgerBook) int {
		return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Reader, b.Reader))
	})
	return cli.ShowList(p.Out, books, "nothing was charged yet", LedgerTable)
}
