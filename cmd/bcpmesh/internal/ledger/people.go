package ledger

import (
	"context"
	"strconv"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// showPeople shows what deciding has cost people, of all channels or of one.
func showPeople(ctx context.Context, o *cli.Output, c *client.Client, only bcp.ChannelKey, span *client.SpanFlags) error {
	from, err := span.From(ctx, c.Auditor())
	if err != nil {
		return err
	}
	people := status.NewPeople()
	for r, err := range c.Auditor().Select(ctx, agents.Selection{From: from}) {
		if err != nil {
			return meshdir.Failure(err)
		}
		if span.Over(&r.Decision) {
			break
		}
		people.Add(&r.Decision)
	}
	e := people.Effort(c.Definition, only)
	if o.JSON {
		return o.Value(e)
	}
	o.Printf("%s, %s of people with %s: %d for 100 tasks\n", cli.Count(e.Tasks, "task"), cli.Count(e.Decisions, "decision"), cli.Count(e.Signatures, "signature"), e.PerHundred)
	if len(e.Held) == 0 {
		return nil
	}
	var rows [][]string
	for i := range e.Held {
		h := &e.Held[i]
		channel, rule, wrong := string(h.Controller), h.Rule, ""
		if h.Reader != "" {
			channel = cli.ChannelName(h.Controller, h.Reader)
		}
		if rule == "" {
			rule = "any"
		}
		if h.Signs > 0 {
			wrong = strconv.Itoa(100*h.False/h.Signs) + " %"
		}
		rows = append(rows, []string{channel, rule, strconv.Itoa(h.Approved), strconv.Itoa(h.Edited), strconv.Itoa(h.Rejected), strconv.Itoa(h.Expired), strconv.Itoa(h.Seconds), wrong})
	}
	o.Printf("\n")
	o.Table([]string{"channel", "held for", "approved", "edited", "rejected", "expired", "seconds", "false holds"}, rows)
	for i := range e.Held {
		if h := &e.Held[i]; h.Advice != "" {
			o.Printf("\n%s: more than 20 %% of the last 50 held answers were approved unchanged. Change the line in %s\n", cli.ChannelName(h.Controller, h.Reader), cli.Plain(h.Advice))
		}
	}
	return nil
}
