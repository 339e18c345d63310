package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

func approvalsCommand(p *program) *cobra.Command {
	return group("approvals", "Decide what is held for a person",
		`Decide what is held for a person: summaries, answers that the rules object to,
and whether a summary is asked for at all. What nobody decides by its deadline is
rejected.

Content is shown inert: no escape sequence, link or invisible character of it
reaches the terminal, and each of its lines stands behind a bar. What an approval
signs is the SHA-256 of exactly the bytes that it releases.

docs/approvers.md walks through it.`,
		`  bcpmesh approvals watch
  bcpmesh approvals list
  bcpmesh approvals reject iEXAMPLE --reason 'It asks for a payment.'`,
		approvalsListCommand(p), approvalsShowCommand(p), approveCommand(p), rejectCommand(p), editCommand(p), watchCommand(p))
}

// approverFlags are what all commands of an approver have.
type approverFlags struct {
	who  clientFlags
	wait durationFlag
}

func (f *approverFlags) addTo(cmd *cobra.Command) {
	f.who.addTo(cmd, "approver")
	waitFlag(cmd, &f.wait, 30*time.Second, "how long to try")
}

// within runs one exchange with the mesh in the time that it has. A person may
// think for longer than that between two of them.
func (f *approverFlags) within(ctx context.Context, exchange func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, f.wait.value)
	defer cancel()
	return exchange(ctx)
}

func (f *approverFlags) connect(ctx context.Context) (c *client, approver *approvers, err error) {
	err = f.within(ctx, func(ctx context.Context) error {
		c, err = f.who.connect(ctx, bcp.RoleApprover)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return c, c.approver(), nil
}

// view fetches an item, and makes sure that what is shown is what is signed.
func (f *approverFlags) view(ctx context.Context, p *program, a *approvers, id bcp.ItemID) (view bcp.ItemView, err error) {
	err = f.within(ctx, func(ctx context.Context) error {
		view, err = a.View(ctx, id)
		return err
	})
	if err != nil {
		return view, p.out.undecided(err)
	}
	return view, intact(&view)
}

func approvalsListCommand(p *program) *cobra.Command {
	var f approverFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what waits for a decision",
		Long: `List what waits for a decision of this approver: oldest first, the channels taking
turns, so that one that floods does not hide the others. Items tell about content
and hold none of it: show has it.`,
		Example: `  bcpmesh approvals list
  bcpmesh approvals list --as kim --json`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, approver, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			var items []sharded[bcp.Item]
			err = f.within(cmd.Context(), func(ctx context.Context) error {
				items, err = approver.list(ctx)
				return err
			})
			if items == nil {
				return p.out.undecided(err)
			}
			return errors.Join(p.out.items(items, time.Now()), err)
		},
	}
	f.addTo(cmd)
	return cmd
}

// items shows what waits.
func (o *output) items(items []sharded[bcp.Item], now time.Time) error {
	if o.json {
		return o.value(items)
	}
	if len(items) == 0 {
		o.talkf("nothing waits for a decision")
		return nil
	}
	var rows [][]string
	for i := range items {
		it := &items[i].Of
		rows = append(rows, []string{items[i].cell(), string(it.ID), string(it.Kind), channelText(it), strconv.Itoa(int(it.Category)), shortBits(it.Nominal),
			strings.Join(it.Anomalies, ", "), roughly(now.Sub(it.Since)), roughly(it.Deadline.Sub(now))})
	}
	o.tableOfShards([]string{"item", "kind", "channel", "category", "bits", "anomalies", "age", "left"}, rows)
	return nil
}

func approvalsShowCommand(p *program) *cobra.Command {
	var f approverFlags
	cmd := &cobra.Command{
		Use:   "show [ITEM]",
		Short: "Show an item as its approver judges it",
		Long: `Show an item: what the mesh knows about it, what was asked, and what is said.
Without ITEM, show the one that stands first in the list.

Each line of content stands behind a bar, and nothing else does. A character that
does not show, or that frames are drawn with, is shown as a mark such as
⟨U+200B⟩. With --json, the content is the value that would be released.`,
		Example: `  bcpmesh approvals show
  bcpmesh approvals show iEXAMPLE --json`,
		Args:              arguments(0, "ITEM"),
		ValidArgsFunction: completeItems(&f.who),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			id, err := itemArgument(cmd, args)
			if err != nil {
				return err
			}
			c, approver, err := f.connect(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			if id == "" {
				var items []bcp.Item
				err := f.within(ctx, func(ctx context.Context) error {
					items, err = approver.List(ctx)
					return err
				})
				if len(items) == 0 && err != nil {
					return p.out.undecided(err)
				}
				if len(items) == 0 {
					return failf("nothing waits for a decision")
				}
				id = items[0].ID
			}
			view, err := f.view(ctx, p, approver, id)
			if err != nil {
				return err
			}
			if p.out.json {
				return p.out.value(view)
			}
			writeItem(p.out.stdout, itemLines(&view, time.Now(), widthOf(p.out.screen)), p.out.terminal && p.out.colours)
			return nil
		},
	}
	f.addTo(cmd)
	return cmd
}

// itemArgument reads the id of an item, where there is one.
func itemArgument(cmd *cobra.Command, args []string) (bcp.ItemID, error) {
	if len(args) == 0 {
		return "", nil
	}
	id, err := bcp.ParseItemID(args[0])
	if err != nil {
		return "", usagef("%s%s: %s", prefix(cmd), quoted(args[0]), err).withHint("bcpmesh approvals list shows the ids of items")
	}
	return id, nil
}

// completionTime is how long a shell waits for ids from the running mesh.
const completionTime = 2 * time.Second

// completeItems completes ids of items that wait in the running mesh.
func completeItems(who *clientFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		c, err := who.connect(ctx, bcp.RoleApprover)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		items, err := c.approver().List(ctx)
		if items == nil && err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for i := range items {
			ids = append(ids, cobra.CompletionWithDesc(string(items[i].ID), string(items[i].Kind)+" "+channelText(&items[i])))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// undecided reports why a decision, or a look, did not come about: with --json
// as the gateway said it.
func (o *output) undecided(err error) error {
	var refused *agents.RefusedError
	if errors.As(err, &refused) {
		if o.json {
			if err := o.value(bcp.Refusal{Error: refused.Code, Detail: refused.Detail}); err != nil {
				return err
			}
		}
		return (&failure{code: exitRefused, message: string(refused.Code) + ": " + refused.Detail}).withHint("%s", todoOf(refused.Code))
	}
	var unanswered *agents.UnansweredError
	if errors.As(err, &unanswered) && !errors.Is(err, context.Canceled) {
		return failf("the mesh did not answer in time").withHint("a decision may have counted all the same: bcpmesh approvals list shows what still waits")
	}
	return outcomeOf(err)
}

// todoOf says what an approver does about a code.
func todoOf(code bcp.Code) string {
	switch code {
	case bcp.ItemNotFound:
		return "bcpmesh approvals list shows what waits"
	case bcp.ItemExpired:
		return "it counts as rejected: if it is still wanted, the controller has to ask again"
	case bcp.AlreadyDecided:
		return "one decision counts, and it may have been yours, its confirmation lost: bcpmesh audit tail shows it"
	case bcp.DigestMismatch:
		return "look at the item again: bcpmesh approvals show ITEM"
	case bcp.NotPermitted:
		return "ask one of the channel's approvers: --as names whom you act as"
	case bcp.Malformed:
		return "correct it: an edit has the shape of an answer to what was asked"
	}
	return code.Info().Decision
}
