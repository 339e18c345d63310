package audit

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/simulate"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// begin has a kernel do a task.
type begin struct {
	client.Flags
	RequestID string
	Wait      cli.DurationFlag `default:"15m"`
	NoWait    bool
	Plan      bool `not:"no-wait"`
}

func (o *begin) Run(ctx context.Context, p *cli.Program, args []string) error {
	name, err := bcp.ParseAgentName(args[0])
	if err != nil {
		return cli.Usagef("kernel run: %s: %s", cli.Quoted(args[0]), err)
	}
	if strings.TrimSpace(args[2]) == "" {
		return cli.Usagef("kernel run: TASK is empty").WithHint("say what is to be done; if TASK is a shell variable, is it set?")
	}
	task := agents.RunTask{ID: bcp.ClientID(o.RequestID), Task: args[2], PlanOnly: o.Plan, NewSession: true} // what a screen showed taints nobody
	if _, err := bcp.ParseClientID(o.RequestID); o.RequestID != "" && err != nil {
		return cli.Usagef("kernel run: --request-id: %s", err)
	}
	if o.Plan && (o.Creds != "" || o.URL != "") {
		return cli.Usagef("kernel run: --plan takes neither --creds nor --url: the plan is for the owner of the state folder")
	}
	ctx, cancel := context.WithTimeout(ctx, o.Wait.Value)
	defer cancel()
	if err := findRequester(&o.Flags, name, args[1]); err != nil {
		return err
	}
	c, err := o.Connect(ctx, bcp.RoleController)
	if err != nil {
		return err
	}
	defer c.Close()
	run, err := agents.NewRequester(c.Connection).Run(ctx, name, args[1], task)
	switch {
	case err != nil:
		return runFailure(err)
	case o.Plan:
		return showPlan(ctx, p, c, o.Where, run, name, args[1])
	case o.NoWait:
		return p.Out.Show(bcp.RunReceipt{Type: bcp.TypeRun, RunID: run.ID, Status: bcp.RunOpen}, func() { p.Out.Printf("%s\n", cli.Plain(run.ID)) })
	}
	if err := waitForEnd(ctx, p, run, &answerer{}); err != nil || p.Out.JSON {
		return err
	}
	if o.Creds != "" || o.URL != "" {
		p.Out.Talkf("its value is for the owner of the state folder: bcpmesh kernel %s --raw", run.ID)
		return nil
	}
	return showValue(ctx, p.Out, o.Where, run.ID)
}

// findRequester finds as whom a run is started, and says what there is otherwise: the
// server denies what is not declared without a word.
func findRequester(who *client.Flags, name bcp.AgentName, grant string) error {
	if who.Creds != "" {
		return nil // the gateway alone knows
	}
	_, def, err := who.Where.Load()
	if err != nil {
		return err
	}
	may := map[string][]string{} // grants, by requester
	var kernels []string
	for i := range def.Kernels {
		k := &def.Kernels[i]
		kernels = append(kernels, string(k.Kernel))
		for _, r := range k.Runs {
			if k.Kernel == name {
				may[string(r.Requester)] = append(may[string(r.Requester)], r.Grant)
			}
		}
	}
	if !slices.Contains(kernels, string(name)) {
		f := cli.Failf("the mesh has no kernel %s", cli.Quoted(string(name)))
		if len(kernels) == 0 {
			return f.WithHint("an agent becomes one by the key kernel: docs/kernel.md")
		}
		return f.WithHint("there is %s", cli.JoinOr(kernels))
	}
	names := slices.Sorted(maps.Keys(may))
	if who.As == "" {
		if len(names) > 1 {
			return cli.Usagef("--as: %s has several requesters: %s", name, cli.JoinOr(names))
		}
		who.As = names[0]
	}
	switch grants := may[who.As]; {
	case len(grants) == 0:
		return cli.Usagef("--as: %s may start no run of %s", cli.Quoted(who.As), name).WithHint("there is %s", cli.JoinOr(names))
	case !slices.Contains(grants, grant):
		return cli.Failf("%s may not start runs of %s with the grant %s", who.As, name, cli.Quoted(grant)).WithHint("there is %s", cli.JoinOr(grants))
	}
	return nil
}

