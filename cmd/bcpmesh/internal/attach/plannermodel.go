package attach

import (
	"context"
	"os"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/onecall"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

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
	opened, err := meshdir.Folder{Dir: folder}.OpenModel(model, o.tokens)
	if err != nil {
		return cli.Failf("the model %s: %s", cli.Quoted(o.model), err)
	}
	planner := onecall.Planner{Model: opened}
	if o.guidelines != "" {
		text, err := cli.ReadSmall(o.guidelines)
		if err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(o.guidelines), cli.FileReason(err))
		}
		planner.Guidelines = string(text)
	}
	agent, err := o.connect(ctx, p)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	return planByItsModel(ctx, p, agent, &planner, o.record)
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
	return planByItsModel(ctx, p, &client.ServedAgent{Conn: conn, Name: agent.Name, Role: role, Log: log}, &onecall.Planner{Model: model, Guidelines: agent.Prompt}, o.record)
}

// planByItsModel plans until interrupted, and says why it could not plan.
func planByItsModel(ctx context.Context, p *cli.Program, agent *client.ServedAgent, planner *onecall.Planner, record string) error {
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
