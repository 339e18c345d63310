package define

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/tighten"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// ProposalsCommand returns the command proposals.
func ProposalsCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var wait cli.DurationFlag
	var apply bool
	cmd := cli.Command("proposals [ITEM|FILE|COMMAND]", func(ctx context.Context, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, wait.Value)
		defer cancel()
		if len(args) > 0 && isFile(args[0]) {
			return applyNarrowed(p, where, args[0], !apply)
		}
		if len(args) > 0 {
			return applyProposal(ctx, p, where, bcp.ItemID(args[0]), !apply)
		}
		if apply {
			return cli.Usagef("proposals: --apply: expected ITEM or FILE").WithHint("bcpmesh proposals lists them")
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
	})
	where.AddTo(cmd)
	cmd.Flags().BoolVar(&apply, "apply", false, "write it into the definition")
	cli.WaitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cli.Noun(cmd, func(word string) bool { return isFile(word) || cli.IsID(word) }, proposalsSendCommand(p))
}

// isFile tells a file of audit tighten from an item.
func isFile(word string) bool { return strings.ContainsAny(word, `./\`) }

func proposalTable(o *cli.Output, list []bcp.ApprovedProposal) {
	o.Table([]string{"item", "channel", "subscription", "approved"}, cli.Rows(list, func(a *bcp.ApprovedProposal) []string {
		return []string{string(a.Item), cli.ChannelName(a.Controller, a.Reader), cli.Plain(string(a.Subscription.ID)), a.Approved.Local().Format(time.DateTime)}
	}))
	o.Talkf("write one into the definitions: bcpmesh proposals ITEM --apply")
}

func proposalsSendCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var wait cli.DurationFlag
	cmd := &cobra.Command{
		Use: "send READER [JSON]",
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
			return p.Out.Show(bcp.Proposed{Item: item}, func() { p.Out.Printf("%s waits for a person\n", item) })
		},
	}
	who.AddTo(cmd, "controller")
	cli.WaitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cmd
}

func applyProposal(ctx context.Context, p *cli.Program, where meshdir.StateFlags, item bcp.ItemID, dry bool) error {
	c, err := client.ConnectOperator(ctx, where)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.Operator().Proposals(ctx)
	if err != nil {
		return meshdir.Failure(err)
	}
	i := slices.IndexFunc(list, func(a bcp.ApprovedProposal) bool { return a.Item == item })
	if i < 0 {
		return cli.Failf("there is no approved proposal %s", cli.Quoted(string(item))).WithHint("bcpmesh proposals lists those of the last day; bcpmesh approvals those that wait")
	}
	a := &list[i]
	return edit(p, where, dry, func(_ *bcp.Mesh, files map[string][]byte) error {
		path, edited, err := definition.AddSubscription(files, a.Controller, &a.Proposal)
		if errors.Is(err, definition.ErrStyle) {
			return cli.Failf("%s: %s", cli.Quoted(path), cli.Plain(err.Error())).WithHint("the lines:\n%s", plainLines(definition.SubscriptionLines(&a.Subscription)))
		}
		if err != nil {
			return cli.Failf("%s: %s", cli.Quoted(path), cli.Plain(err.Error()))
		}
		files[path] = edited
		return nil
	})
}

// maxNarrowed bounds a file of audit tighten.
const maxNarrowed = 16 << 20

// applyNarrowed writes a proposal of audit tighten. Whoever wrote the file, it only narrows.
func applyNarrowed(p *cli.Program, where meshdir.StateFlags, name string, dry bool) error {
	content, err := cli.ReadFile(name, maxNarrowed)
	if err != nil {
		return err
	}
	var proposals []definition.Narrowed
	if err := json.Unmarshal(content, &proposals, json.RejectUnknownMembers(true)); err != nil {
		return cli.Failf("%s is not what bcpmesh audit tighten --write writes", cli.Quoted(name))
	}
	return edit(p, where, dry, func(mesh *bcp.Mesh, files map[string][]byte) error {
		for i := range proposals {
			n := &proposals[i]
			channel := cli.ChannelName(n.Controller, n.Reader)
			was, exists := mesh.Channel(bcp.ChannelKey{Controller: n.Controller, Reader: n.Reader})
			if !exists {
				return cli.Failf("there is no channel %s", channel)
			}
			want, err := n.Over(was)
			if err == nil {
				err = tighten.Narrows(was, want, was.Settings(mesh, nil, constraint.Compile))
			}
			if err != nil {
				return cli.Failf("%s: this does not narrow: %s", channel, cli.Plain(err.Error())).WithHint("the definitions may have changed since: bcpmesh audit tighten proposes anew")
			}
			path, edited, err := definition.Narrow(files, want)
			if err != nil {
				return cli.Failf("%s: %s", cli.Quoted(path), cli.Plain(err.Error()))
			}
			files[path] = edited
		}
		return nil
	})
}

// edit has the files of a mesh's definitions changed, and shows the patches, or writes them.
func edit(p *cli.Program, where meshdir.StateFlags, dry bool, change func(mesh *bcp.Mesh, files map[string][]byte) error) error {
	folder, mesh, err := where.Load()
	if err != nil {
		return err
	}
	files := make(map[string][]byte, len(mesh.Files))
	for _, f := range mesh.Files {
		if files[f.Path], err = os.ReadFile(filepath.Join(folder.Dir, f.Path)); err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(f.Path), cli.FileReason(err))
		}
	}
	before := maps.Clone(files)
	if err := change(mesh, files); err != nil {
		return err
	}
	patches := map[string]string{}
	for path, edited := range files {
		if bytes.Equal(edited, before[path]) {
			continue
		}
		name := filepath.Join(folder.Dir, path)
		patches[name] = unifiedDiff(name, before[path], edited)
		if dry {
			continue
		}
		if err := cli.ReplaceFile(name, edited); err != nil {
			return err
		}
	}
	return p.Out.Show(map[string]any{"patches": patches, "written": !dry}, func() {
		for _, name := range slices.Sorted(maps.Keys(patches)) {
			if dry {
				p.Out.Printf("%s", patches[name])
			} else {
				p.Out.Printf("%s is written\n", name)
			}
		}
		if !dry {
			p.Out.Talkf("the mesh uses it after: bcpmesh reload")
		}
	})
}

func plainLines(lines []string) string {
	for i := range lines {
		lines[i] = "  " + cli.Plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

// unifiedDiff writes what changes in a file as a unified diff.
func unifiedDiff(name string, before, after []byte) string {
	text := diff.Diff(name, before, name, after)
	_, text, _ = bytes.Cut(text, []byte("\n")) // a line "diff NAME NAME"
	return string(text)
}
