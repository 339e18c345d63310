package audit

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/simulate"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

func runPlanCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var wait cli.DurationFlag
	cmd := &cobra.Command{
		Use:   "plan KERNEL GRANT TASK",
		Short: "Ask a kernel's planner for a plan and judge it, without running it",
		Long: `Ask the planner of a kernel for a plan for a task, and show the gate's verdict on each
call, the label of each value, and how many of its bits content can have chosen. No
tool is called and no Reader is asked. The planner corrects a wrong plan as in a run.

It is recorded, as a run that ends as planned, or as blocked if a call is certain to
be denied. The plan is read from the journal, so the command is for the owner of the
state folder. Exit code 1 means that a call is certain to be denied, 3 that there is
no plan.`,
		Example: `  bcpmesh kernel plan desk reply "Summarise my latest mail and send it to me."`,
		Args:    cli.Arguments(3, "KERNEL", "GRANT", "TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := bcp.ParseAgentName(args[0])
			if err != nil {
				return cli.Usagef("kernel plan: %s: %s", cli.Quoted(args[0]), err)
			}
			if err := checkTask("kernel plan", args[2]); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.Value)
			defer cancel()
			return planTask(ctx, p, &who, name, args[1], args[2])
		},
		ValidArgsFunction: completeRun,
	}
	who.Where.AddTo(cmd)
	cli.Take(cmd, "--as: one of its requesters", cli.Into{"as": &who.As})
	cli.WaitFlag(cmd, &wait, 5*time.Minute, "how long to wait for the plan")
	return cmd
}

// planTask asks for a plan, and reports what it would do.
func planTask(ctx context.Context, p *cli.Program, who *client.Flags, name bcp.AgentName, grant, task string) error {
	if err := findRequester(who, name, grant); err != nil {
		return err
	}
	c, err := who.Connect(ctx, bcp.RoleController)
	if err != nil {
		return err
	}
	defer c.Close()
	run, err := agents.NewRequester(c.Connection).Run(ctx, name, grant, agents.RunTask{Task: task, PlanOnly: true, NewSession: true})
	if err != nil {
		return runFailure(err)
	}
	end, err := run.Wait(ctx)
	if err != nil {
		return runFailure(err)
	}
	var plan []byte
	err = readOpened(ctx, &client.Flags{Where: who.Where}, func(one *replayed) error {
		if one.Run == nil || one.Run.Run != run.ID {
			return nil
		}
		if change, err := kernel.ReadRecord(&one.Decision); err == nil && change.Plan != nil {
			plan = change.Private.Plan
		}
		return nil
	})
	if err != nil {
		return err
	}
	if plan == nil || end.Status != string(kernel.Planned) && end.Status != string(kernel.Blocked) {
		return showEnd(p.Out, end)
	}
	return simulate.ReportPlan(p, c.Definition, name, c.Name, grant, plan)
}
