package attach

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// plannerOptions are the flags of planner.
type plannerOptions struct {
	servingFlags
	script, model, endpoint, key, record string
}

// PlannerCommand returns the command planner.
func PlannerCommand(p *cli.Program) *cobra.Command {
	var o plannerOptions
	cmd := &cobra.Command{
		Use: "planner [-- PROGRAM [ARG...]]",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if len(args) == 2 && args[0] == "script" && cmd.ArgsLenAtDash() < 0 && !cmd.Flags().Changed("script") {
				_ = cmd.Flags().Set("script", args[1]) // a text
				args = nil
			}
			switch way, err := o.way(p, cmd, args, "", "model", "script"); {
			case err != nil:
				return err
			case way == "model":
				return o.planByModel(ctx, p)
			case way == "script":
				return o.planByScript(ctx, p)
			}
			return o.planByProgram(ctx, p, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addTo(cmd, bcp.RolePlanner, bcp.RoleSubplanner)
	cmd.Flags().StringVar(&o.script, "script", "", "answer with the plans of this `FILE`")
	cmd.Flags().StringVar(&o.model, "model", "", "the `PROVIDER/MODEL` that plans")
	cmd.Flags().StringVar(&o.endpoint, "endpoint", "", "`URL` of the provider (default: its own)")
	cmd.Flags().StringVar(&o.key, "key", "", "where the key is, as `PLACE` env:NAME, file:PATH or command:WORDS (default: the usual one)")
	cmd.Flags().StringVar(&o.record, "record", "", "write the calls of the model to a new `FILE`, for replay/FILE")
	return cmd
}

// planByProgram makes each plan by running a program.
func (o *plannerOptions) planByProgram(ctx context.Context, p *cli.Program, command []string) error {
	s, err := o.connectProgram(ctx, p, command)
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
	return planWith(ctx, p, s.ServedAgent,
		func(ctx context.Context, r agents.PlanRequest) (any, error) { return plan(ctx, r) },
		func(ctx context.Context, r agents.SubPlanRequest) (any, error) { return plan(ctx, r) })
}

// plannedTask is one entry of a script.
type plannedTask struct {
	Task string         `json:"task"`
	Plan jsontext.Value `json:"plan"`
}

// maxScript bounds a script, in bytes.
const maxScript = 16 << 20

// planByScript answers tasks with the plans of a file.
func (o *plannerOptions) planByScript(ctx context.Context, p *cli.Program) error {
	tasks, err := readScript(o.script)
	if err != nil {
		return err
	}
	agent, err := o.connect(ctx, p)
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
	return planWith(ctx, p, agent,
		func(_ context.Context, r agents.PlanRequest) (any, error) { return plan(r.Task) },
		func(_ context.Context, r agents.SubPlanRequest) (any, error) { return plan(r.Instruction) })
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

// planTokens are what a plan may have.
const planTokens = 4096

// planByModel plans until interrupted.
func (o *plannerOptions) planByModel(ctx context.Context, p *cli.Program) error {
	model, known := (&bcp.Mesh{}).ModelOf(o.model)
	if !known {
		return cli.Usagef("planner: --model: expected PROVIDER/MODEL, got %s", cli.Quoted(o.model)).WithHint("the providers are %s", cli.JoinOr(bcp.Providers()))
	}
	if o.endpoint != "" {
		model.BaseURL, model.Key = o.endpoint, ""
	}
	if o.key != "" {
		model.Key = o.key
	}
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	opened, err := meshdir.Folder{Dir: folder}.OpenModel(model, planTokens)
	if err != nil {
		return cli.Failf("the model %s: %s", cli.Quoted(o.model), err)
	}
	agent, err := o.connect(ctx, p)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	return planByItsModel(ctx, p, agent, &keeper.Planner{Model: opened}, o.record)
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

// plan plans in a role for a definition with command: builtin, until interrupted.
func (o *seat) plan(ctx context.Context, p *cli.Program, folder meshdir.Folder, def *bcp.Mesh, agent *bcp.Agent, role bcp.Role) error {
	model, err := openModel(folder, def, agent)
	if err != nil {
		return err
	}
	log := cli.NewLogger(hclog.Info, p.Out.Stderr)
	kept, err := connectKeeper(ctx, p, folder, agent, log)
	if err != nil {
		return err
	}
	defer kept.Close()
	model = keeper.Metered(model, agents.NewKeeper(kept), agent, log)
	conn, err := connectBuiltin(ctx, p, folder, agent, role, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	return planByItsModel(ctx, p, &client.ServedAgent{Conn: conn, Name: agent.Name, Role: role, Log: log}, &keeper.Planner{Model: model, Guidelines: agent.Prompt}, o.record)
}

// planByItsModel plans until interrupted, and says why it could not plan.
func planByItsModel(ctx context.Context, p *cli.Program, agent *client.ServedAgent, planner *keeper.Planner, record string) error {
	if record != "" {
		file, err := recordTo(record, &planner.Model)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // each call was written when it ended
	}
	told := func(ctx context.Context, made any, err error) (any, error) {
		if err != nil && ctx.Err() == nil {
			agent.Log.Warn("the model made no plan", "error", err)
		}
		return made, err
	}
	return planWith(ctx, p, agent,
		func(ctx context.Context, r agents.PlanRequest) (any, error) {
			made, err := planner.Plan(ctx, r)
			return told(ctx, made, err)
		},
		func(ctx context.Context, r agents.SubPlanRequest) (any, error) {
			made, err := planner.PlanSub(ctx, r)
			return told(ctx, made, err)
		})
}
