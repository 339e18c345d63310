package attach

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// Planner makes the plans of a planner, by a program or of a script.
type Planner struct {
	serving
	Script string
}

// Run plans until interrupted.
func (o *Planner) Run(ctx context.Context, p *cli.Program, args []string) error {
	if flags := o.Command.Flags(); len(args) == 2 && args[0] == "script" && o.Command.ArgsLenAtDash() < 0 && !flags.Changed("script") {
		_ = flags.Set("script", args[1]) // as definitions say it that were written earlier; a text cannot be wrong
		args = nil
	}
	program, err := o.begin(p, args, "script", false, bcp.RolePlanner, bcp.RoleSubplanner)
	var tasks []plannedTask
	if err == nil && program == nil {
		tasks, err = readScript(o.Script)
	}
	if err != nil {
		return err
	}
	return o.serve(ctx, p, program, func(ctx context.Context, agent *client.Client) error {
		return planWith(ctx, p, agent, func(ctx context.Context, request any) (any, error) {
			if program == nil {
				return planByScript(tasks, request)
			}
			return planByProgram(ctx, program, request)
		})
	})
}

// planByProgram makes a plan by running a program.
func planByProgram(ctx context.Context, program *stdio.Program, request any) (any, error) {
	line, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	printed, exit, err := program.Once(ctx, append(line, '\n'))
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case exit == notPerformed:
		return nil, agents.ErrAway
	case err != nil:
		program.Logger.Warn("the program made no plan", "reason", err)
		return nil, agents.ErrNoPlan
	case len(printed) == 0:
		return nil, agents.ErrNoPlan
	}
	return string(printed), nil // the kernel reads it, and says what is wrong with it
}

// plannedTask is one entry of a script.
type plannedTask struct {
	Task string         `json:"task"`
	Plan jsontext.Value `json:"plan"`
}

// maxScript bounds a script, in bytes.
const maxScript = 16 << 20

// planByScript answers a task with the plan of a script.
func planByScript(tasks []plannedTask, request any) (any, error) {
	task := ""
	switch r := request.(type) {
	case agents.PlanRequest:
		task = r.Task
	case agents.SubPlanRequest:
		task = r.Instruction
	}
	for _, t := range tasks {
		if t.Task == task || t.Task == "*" {
			return t.Plan, nil
		}
	}
	return nil, agents.ErrNoPlan
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
		return nil, cli.Failf("%s: expected a JSON array of {\"task\": …, \"plan\": …}", cli.Quoted(name)).WithHint("bcpmesh planner --help says more")
	}
	return tasks, nil
}

// planWith plans until interrupted, tasks or sub-runs by the role of the creds: plan gets an [agents.PlanRequest], or an
// [agents.SubPlanRequest].
func planWith(ctx context.Context, p *cli.Program, agent *client.Client, plan func(ctx context.Context, request any) (any, error)) error {
	says := string(agent.Name) + " plans"
	if agent.Role == bcp.RoleSubplanner {
		planner := agents.NewSubPlanner(agent.Connection)
		planner.OnPlan(func(ctx context.Context, r agents.SubPlanRequest) (any, error) { return plan(ctx, r) })
		return client.ServeUntil(ctx, p, planner, says)
	}
	planner := agents.NewPlanner(agent.Connection)
	planner.OnPlan(func(ctx context.Context, r agents.PlanRequest) (any, error) { return plan(ctx, r) })
	return client.ServeUntil(ctx, p, planner, says)
}

// plannerRole returns the role in which an agent plans for kernels, and 0 for one that does
// not.
func plannerRole(def *bcp.Mesh, name bcp.AgentName) bcp.Role {
	switch {
	case slices.ContainsFunc(def.Kernels, func(k bcp.KernelRights) bool { return k.Planner == name }):
		return bcp.RolePlanner
	case slices.ContainsFunc(def.Kernels, func(k bcp.KernelRights) bool { return k.SubPlanner == name }):
		return bcp.RoleSubplanner
	}
	return 0
}

// planWithModel plans with a model until interrupted.
func planWithModel(ctx context.Context, p *cli.Program, agent *client.Client, model llm.Endpoint, guidelines string, record io.Writer) error {
	if record != nil {
		var err error
		if model.Provider, err = wires.NewRecorder(model.Provider, record); err != nil {
			return cli.Failf("the transcript: %s", cli.FileReason(err))
		}
	}
	planner := &keeper.Planner{Model: model, Guidelines: guidelines}
	return planWith(ctx, p, agent, func(ctx context.Context, request any) (made any, err error) {
		switch r := request.(type) {
		case agents.PlanRequest:
			made, err = planner.Plan(ctx, r)
		case agents.SubPlanRequest:
			made, err = planner.PlanSub(ctx, r)
		}
		if err != nil && ctx.Err() == nil {
			agent.Log.Warn("the model made no plan", "error", err)
		}
		return made, err
	})
}