// waitForEnd waits for the end of a run, answers what it asks, and says once that it waits
// for a person.
func waitForEnd(ctx context.Context, p *cli.Program, run *agents.Run, answers *answerer) error {
	waits := false
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wrong error
	end, err := run.Follow(ctx, func(r bcp.RunReceipt) {
		if wrong = answers.look(ctx, p, run, r); wrong != nil {
			cancel()
		}
		if r.Waits == bcp.WaitsForPerson && !waits {
			p.Out.Talkf("run %s waits for a person: bcpmesh approvals", r.RunID)
		}
		waits = r.Waits == bcp.WaitsForPerson
	})
	if unanswered, ok := errors.AsType[*agents.UnansweredError](err); ok && errors.Is(unanswered, context.DeadlineExceeded) {
		return cli.Failf("run %s did not end in time", run.ID).WithHint("it is still running: bcpmesh kernel %s", run.ID)
	}
	if err = cmp.Or(wrong, err); err != nil {
		return runFailure(err)
	}
	return showEnd(p.Out, end)
}

// eachChange reads what the journal has of a run, opened.
func eachChange(ctx context.Context, where meshdir.StateFlags, id string, each func(*kernel.Change)) error {
	return readOpened(ctx, where, func(one *replayed) error {
		if one.Run != nil && one.Run.Run == id {
			if change, err := kernel.ReadRecord(&one.Decision); err == nil {
				each(&change)
			}
		}
		return nil
	})
}

// showValue shows the value of a run that committed, from the journal.
func showValue(ctx context.Context, o *cli.Output, where meshdir.StateFlags, id string) error {
	var final []byte
	err := eachChange(ctx, where, id, func(change *kernel.Change) {
		if change.End != nil {
			final = change.Private.Final
		}
	})
	switch {
	case err != nil:
		return err
	case final == nil:
		o.Printf("it has no value\n")
		return nil
	}
	o.Heading("Its value")
	for _, line := range inert.Prefixed(inert.Gutter, string(final), rawWidth) {
		o.Printf("%s\n", line)
	}
	return nil
}

// showEnd shows how a run ended. What is not committed is a refusal.
func showEnd(o *cli.Output, end bcp.RunReceipt) error {
	var refused error
	if end.Status != string(kernel.Committed) {
		message := cli.Plain(end.Status)
		if why := kernel.Explain(kernel.Code(end.Code)); why != "" {
			message += ": " + end.Code + ": " + why
		}
		refused = (&cli.Failure{Code: cli.ExitRefused, Message: message}).WithHint("bcpmesh explain %s", end.RunID)
	}
	return o.Report(end, refused, func() { o.Printf("%s\n", end.Status) })
}

// runFailure says why there is no run.
func runFailure(err error) error {
	if refused, ok := errors.AsType[*agents.RunRefusedError](err); ok {
		return &cli.Failure{Code: cli.ExitRefused, Message: strings.TrimSuffix(cli.Plain(refused.Code)+": "+kernel.ExplainRefusal(kernel.Code(refused.Code)), ": ")}
	}
	return err
}

func stopRun(ctx context.Context, o *cli.Output, where meshdir.StateFlags, id string) error {
	var end bcp.RunReceipt
	err := client.AsOperator(ctx, where, 0, func(ctx context.Context, c *client.Client) (err error) {
		end, err = c.Operator().StopRun(ctx, id)
		return runFailure(err)
	})
	if err != nil {
		return err
	}
	says := " is stopped"
	if end.Status != string(kernel.Stopped) {
		says = " had ended: " + end.Status
	}
	return o.Show(end, func() { o.Printf("%s\n", cli.Plain(id+says)) })
}

// showPlan reports what the plan of a run that only planned would do, from the journal.
func showPlan(ctx context.Context, p *cli.Program, c *client.Client, where meshdir.StateFlags, run *agents.Run, name bcp.AgentName, grant string) error {
	end, err := run.Wait(ctx)
	if err != nil {
		return runFailure(err)
	}
	var plan []byte
	err = eachChange(ctx, where, run.ID, func(change *kernel.Change) {
		if change.Plan != nil {
			plan = change.Private.Plan
		}
	})
	if err != nil {
		return err
	}
	if plan == nil || end.Status != string(kernel.Planned) && end.Status != string(kernel.Blocked) {
		return showEnd(p.Out, end)
	}
	return simulate.ReportPlan(p, c.Definition, name, c.Name, grant, plan)
}
