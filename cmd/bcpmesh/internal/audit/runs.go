package audit

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// KernelCommand returns the command kernel, with those that need no mesh.
func KernelCommand(p *cli.Program, alone ...*cobra.Command) *cobra.Command {
	var o runs
	cmd := cli.New(p, "kernel [RUN|COMMAND]", &o)
	cmd.ValidArgsFunction = completeIDs(&o.Flags, runsOf)
	return cli.Noun(cmd, cli.IsID, append(alone, cli.New(p, "run KERNEL GRANT TASK", &begin{}))...)
}

// runs lists runs, or shows or stops one.
type runs struct {
	client.Flags
	Raw     bool
	Stop    bool `not:"raw"`
	Command *cobra.Command
}

func (o *runs) Run(ctx context.Context, p *cli.Program, args []string) error {
	switch {
	case len(args) > 0 && o.Stop:
		return stopRun(ctx, p.Out, o.Where, args[0])
	case len(args) > 0:
		return o.showOne(ctx, p, args[0])
	case o.Raw || o.Stop:
		return cli.Usagef("kernel: expected RUN").WithHint("bcpmesh kernel lists all runs")
	}
	stories := tell.NewRunStories()
	if err := EachDecision(ctx, p, &o.Flags, func(d *bcp.Decision) { stories.Add(d) }); err != nil {
		return err
	}
	return listRuns(p.Out, stories.All())
}

func listRuns(o *cli.Output, runs []*tell.RunStory) error {
	switch {
	case o.JSON:
		for _, r := range runs {
			if err := o.Value(r); err != nil {
				return err
			}
		}
		return nil
	case len(runs) == 0:
		o.Talkf("no runs")
		return nil
	}
	rows := cli.Map(runs, func(r *tell.RunStory) []string {
		return []string{
			string(r.Run), r.Began.Format(tell.TimeFormat), string(r.Kernel), string(r.Requester), r.Grant, describeRun(r), strconv.Itoa(r.Calls), strconv.Itoa(r.Questions),
		}
	})
	o.Table([]string{"run", "began, UTC", "kernel", "requester", "grant", "status", "calls", "questions"}, rows)
	return nil
}

// describeRun says how a run is, in a few words.
func describeRun(r *tell.RunStory) string {
	switch {
	case r.Status == bcp.RunOpen && r.Waits != nil:
		return strings.TrimSuffix("waits for "+strings.Join(cli.Compact(cmp.Or(waitsFor[r.Waits.Kind], r.Waits.Kind), string(r.Waits.Agent), r.Waits.Tool), " "), " ")
	case r.Code != "":
		return r.Status + ": " + string(r.Code)
	default:
		return r.Status
	}
}

// waitsFor says whom a wait is for, where that is a person.
var waitsFor = map[string]string{"approval": "a person to approve", "doubt": "a person to look at"}

// showOne tells one run, with --raw from the opened journal.
func (o *runs) showOne(ctx context.Context, p *cli.Program, id string) error {
	stories := tell.NewRunStories()
	add := func(d *bcp.Decision) {
		if d.Run != nil && d.Run.Run == id {
			stories.Add(d)
		} else {
			stories.Hear(d)
		}
	}
	var err error
	if !o.Raw {
		err = EachDecision(ctx, p, &o.Flags, add)
	} else if err = forOwner(o.Command, "--raw"); err == nil {
		err = readOpened(ctx, o.Where, func(one *replayed) error { add(&one.Decision); return nil })
	}
	switch {
	case err != nil:
		return err
	case len(stories.All()) == 0:
		return noRun(id)
	}
	r := stories.All()[0]
	return p.Out.Show(r, func() { showRun(p.Out, r) })
}

func noRun(id string) error {
	return cli.Failf("there is no run %s", cli.Quoted(id)).WithHint("bcpmesh kernel lists all runs")
}

func showRun(o *cli.Output, r *tell.RunStory) {
	headRun(o, r)
	rows := cli.Map(r.Events, func(e tell.RunEvent) []string {
		return []string{strconv.FormatUint(e.Decision, 10), e.At.Format(tell.TimeFormat), e.Word, e.Step, e.Tool, e.Detail, string(e.From)}
	})
	o.Table([]string{"record", "time, UTC", "event", "step", "tool", "", "from"}, rows)
	showWay(o, r)
	for _, said := range r.Said {
		o.Heading(fmt.Sprintf("%s, record %d, as it was said", said.What, said.Decision))
		for _, line := range inert.Prefixed(inert.Gutter, said.Text, rawWidth) {
			o.Printf("%s\n", line)
		}
	}
}

// headRun says what the run was and how it ended.
func headRun(o *cli.Output, r *tell.RunStory) {
	o.Heading(fmt.Sprintf("run %s of %s, asked by %s with the grant %s", r.Run, r.Kernel, r.Requester, r.Grant))
	status := describeRun(r)
	if r.Status != bcp.RunOpen {
		status += " after " + r.Ended.Sub(r.Began).Round(time.Millisecond).String()
	}
	if r.Code != "" && r.Step != "" {
		status += ", at step " + r.Step
	}
	o.Printf("%s\n", cli.Plain(status))
	o.Printf("%d of %d steps, %d of %d calls, %d of %d questions, %d of %d plans\n",
		r.Steps, r.Limits.Steps, r.Calls, r.Limits.Calls, r.Questions, r.Limits.Questions, r.Plans, r.Limits.Plans)
	if r.Limits.Control > 0 {
		o.Printf("content steered by %s of %d bits\n", r.Control, r.Limits.Control)
	}
}

