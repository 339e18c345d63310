package attach

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// plannerRoles are those that plan: of whichever the creds are, they plan for.
var plannerRoles = []bcp.Role{bcp.RolePlanner, bcp.RoleSubplanner}

// PlannerCommand returns the command planner.
func PlannerCommand(p *cli.Program) *cobra.Command {
	return cli.Group("planner", "Plan the runs of kernels",
		`Plan the runs of kernels. A planner is told the task, the tools of the run's grant and
what it may ask Readers; it never sees content. docs/kernel.md describes plans.

With the creds of a sub-planner it plans sub-runs: in place of the task it is told an
instruction and content, which is hostile. Its plans are as tainted.`,
		`  bcpmesh planner model --creds ann.creds --model anthropic/claude-sonnet-4-5
  bcpmesh planner command --creds ann.creds -- ./plan.py
  bcpmesh planner script --creds ann.creds plans.json`,
		plannerModelCommand(p), plannerProgramCommand(p), plannerScriptCommand(p))
}

func plannerProgramCommand(p *cli.Program) *cobra.Command {
	var o programFlags
	const example = "bcpmesh planner command --creds ann.creds -- ./plan.py"
	cmd := &cobra.Command{
		Use:   "command -- PROGRAM [ARG...]",
		Short: "Make each plan by running a program",
		Long: `Make each plan by running a program, in any language. It gets the request as one line of
JSON on stdin: {"plan_id", "task", "catalogue", "schemas", "limits", "errors"}, and
prints a plan: {"steps": [...], "final": "id"}. A sub-planner's has instruction and
content in place of task and errors.

If the program fails, or prints nothing, there is no plan: the kernel is told that the
planner refused, and asks again within max_plans. errors then has the error codes of
the earlier plans, and failed_plan the newest. If it exits with 75, its model is away:
the kernel asks again after a pause, and counts no plan.

Started by a mesh as a planner's command, it needs no flags.`,
		Example: "  " + example,
		Args:    programArgs(example),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := o.connect(cmd.Context(), p, plannerRoles, args)
			if err != nil {
				return err
			}
			defer s.close()
			plan := func(ctx context.Context, request any) (any, error) {
				line, err := json.Marshal(request)
				if err != nil {
					return nil, err
				}
				printed, exit, err := s.program.Once(ctx, append(line, '\n'))
				switch {
				case ctx.Err() != nil:
					return nil, context.Cause(ctx)
				case exit == notPerformed:
					return nil, agents.ErrAway
				case err != nil:
					s.program.Logger.Warn("the program made no plan", "reason", err)
					return nil, agents.ErrNoPlan
				case len(printed) == 0:
					return nil, agents.ErrNoPlan
				}
				return string(printed), nil // the kernel reads it, and says what is wrong with it
			}
			return planWith(cmd.Context(), p, s.ServedAgent,
				func(ctx context.Context, r agents.PlanRequest) (any, error) { return plan(ctx, r) },
				func(ctx context.Context, r agents.SubPlanRequest) (any, error) { return plan(ctx, r) })
		},
	}
	o.addTo(cmd, "creds `FILE` of a planner or sub-planner (default: $BCPMESH_PLANNER_CREDS)")
	return cmd
}

// plannedTask is one entry of a script.
type plannedTask struct {
	Task string         `json:"task"`
	Plan jsontext.Value `json:"plan"`
}

// maxScript bounds a script, in bytes.
const maxScript = 16 << 20

func plannerScriptCommand(p *cli.Program) *cobra.Command {
	var o programFlags
	cmd := &cobra.Command{
		Use:   "script FILE",
		Short: "Answer tasks with the plans of a file",
		Long: `Answer tasks with the plans of a file, without a model: for tests, and for tasks that
are always the same. FILE is a JSON array of {"task": …, "plan": …}: the first entry
whose task is "*" or exactly the text of the task, or of a sub-planner's instruction,
is taken. If there is none, the kernel is told that the planner refused.`,
		Example: "  bcpmesh planner script --creds ann.creds plans.json",
		Args:    cli.Arguments(1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			tasks, err := readScript(args[0])
			if err != nil {
				return err
			}
			o.Roles = plannerRoles
			if o.FromEnvironment(p.Env, plannerRoles...); o.Creds == "" {
				return cli.Usagef("planner script: expected --creds FILE").WithHint("bcpmesh creds issue NAME --out FILE makes one")
			}
			agent, err := o.Connect(cmd.Context(), p, "planner", 4)
			if err != nil {
				return err
			}
			defer agent.Conn.Close()
			plan := func(task string) (any, error) {
				for _, t := range tasks {
					if t.Task == task || t.Task == "*" {
						return t.Plan, nil
					}
				}
				return nil, agents.ErrNoPlan
			}
			return planWith(cmd.Context(), p, agent,
				func(_ context.Context, r agents.PlanRequest) (any, error) { return plan(r.Task) },
				func(_ context.Context, r agents.SubPlanRequest) (any, error) { return plan(r.Instruction) })
		},
	}
	o.AddTo(cmd, "creds `FILE` of a planner or sub-planner (default: $BCPMESH_PLANNER_CREDS)")
	return cmd
}

func readScript(name string) ([]plannedTask, error) {
	content, err := cli.ReadFile(name, maxScript)
	if err != nil {
		return nil, err
	}
	var tasks []plannedTask
	err = json.Unmarshal(content, &tasks, json.RejectUnknownMembers(true))
	for i := range tasks {
		if tasks[i].Task == "" || tasks[i].Plan == nil {
			err = errors.New("an entry has no task or no plan")
		}
	}
	if err != nil || len(tasks) == 0 {
		return nil, cli.Failf("%s: expected a JSON array of {\"task\": …, \"plan\": …}", cli.Quoted(name)).WithHint("bcpmesh planner script --help says more")
	}
	return tasks, nil
}

// planWith plans until interrupted, tasks or sub-runs by the role of the creds.
func planWith(ctx context.Context, p *cli.Program, agent *client.ServedAgent, plan func(context.Context, agents.PlanRequest) (any, error), sub func(context.Context, agents.SubPlanRequest) (any, error)) error {
	var planner interface {
		Start(context.Context) error
		Stop(context.Context) error
	}
	if agent.Role == bcp.RoleSubplanner {
		plans := agents.NewSubPlanner(agent.Conn)
		plans.OnPlan(sub)
		planner = plans
	} else {
		plans := agents.NewPlanner(agent.Conn)
		plans.OnPlan(plan)
		planner = plans
	}
	if err := planner.Start(ctx); err != nil {
		return meshdir.Failure(err)
	}
	p.Out.Talkf("%s plans", agent.Name)
	<-ctx.Done()
	_ = planner.Stop(context.WithoutCancel(ctx))
	return nil
}
