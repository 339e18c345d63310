package define

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// ProposalsCommand returns the command proposals.
func ProposalsCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var wait cli.DurationFlag
	var apply bool
	cmd := &cobra.Command{
		Use:   "proposals [ITEM|COMMAND]",
		Short: "List approved proposals of subscriptions, or write one into a definition",
		Long: `List the proposals that were approved within the last day and are not in the
definitions yet. A controller's proposal changes nothing: it waits for an approver
like a held item (bcpmesh approvals), and once approved waits a day for whoever may
write the definitions.

With ITEM, show as a patch how the proposal is written into its controller's
definition: after the last line of the channel's entry, with every other line as it
is. --apply writes it, if the edited folder loads and differs only by the
subscription. The mesh stays unchanged until bcpmesh reload.`,
		Example: `  bcpmesh proposals
  bcpmesh proposals iB3NQ6OZ7CRA6ZTQ4UL5RHIYBX2
  bcpmesh proposals iB3NQ6OZ7CRA6ZTQ4UL5RHIYBX2 --apply && bcpmesh reload`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.Value)
			defer cancel()
			if len(args) > 0 {
				return applyProposal(ctx, p, where, bcp.ItemID(args[0]), !apply)
			}
			if apply {
				return cli.Usagef("proposals: --apply: expected ITEM").WithHint("bcpmesh proposals lists them")
			}
			c, err := client.ConnectOperator(ctx, where)
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := c.Operator().Proposals(ctx)
			if err != nil {
				return meshdir.Failure(err)
			}
			return cli.ShowList(p.Out, list, "no approved proposal of the last day is missing from the definitions", proposalTable)
		},
	}
	where.AddTo(cmd)
	cmd.Flags().BoolVar(&apply, "apply", false, "write it into the definition")
	cli.WaitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cli.Noun(cmd, cli.IsID, proposalsSendCommand(p))
}

func proposalTable(o *cli.Output, list []bcp.ApprovedProposal) {
	var rows [][]string
	for i := range list {
		a := &list[i]
		rows = append(rows, []string{string(a.Item), cli.ChannelName(a.Controller, a.Reader), cli.Plain(string(a.Subscription.ID)), a.Approved.Local().Format(time.DateTime)})
	}
	o.Table([]string{"item", "channel", "subscription", "approved"}, rows)
	o.Talkf("write one into the definitions: bcpmesh proposals ITEM --apply")
}

func proposalsSendCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var wait cli.DurationFlag
	cmd := &cobra.Command{
		Use:   "send READER [JSON]",
		Short: "Propose a subscription, as a controller",
		Long: `Propose a subscription to a reader, as a controller of the mesh. It is a JSON object
with the same keys as in a definition, given as an argument or on stdin.`,
		Example: `  bcpmesh proposals send researcher '{"id":"news","category":1,"fields":[{"name":"any","type":"boolean"}]}'
  bcpmesh proposals send researcher - < news.json`,
		Args:              cli.Arguments(1, "READER", "JSON"),
		ValidArgsFunction: meshdir.CompleteAgents(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			proposal := bcp.Proposal{Reader: bcp.AgentName(args[0])}
			object, err := cli.AnswerArgument(cmd, p, args, 1)
			if err != nil {
				return err
			}
			if proposal.Subscription, err = bcp.ParseProposedSubscription(object); err != nil {
				return cli.Usagef("proposals send: this is not a subscription: %s", cli.Plain(err.Error()))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.Value)
			defer cancel()
			c, err := who.Connect(ctx, bcp.RoleController)
			if err != nil {
				return err
			}
			defer c.Close()
			item, err := agents.NewController(c.Connection).Propose(ctx, proposal)
			if err != nil {
				return meshdir.Failure(err)
			}
			if p.Out.JSON {
				return p.Out.Value(bcp.Proposed{Item: item})
			}
			p.Out.Printf("%s waits for a person\n", item)
			return nil
		},
	}
	who.AddTo(cmd, "controller")
	cli.WaitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cmd
}

func applyProposal(ctx context.Context, p *cli.Program, where meshdir.StateFlags, item bcp.ItemID, dry bool) error {
	folder, err := where.Folder()
	if err != nil {
		return err
	}
	c, err := client.ConnectOperator(ctx, where)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.Operator().Proposals(ctx)
	for i := range list {
		if list[i].Item == item {
			return editDefinition(folder, p, &list[i], dry)
		}
	}
	if err != nil {
		return meshdir.Failure(err)
	}
	return cli.Failf("there is no approved proposal %s", cli.Quoted(string(item))).WithHint("bcpmesh proposals lists those of the last day; bcpmesh approvals those that wait")
}

// editDefinition edits the folder's definition of the controller.
func editDefinition(m meshdir.Folder, p *cli.Program, a *bcp.ApprovedProposal, dry bool) error {
	def, err := m.Load()
	if err != nil {
		return err
	}
	files := make(map[string][]byte, len(def.Files))
	for _, f := range def.Files {
		if files[f.Path], err = os.ReadFile(filepath.Join(m.Dir, f.Path)); err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(f.Path), cli.FileReason(err))
		}
	}
	path, edited, err := definition.AddSubscription(files, a.Controller, &a.Proposal)
	if err != nil {
		f := cli.Failf("%s: %s", cli.Quoted(filepath.Join(m.Dir, path)), cli.Plain(err.Error()))
		if errors.Is(err, definition.ErrStyle) {
			f = f.WithHint("the lines:\n%s", plainLines(definition.SubscriptionLines(&a.Subscription)))
		}
		return f
	}
	name := filepath.Join(m.Dir, path)
	if dry {
		if p.Out.JSON {
			return p.Out.Value(map[string]string{"file": name, "patch": unifiedDiff(name, files[path], edited)})
		}
		p.Out.Printf("%s", unifiedDiff(name, files[path], edited))
		return nil
	}
	if err := cli.ReplaceFile(name, edited); err != nil {
		return err
	}
	if p.Out.JSON {
		return p.Out.Value(map[string]string{"file": name, "subscription_id": string(a.Subscription.ID)})
	}
	p.Out.Printf("%s: subscription %s is added\n", name, cli.Plain(string(a.Subscription.ID)))
	p.Out.Talkf("the mesh uses it after: bcpmesh reload")
	return nil
}

func plainLines(lines []string) string {
	for i := range lines {
		lines[i] = "  " + cli.Plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

// unifiedDiff writes lines that were added in one place as a unified diff.
func unifiedDiff(name string, before, after []byte) string {
	old, new := bytes.SplitAfter(before, []byte("\n")), bytes.SplitAfter(after, []byte("\n"))
	at := 0
	for at < len(old) && bytes.Equal(old[at], new[at]) {
		at++
	}
	added := new[at : at+len(new)-len(old)]
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ -%d,0 +%d,%d @@\n", name, name, at, at+1, len(added))
	for _, line := range added {
		b.WriteString("+" + string(line))
	}
	return b.String()
}
