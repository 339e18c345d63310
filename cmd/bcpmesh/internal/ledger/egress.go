package ledger

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// showEgress shows what counts of each agent's egress. A decision says itself up to when it
// counts, whatever the window is now, so all are read.
func showEgress(ctx context.Context, o *cli.Output, c *client.Client) error {
	uses := state.NewEgressUses(c.Definition, time.Now())
	for r, err := range c.Auditor().Select(ctx, agents.Selection{Kind: bcp.KindEgress}) {
		if err != nil {
			return meshdir.Failure(err)
		}
		uses.Add(&r.Decision)
	}
	return cli.ShowList(o, uses.List(), "no agent has a network", egressTable)
}

func egressTable(o *cli.Output, uses []state.EgressUse) {
	var rows [][]string
	for i := range uses {
		u := &uses[i]
		budget, left, limit, window := "", "", "", ""
		if u.Window > 0 {
			budget, left = u.Budget.Rounded(), max(0, u.Budget-u.Bits).Rounded()
			limit, window = strconv.FormatInt(u.MaxBytes, 10), cli.Duration(u.Window)
		}
		bytes := strconv.FormatInt(u.Bytes, 10)
		if u.ReservedBytes > 0 {
			bytes += fmt.Sprintf(" + %d reserved", u.ReservedBytes)
		}
		rows = append(rows, []string{string(u.Agent), u.Bits.Rounded(), budget, left, bytes, limit, strconv.Itoa(u.Requests), strconv.Itoa(u.Refused), window})
	}
	o.Table([]string{"agent", "bits", "budget", "remaining", "bytes", "limit", "requests", "refused", "window"}, rows)
}