func explainRun(o *cli.Output, r *tell.RunStory) {
	headRun(o, r)
	if len(r.Verdicts) > 0 {
		o.Heading("What the gate said")
		var rows [][]string
		for _, v := range r.Verdicts {
			when := "when it was made"
			if v.Early {
				when = "before the first step"
			}
			arguments := cli.Map(v.Arguments, func(a kernel.NamedLabel) string { return a.Name + " " + labelWords(&a.Label) })
			rows = append(rows, []string{v.Step, v.Tool, v.Ruling, string(v.Code), strings.Join(v.Rules, ", "), strings.Join(arguments, "; "), when})
		}
		o.Table([]string{"step", "tool", "verdict", "why", "rules", "arguments", ""}, rows)
	}
	if len(r.Values) > 0 {
		o.Heading("Where each value came from")
		o.Table([]string{"value", "made by", "from", "label", "bits that content chose"}, cli.Map(r.Values, func(v tell.RunValue) []string {
			from := strings.Join(v.Inputs, ", ")
			if v.Reused {
				from = strings.Join(cli.Compact(from, "an earlier plan"), ", ")
			}
			return []string{v.Step, strings.Join(cli.Compact(v.Kind, v.Tool), " "), cmp.Or(from, "the plan"), labelWords(&v.Label), strings.Trim(v.Label.Width().String(), `"`)}
		}))
	}
	showWay(o, r)
	explainTask(o, r)
	explain := kernel.Explain
	if r.Status == tell.Refused {
		explain = kernel.ExplainRefusal
	}
	if why := explain(r.Code); why != "" {
		o.Printf("%s\n", why)
	}
}

// showWay draws the plan of a run that content could steer, with the way that it went.
func showWay(o *cli.Output, r *tell.RunStory) {
	tree := r.Tree()
	if r.Limits.Control == 0 || len(tree) == 0 {
		return
	}
	o.Heading("Which way it went")
	for _, line := range tell.TreeLines(tree) {
		o.Printf("%s\n", cli.Plain(line))
	}
}

// explainTask says why a task is tainted, and the way out.
func explainTask(o *cli.Output, r *tell.RunStory) {
	if !r.Task.Tainted() {
		return
	}
	o.Heading("Why the task is tainted")
	rows := cli.Map(r.Told, func(told tell.RunTold) []string {
		return []string{strconv.FormatUint(told.Decision, 10), told.At.Format(tell.TimeFormat), string(told.From), cmp.Or(string(told.Delivery), "how a run ended"), told.Bits.String()}
	})
	if len(rows) == 0 {
		o.Printf("%s reads content, or is defined so: bcpmesh session. Readers may have written its tasks.\n", r.Requester)
		return
	}
	o.Table([]string{"record", "time, UTC", "from", "delivery", "bits"}, rows)
	o.Printf("%s was told this since it last began anew, so Readers may have chosen %s bits of its task. A rule may take them: task.influence. Or %s clears its context, and says so by a new session: bcpmesh session open, after session close, or new_session: true in the run.\n",
		r.Requester, strings.Trim(r.Task.Width().String(), `"`), r.Requester)
}

// labelWords says what matters of a label.
func labelWords(l *kernel.Label) string {
	words := "trusted"
	if l.Tainted() {
		words = "tainted"
	}
	if l.ThirdParty() {
		words += ", third party"
	}
	return words
}

// runsOf is the id of the run that a decision is about.
func runsOf(d *bcp.Decision) []string {
	if d.Kind != bcp.KindRun || d.Run == nil {
		return nil
	}
	return []string{d.Run.Run}
}

// EachDecision reads all decisions of the audit.
func EachDecision(ctx context.Context, p *cli.Program, who *client.Flags, each func(*bcp.Decision)) error {
	c, err := who.Books(ctx, p, false)
	if err != nil {
		return err
	}
	defer c.Close()
	return read(ctx, c, agents.Selection{}, client.SpanFlags{}, adds(each)) // kernels are on a mesh of one server
}

// forOwner refuses flags of somebody else for one that shows what was said.
func forOwner(cmd *cobra.Command, needs string) error {
	for _, flag := range []string{"creds", "as", "url"} {
		if cmd.Flags().Changed(flag) {
			return cli.Usagef("%s%s takes no --%s: content is for the owner of the state folder", cli.Prefix(cmd), needs, flag)
		}
	}
	return nil
}

// readOpened reads the journal of the folder with what was said.
func readOpened(ctx context.Context, where meshdir.StateFlags, each func(*replayed) error) error {
	j, err := client.OpenSource(ctx, where)
	if err != nil {
		return err
	}
	defer j.Close()
	return new(replaying).ofJournal(ctx, j, each)
}
