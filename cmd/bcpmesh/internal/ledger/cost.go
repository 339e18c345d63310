package ledger

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/cost"
	"github.com/bcpmesh/bcpmesh/bcp/cost/tally"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// showCost shows what counts of each agent's model. A decision says itself up to when it
// counts, whatever the window is now, so all are read.
func showCost(ctx context.Context, o *cli.Output, c *client.Client) error {
	uses := tally.New(c.Definition, time.Now())
	for r, err := range c.Auditor().Select(ctx, agents.Selection{}) {
		if err != nil {
			return meshdir.Failure(err)
		}
		uses.Add(&r.Decision)
	}
	return cli.ShowList(o, uses.List(), "no model runs an agent", costTable)
}

func costTable(o *cli.Output, uses []tally.Use) {
	var rows [][]string
	for i := range uses {
		u := &uses[i]
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
		rows = append(rows, []string{string(u.Agent), cli.Plain(u.Model), strconv.Itoa(u.Calls), tokens, price, u.Delivered.Rounded(), perBit(u), strconv.Itoa(u.Refused), budget, window})
	}
	o.Table([]string{"agent", "model", "calls", "tokens", "US dollars", "bits delivered", "dollars a bit", "refused", "budget", "window"}, rows)
}

// perBit is what a delivered bit cost, or empty if that is not known.
func perBit(u *tally.Use) string {
	if u.Delivered < bcp.Bit || u.Unpriced {
		return ""
	}
	return (u.Cost / cost.USD(u.Delivered/bcp.Bit)).String()
}
