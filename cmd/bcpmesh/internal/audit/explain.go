package audit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// explained is what explain shows.
type explained struct {
	ID        string              `json:"id"`
	Decisions []explainedDecision `json:"decisions"`
}

type explainedDecision struct {
	tell.Explanation `json:",inline"`
	Decision         bcp.Decision `json:"decision"` // as the audit has it
}

// Explain explains a decision, or those about an id.
type Explain struct{ client.Flags }

// Adjust completes ids.
func (o *Explain) Adjust(cmd *cobra.Command) {
	cmd.ValidArgsFunction = completeIDs(&o.Flags, exchangesOf)
}

// Run explains it.
func (o *Explain) Run(ctx context.Context, p *cli.Program, args []string) error {
	if _, err := bcp.ParseQueryID(args[0]); err != nil {
		return cli.Usagef("explain: %s is neither an id nor a number", cli.Quoted(args[0])).WithHint("bcpmesh audit replay shows both")
	}
	c, err := o.Books(ctx, p, false)
	if err != nil {
		return err
	}
	defer c.Close()
	id, run := args[0], tell.NewRunStories()
	found, err := readDecisions(ctx, c, id, func(d *bcp.Decision) {
		if d.Run != nil && d.Run.Run == id {
			run.Add(d)
		} else {
			run.Hear(d)
		}
	})
	if err != nil {
		return err
	}
	if all := run.All(); len(found) == 0 && len(all) > 0 {
		return p.Out.Show(all[0], func() { explainRun(p.Out, all[0]) })
	}
	return showExplained(p, c.Definition, found, id)
}

// showExplained explains what was found of an id.
func showExplained(p *cli.Program, def *bcp.Mesh, decisions []bcp.Decision, id string) error {
	if len(decisions) == 0 {
		return cli.Failf("the audit has nothing with the id %s", cli.Quoted(id)).WithHint("bcpmesh audit replay shows the ids and numbers")
	}
	result := explained{ID: id}
	for i := range decisions {
		d := &decisions[i]
		result.Decisions = append(result.Decisions, explainedDecision{Explanation: tell.Explain(d, def), Decision: *d})
	}
	return p.Out.Show(result, func() {
		for i := range result.Decisions {
			if i > 0 {
				p.Out.Printf("\n")
			}
			showExplanation(p.Out, &result.Decisions[i])
		}
	})
}

// readDecisions reads the decision with a number, or those about an id: of a
// delivery and an item also what its query led to. hear is told of all decisions.
func readDecisions(ctx context.Context, c *client.Client, id string, hear func(*bcp.Decision)) ([]bcp.Decision, error) {
	if seq, err := strconv.ParseUint(id, 10, 64); err == nil {
		for r, err := range c.Auditor().Select(ctx, agents.Selection{From: seq}) {
			switch {
			case err != nil || r.Decision.Seq > seq:
				return nil, err
			case r.Decision.Seq == seq:
				return []bcp.Decision{r.Decision}, nil
			}
		}
		return nil, nil
	}
	found, query, err := readAbout(ctx, c, id, hear)
	if err == nil && query != "" && query != id {
		found, _, err = readAbout(ctx, c, query, func(*bcp.Decision) {})
	}
	return found, err
}

// readAbout reads what names an id, and returns the query that it belongs to.
func readAbout(ctx context.Context, c *client.Client, id string, hear func(*bcp.Decision)) (found []bcp.Decision, query string, err error) {
	ids := []string{id}
	err = read(ctx, c, agents.Selection{}, client.SpanFlags{}, func(d *bcp.Decision) error {
		hear(d)
		if !slices.ContainsFunc([]string{string(d.Query), string(d.Delivery), string(d.Item), string(d.Notice)}, func(one string) bool { return one != "" && slices.Contains(ids, one) }) {
			return nil
		}
		found = append(found, *d)
		if d.Query != "" {
			query = string(d.Query)
		} else if d.Delivery != "" && !slices.Contains(ids, string(d.Delivery)) {
			ids = append(ids, string(d.Delivery)) // what an item of a push became
		}
		return nil
	})
	return found, query, err
}

func showExplanation(o *cli.Output, e *explainedDecision) {
	d := &e.Decision
	what := d.Kind.String()
	if key, ok := d.Channel(); ok {
		what += " on " + cli.ChannelName(key.Controller, key.Reader)
	}
	if d.Agent != "" {
		what += " by " + string(d.Agent)
	}
	o.Heading(fmt.Sprintf("decision %d, %s UTC: %s", d.Seq, d.At().Format(tell.TimeFormat), what))
	if ids := cli.Plain(strings.Join(cli.Compact(labelled("query", d.Query), labelled("subscription", d.Subscription), labelled("delivery", d.Delivery), labelled("item", d.Item)), ", ")); ids != "" {
		o.Printf("%s\n", ids)
	}
	rows := cli.Map(e.Rules, func(r tell.Evaluated) []string {
		passed := "ok"
		if !r.Passed {
			passed = "REFUSES"
		}
		return []string{r.Rule, passed, r.Text, r.Detail}
	})
	if len(rows) > 0 {
		o.Table([]string{"rule", "", "what it asks", "here"}, rows)
	}
	decided := cli.Plain(e.Decided)
	if e.Rule != "" {
		decided += " [" + e.Rule + "]"
	}
	o.Printf("%s\n", decided)
	if len(e.Changes) > 0 {
		o.Printf("what would let it through:\n")
		for _, change := range e.Changes {
			o.Printf("  - %s\n", cli.Plain(change))
		}
	}
}

func labelled[T ~string](label string, id T) string {
	if id == "" {
		return ""
	}
	return label + " " + string(id)
}
