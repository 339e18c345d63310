package main

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
)

func proposalsCommand(p *program) *cobra.Command {
	return group("proposals", "Propose a subscription, or write an approved one into the definitions",
		`Propose a subscription, or write an approved one into the definitions. A
controller's proposal changes nothing: it waits for an approver like what is held
(bcpmesh approvals), and what is approved waits a day for whoever may write the
definitions.`,
		`  bcpmesh proposals send researcher '{"id":"news","category":1,"fields":[{"name":"any","type":"boolean"}]}'
  bcpmesh approvals watch
  bcpmesh proposals list
  bcpmesh proposals apply iB3NQ6OZ7CRA6ZTQ4UL5RHIYBX2
  bcpmesh reload`,
		proposalsSendCommand(p), proposalsListCommand(p), proposalsApplyCommand(p))
}

func proposalsSendCommand(p *program) *cobra.Command {
	var who clientFlags
	var wait durationFlag
	cmd := &cobra.Command{
		Use:   "send READER [JSON]",
		Short: "Propose a subscription, as a controller",
		Long: `Propose a subscription to a reader, as a controller of the mesh. It is a JSON object
with the keys that a definition has, given as an argument or on stdin.`,
		Example: `  bcpmesh proposals send researcher '{"id":"news","category":1,"fields":[{"name":"any","type":"boolean"}]}'
  bcpmesh proposals send researcher - < news.json`,
		Args:              arguments(1, "READER", "JSON"),
		ValidArgsFunction: completeAgents(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			proposal := bcp.Proposal{Reader: bcp.AgentName(args[0])}
			object, err := answerArgument(cmd, p, args, 1)
			if err != nil {
				return err
			}
			if proposal.Subscription, err = bcp.ParseProposedSubscription(object); err != nil {
				return usagef("proposals send: this is no subscription: %s", plain(err.Error()))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.value)
			defer cancel()
			c, err := who.connect(ctx, bcp.RoleController)
			if err != nil {
				return err
			}
			defer c.Close()
			item, err := agents.NewController(c.Connection).Propose(ctx, proposal)
			if err != nil {
				return outcomeOf(err)
			}
			if p.out.json {
				return p.out.value(bcp.Proposed{Item: item})
			}
			p.out.printf("%s waits for a person\n", item)
			return nil
		},
	}
	who.addTo(cmd, "controller")
	waitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cmd
}

func proposalsListCommand(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the proposals that are approved and not in the definitions",
		Long: `List the proposals that people approved within the last day and that the definitions
do not have. Those that still wait are in bcpmesh approvals list.`,
		Example: "  bcpmesh proposals list",
		Args:    arguments(0),
	}
	return operatorCommand(cmd, nil, func(ctx context.Context, o *client, _ string) error {
		list, missing := proposalsOn(ctx, o)
		if list == nil {
			return missing
		}
		if p.out.json {
			return errors.Join(p.out.value(list), missing)
		}
		if len(list) == 0 {
			p.out.talkf("no proposal was approved within the last day that the definitions do not have")
			return missing
		}
		var rows [][]string
		for i := range list {
			a := &list[i].Of
			rows = append(rows, []string{list[i].cell(), string(a.Item), channelName(a.Controller, a.Reader), plain(string(a.Subscription.ID)), a.Approved.Local().Format(time.DateTime)})
		}
		p.out.tableOfShards([]string{"item", "channel", "subscription", "approved"}, rows)
		p.out.talkf("write one into the definitions: bcpmesh proposals apply ITEM")
		return missing
	})
}

// proposalsOn are those of all shards that the operator speaks to.
func proposalsOn(ctx context.Context, o *client) ([]sharded[bcp.ApprovedProposal], error) {
	return listOfShards(ctx, o.shards, func(ctx context.Context, shard int) ([]bcp.ApprovedProposal, error) {
		return o.operator(shard).Proposals(ctx)
	})
}

func proposalsApplyCommand(p *program) *cobra.Command {
	var where stateFlags
	var wait durationFlag
	var dry bool
	cmd := &cobra.Command{
		Use:   "apply ITEM",
		Short: "Write an approved proposal into its controller's definition",
		Long: `Write an approved proposal into its controller's definition, behind the last line of
the channel's entry. Every other line stays as it is. The edited folder must load,
and say nothing else than before but for the subscription, or nothing is written.
The mesh goes on as it is until bcpmesh reload.

With --dry-run it writes nothing and shows the change as a patch.`,
		Example: `  bcpmesh proposals apply iB3NQ6OZ7CRA6ZTQ4UL5RHIYBX2 --dry-run
  bcpmesh proposals apply iB3NQ6OZ7CRA6ZTQ4UL5RHIYBX2`,
		Args: arguments(1, "ITEM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.value)
			defer cancel()
			return applyProposal(ctx, p, where, bcp.ItemID(args[0]), dry)
		},
	}
	where.addTo(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "write nothing, and show the patch")
	waitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cmd
}

func applyProposal(ctx context.Context, p *program, where stateFlags, item bcp.ItemID, dry bool) error {
	folder, err := where.folder()
	if err != nil {
		return err
	}
	c, err := connectOperator(ctx, where)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := proposalsOn(ctx, c)
	for i := range list {
		if list[i].Of.Item == item {
			return folder.applyProposal(p, &list[i].Of, dry)
		}
	}
	if err != nil {
		return outcomeOf(err)
	}
	return failf("there is no approved proposal %s", quoted(string(item))).withHint("bcpmesh proposals list shows those of the last day; bcpmesh approvals list those that wait")
}

// applyProposal edits the folder's definition of the controller.
func (m meshFolder) applyProposal(p *program, a *bcp.ApprovedProposal, dry bool) error {
	def, err := m.load()
	if err != nil {
		return err
	}
	files := make(map[string][]byte, len(def.Files))
	for _, f := range def.Files {
		if files[f.Path], err = os.ReadFile(filepath.Join(m.dir, f.Path)); err != nil {
			return failf("%s cannot be read: %s", quoted(f.Path), reasonOf(err))
		}
	}
	path, edited, err := definition.AddSubscription(files, a.Controller, &a.Proposal)
	if err != nil {
		f := failf("%s: %s", quoted(filepath.Join(m.dir, path)), plain(err.Error()))
		if errors.Is(err, definition.ErrStyle) {
			f = f.withHint("the lines:\n%s", plainLines(definition.SubscriptionLines(&a.Subscription)))
		}
		return f
	}
	name := filepath.Join(m.dir, path)
	if dry {
		if p.out.json {
			return p.out.value(map[string]string{"file": name, "patch": patchOf(name, files[path], edited)})
		}
		p.out.printf("%s", patchOf(name, files[path], edited))
		return nil
	}
	if err := replaceFile(name, edited); err != nil {
		return err
	}
	if p.out.json {
		return p.out.value(map[string]string{"file": name, "subscription_id": string(a.Subscription.ID)})
	}
	p.out.printf("%s: subscription %s is added\n", name, plain(string(a.Subscription.ID)))
	p.out.talkf("the mesh goes on without it until: bcpmesh reload")
	return nil
}

func plainLines(lines []string) string {
	for i := range lines {
		lines[i] = "  " + plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

// replaceFile gives a file other content, with the rights that it has: all of it or
// nothing.
func replaceFile(name string, content []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return notWritten(name, err)
	}
	return writeOver(name, content, info.Mode().Perm())
}

// patchOf writes lines that were added in one place as a unified diff.
func patchOf(name string, before, after []byte) string {
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
