package approvals

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func watchCommand(p *cli.Program) *cobra.Command {
	var f approverFlags
	cmd := &cobra.Command{
		Use: "watch",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel() // ends the reading of the terminal
			if !p.Interactive() || p.Out.JSON {
				return cli.Usagef("approvals watch: it needs a terminal and writes no JSON").
					WithHint("use bcpmesh approvals --json and approve ITEM --sha256")
			}
			c, approver, err := f.connect(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			d := &desk{flags: &f, p: p, approver: approver, held: make(chan struct{}, 1), lines: make(chan string)}
			err = c.OnAlert(func(a bcp.Alert) {
				if a.Alert == bcp.AlertHeld {
					select {
					case d.held <- struct{}{}:
					default:
					}
				}
			})
			if err != nil {
				return meshdir.Failure(err)
			}
			go d.read(ctx)
			return d.run(ctx)
		},
	}
	f.addTo(cmd)
	return cmd
}

// desk is where a person sees what waits, item by item, marks some, and decides.
type desk struct {
	flags    *approverFlags
	p        *cli.Program
	approver *agents.Approver
	held     chan struct{} // something was held; holds one
	lines    chan string   // what the person types; closed at its end

	items  []bcp.Item     // as they are numbered on the terminal
	newest []bcp.ItemView // the one seen last, if it still waits
	marked []bcp.ItemView // as they were seen
}

const deskHelp = "NUMBER shows, m marks, a approves, r REASON rejects, Enter lists, q leaves"

// read sends the lines of the terminal.
func (d *desk) read(ctx context.Context) {
	defer close(d.lines)
	q := cli.NewPrompter(ctx, d.p)
	for {
		line, err := q.Ask("")
		if err != nil {
			return
		}
		select {
		case d.lines <- line:
		case <-ctx.Done():
			return
		}
	}
}

// run lists what waits, again with a bell when there is more, and does what is typed.
func (d *desk) run(ctx context.Context) error {
	d.p.Out.Talkf("%s", deskHelp)
	if err := d.list(ctx); err != nil {
		return err
	}
	for {
		err := d.p.Out.Flush()
		if err != nil {
			return err
		}
		d.prompt("approvals> ")
		select {
		case <-d.held:
			d.prompt("\a\n")
			err = d.list(ctx)
		case line, ok := <-d.lines:
			if !ok || line == "q" {
				return ctx.Err()
			}
			err = d.do(ctx, line)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // the next line may do better: the connection comes back by itself
			d.p.Out.Talkf("%s", whyLeft(err))
		}
	}
}

func (d *desk) prompt(text string) {
	_, _ = fmt.Fprint(d.p.Out.Stderr, text) // there is nowhere to report an error of stderr
}

// do does what one line says.
func (d *desk) do(ctx context.Context, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch rest = strings.TrimSpace(rest); {
	case line == "":
		return d.list(ctx)
	case line == "m":
		return d.mark()
	case line == "a":
		return d.decide(ctx, bcp.Approve, "")
	case verb == "r":
		if wrong := CheckReason(rest); wrong != nil {
			return wrong
		}
		return d.decide(ctx, bcp.RejectItem, rest)
	}
	n, err := strconv.Atoi(line)
	if err != nil || n < 1 || n > len(d.items) {
		return cli.Failf("%s", deskHelp)
	}
	view, err := d.flags.view(ctx, d.approver, d.items[n-1].ID)
	if err != nil {
		return err
	}
	writeItem(d.p.Out.Stderr, ItemLines(&view, time.Now(), cli.Columns(d.p.Out.Stderr)), d.p.Out.Colours)
	d.newest = []bcp.ItemView{view}
	return nil
}

// list lists what waits. What does not is not marked any more.
func (d *desk) list(ctx context.Context) error {
	err := d.flags.withTimeout(ctx, func(ctx context.Context) (err error) {
		d.items, err = d.approver.List(ctx)
		return err
	})
	if err != nil {
		return err
	}
	gone := func(v bcp.ItemView) bool {
		return !slices.ContainsFunc(d.items, func(it bcp.Item) bool { return it.ID == v.ID })
	}
	d.marked, d.newest = slices.DeleteFunc(d.marked, gone), slices.DeleteFunc(d.newest, gone)
	return cli.ShowList(d.p.Out, d.items, "nothing waits for a decision", func(o *cli.Output, items []bcp.Item) {
		number := 0
		o.Table([]string{"number", "marked", "kind", "channel", "bits", "anomalies", "left"}, cli.Rows(items, func(it *bcp.Item) []string {
			mark := ""
			if number++; d.isMarked(it.ID) {
				mark = "m"
			}
			return []string{strconv.Itoa(number), mark, string(it.Kind), channelText(it), it.Nominal.Rounded(),
				strings.Join(it.Anomalies, ", "), tell.Roughly(time.Until(it.Deadline))}
		}))
	})
}

func (d *desk) isMarked(id bcp.ItemID) bool {
	return slices.ContainsFunc(d.marked, func(v bcp.ItemView) bool { return v.ID == id })
}

func (d *desk) mark() error {
	switch {
	case len(d.newest) == 0:
		return cli.Failf("only an item that you have seen can be marked: type its number")
	case d.isMarked(d.newest[0].ID):
	case len(d.marked) == bcp.MaxBatch:
		return cli.Failf("one signature is of at most %d items", bcp.MaxBatch)
	default:
		d.marked = append(d.marked, d.newest...)
	}
	d.p.Out.Talkf("%d marked", len(d.marked))
	return nil
}

// decide signs a decision about the bytes that were seen.
func (d *desk) decide(ctx context.Context, act bcp.Act, reason string) error {
	views := d.marked
	if len(views) == 0 {
		views = d.newest
	}
	if len(views) == 0 {
		return cli.Failf("nothing is marked")
	}
	question := "Reject it"
	switch {
	case act == bcp.Approve:
		if err := approvable(views); err != nil {
			return err
		}
		question = approveQuestion(views)
	case len(views) > 1:
		question = fmt.Sprintf("Reject all %d", len(views))
	}
	d.prompt(question + "? [y/N] ")
	answer, ok := <-d.lines
	if !ok || !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes") {
		return errUndecided
	}
	seen := &digestFlag{values: cli.Map(views, func(v bcp.ItemView) bcp.Digest { return v.SHA256 })}
	ids := cli.Map(views, func(v bcp.ItemView) bcp.ItemID { return v.ID })
	b, err := d.flags.batch(ctx, d.p, d.approver, ids, seen)
	if err != nil {
		return err
	}
	err = d.flags.decide(ctx, d.p, d.approver, act, b, reason)
	d.marked, d.newest = nil, nil
	return err
}
