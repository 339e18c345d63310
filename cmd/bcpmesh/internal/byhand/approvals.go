package byhand

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// ApprovalsCommand returns the command approvals.
func ApprovalsCommand(p *cli.Program) *cobra.Command {
	var list waiting
	var approve approving
	var reject rejecting
	var edit editing
	var endorse endorsing
	command := func(use string, do cli.Runner, who *client.Flags, most int) *cobra.Command {
		cmd := cli.New(p, use, do)
		cmd.ValidArgsFunction = completeItems(who, most)
		if most > 1 {
			cmd.Args = cli.Arguments(1, slices.Repeat([]string{"ITEM"}, most)...) // as many as one signature may be of
		}
		return cmd
	}
	return cli.Noun(command("approvals [ITEM|COMMAND]", &list, &list.Flags, 1), cli.IsID,
		command("approve ITEM...", &approve, &approve.Flags, bcp.MaxBatch), command("reject ITEM...", &reject, &reject.Flags, bcp.MaxBatch),
		command("edit ITEM", &edit, &edit.Flags, 1), command("endorse [ITEM]", &endorse, &endorse.Flags, 1))
}

// waiting lists what waits, or shows an item.
type waiting struct{ approverFlags }

func (f *waiting) Run(ctx context.Context, p *cli.Program, args []string) error {
	id, err := itemArgument("approvals", args)
	if err != nil {
		return err
	}
	return f.as(ctx, p, func(approver *agents.Approver) error {
		if id == "" {
			items, err := within(ctx, f.Wait, approver.List)
			if err != nil {
				return err
			}
			return showItems(p.Out, items, time.Now())
		}
		view, err := f.view(ctx, approver, id)
		if err != nil {
			return err
		}
		return p.Out.Show(view, func() {
			p.Out.Printf("%s\n", strings.Join(itemLines(&view, time.Now(), p.Out.Width), "\n"))
		})
	})
}

// approverFlags are what all commands of an approver have.
type approverFlags struct {
	client.Flags
	Wait cli.DurationFlag `default:"30s"`
}

// within runs one exchange with the mesh in the time that it has. A person may
// think for longer than that between two of them.
func within[T any](ctx context.Context, wait cli.DurationFlag, exchange func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, wait.Value)
	defer cancel()
	return exchange(ctx)
}

// signed is within for an exchange that answers nothing.
func (f *approverFlags) signed(ctx context.Context, exchange func(context.Context) error) error {
	_, err := within(ctx, f.Wait, func(ctx context.Context) (struct{}, error) { return struct{}{}, exchange(ctx) })
	return err
}

// as connects as the approver and has do act as one; the error says why a decision, or a look, did not come about.
func (f *approverFlags) as(ctx context.Context, p *cli.Program, do func(*agents.Approver) error) error {
	c, err := within(ctx, f.Wait, func(ctx context.Context) (*client.Client, error) { return f.Connect(ctx, bcp.RoleApprover) })
	if err != nil {
		return err
	}
	defer c.Close()
	return showUndecided(p.Out, do(agents.NewApprover(c.Connection)))
}

// view fetches an item, and makes sure that what is shown is what is signed.
func (f *approverFlags) view(ctx context.Context, a *agents.Approver, id bcp.ItemID) (bcp.ItemView, error) {
	view, err := within(ctx, f.Wait, func(ctx context.Context) (bcp.ItemView, error) { return a.View(ctx, id) })
	if err != nil {
		return view, err
	}
	return view, intact(&view)
}

// showItems shows what waits.
func showItems(o *cli.Output, items []bcp.Item, now time.Time) error {
	return cli.ShowRows(o, items, "nothing waits for a decision",
		[]string{"item", "kind", "channel", "category", "bits", "anomalies", "age", "left"}, func(it *bcp.Item) []string {
			return []string{string(it.ID), string(it.Kind), channelText(it), categoryText(it), it.Nominal.Rounded(),
				strings.Join(it.Anomalies, ", "), tell.Roughly(now.Sub(it.Since)), tell.Roughly(it.Deadline.Sub(now))}
		})
}

// categoryText is empty for a call of a run, which is of none.
func categoryText(it *bcp.Item) string {
	if it.Category == 0 {
		return ""
	}
	return strconv.Itoa(int(it.Category))
}

// itemArgument reads the id of an item, if there is one.
func itemArgument(command string, args []string) (bcp.ItemID, error) {
	if len(args) == 0 {
		return "", nil
	}
	id, err := bcp.ParseItemID(args[0])
	if err != nil {
		return "", cli.Usagef("%s: %s: %s", command, cli.Quoted(args[0]), err).WithHint("bcpmesh approvals shows the ids of items")
	}
	return id, nil
}

// itemArguments reads the ids of different items.
func itemArguments(command string, args []string) (ids []bcp.ItemID, err error) {
	for i := range args {
		id, err := itemArgument(command, args[i:])
		if err != nil {
			return nil, err
		}
		if slices.Contains(ids, id) {
			return nil, cli.Usagef("%s: %s is given twice", command, id)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// completeItems completes ids of items that wait in the running mesh, most in number.
func completeItems(who *client.Flags, most int) cobra.CompletionFunc {
	return client.CompleteFrom(who, bcp.RoleApprover, most, func(ctx context.Context, c *client.Client) []string {
		items, _ := agents.NewApprover(c.Connection).List(ctx) // what did not answer in time is not completed
		return cli.Map(items, func(it bcp.Item) string {
			return cobra.CompletionWithDesc(string(it.ID), string(it.Kind)+" "+channelText(&it))
		})
	})
}

// showUndecided reports why a decision, or a look, did not come about: with --json
// as the gateway said it.
func showUndecided(o *cli.Output, err error) error {
	var refused *agents.RefusedError
	if errors.As(err, &refused) {
		if o.JSON {
			if err := o.Value(bcp.Refusal{Error: refused.Code, Detail: refused.Detail}); err != nil {
				return err
			}
		}
		return (&cli.Failure{Code: cli.ExitRefused, Message: string(refused.Code) + ": " + refused.Detail}).WithHint("%s", advice(refused.Code))
	}
	if errors.Is(err, agents.ErrBound) {
		return cli.Failf("these credentials decide only with their passkey, which a terminal cannot use").
			WithHint("look at the item here and decide on the device with the passkey; or use credentials that are not bound to one")
	}
	var unanswered *agents.UnansweredError
	if errors.As(err, &unanswered) && !errors.Is(err, context.Canceled) {
		return cli.Failf("the mesh did not answer in time").WithHint("a decision may still have counted: bcpmesh approvals shows what waits")
	}
	return err
}

// advice says what an approver does about a code.
func advice(code bcp.Code) string {
	switch code {
	case bcp.ItemNotFound:
		return "bcpmesh approvals shows what waits"
	case bcp.ItemExpired:
		return "it counts as rejected: if it is still wanted, the controller must ask again"
	case bcp.AlreadyDecided:
		return "one decision counts, and it may have been yours, its confirmation lost: bcpmesh audit shows it"
	case bcp.DigestMismatch:
		return "look at the item again: bcpmesh approvals ITEM"
	case bcp.NotPermitted:
		return "ask one of the channel's approvers: --as names whom you act as"
	case bcp.Malformed:
		return "correct it: an edit has the shape of an answer to what was asked"
	}
	return code.Info().Decision
}
