package attach

import (
	"context"
	"os"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/onecall"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/cmd/internal/serve"
)

// plannerModelOptions are the flags of planner model.
type plannerModelOptions struct {
	client.AgentFlags
	model, endpoint, key, guidelines, record string
	tokens, parallel                         int
}

func plannerModelCommand(p *cli.Program) *cobra.Command {
	var o plannerModelOptions
	cmd := &cobra.Command{
		Use:   "model --model PROVIDER/MODEL",
		Short: "Make each plan with a model",
		Long: `Make each plan with a model, on the machine where this command runs. The model is told
the task, the tools of the run's grant, what Readers can be asked, the limits, and the
codes of what was wrong with its earlier plans: no content, and no more. It answers by
calling its one tool, whose JSON Schema is docs/plan.schema.json; its plan goes
unchanged to the kernel, which judges it.

A planner whose definition has command: builtin needs none of this: the mesh starts it,
with the model of its definition, and the text of the file as guidelines.

The providers are anthropic, google, ollama, openai (with --endpoint, anything
compatible with it), and script, replay and gullible, which are no models. If the
model answers with text, or its provider refuses, there is no plan: the kernel is told
that the planner refused, and asks again within max_plans. If its provider is away, the
kernel asks again after a pause, and counts no plan.

With --record each call of the model is written to a new file; the model replay/FILE
answers the same requests with the same replies.`,
		Example: `  bcpmesh planner model --creds ann.creds --model anthropic/claude-sonnet-4-5
  bcpmesh planner model --creds ann.creds --model openai/qwen3 --endpoint http://127.0.0.1:8000/v1 --guidelines house.md`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.model == "" {
				return cli.Usagef("planner model: expected --model PROVIDER/MODEL").WithHint("such as --model anthropic/claude-sonnet-4-5; the providers are %s", cli.JoinOr(bcp.Providers()))
			}
			if o.parallel < 1 || o.parallel > serve.MaxParallel {
				return cli.Usagef("planner model: --parallel: expected 1 to %d, got %d", serve.MaxParallel, o.parallel)
			}
			o.Roles = plannerRoles
			if o.FromEnvironment(p.Env, plannerRoles...); o.Creds == "" {
				return cli.Usagef("planner model: expected --creds FILE").WithHint("bcpmesh creds issue NAME --out FILE makes one")
			}
			return planByModel(cmd.Context(), p, o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddTo(cmd, "creds `FILE` of a planner or sub-planner (default: $BCPMESH_PLANNER_CREDS)")
	cmd.Flags().StringVar(&o.model, "model", "", "the `PROVIDER/MODEL` that plans")
	cmd.Flags().StringVar(&o.endpoint, "endpoint", "", "`URL` of the provider (default: its own)")
	cmd.Flags().StringVar(&o.key, "key", "", "where the key is, as `PLACE` env:NAME, file:PATH or command:WORDS (default: the usual one)")
	cmd.Flags().StringVar(&o.guidelines, "guidelines", "", "further instructions to the model for every task, a `FILE` of at most 64 KiB")
	cmd.Flags().StringVar(&o.record, "record", "", "write the calls of the model to a new `FILE`")
	cmd.Flags().IntVar(&o.tokens, "max-tokens", 4096, "how many `TOKENS` a plan may have")
	cmd.Flags().IntVar(&o.parallel, "parallel", 4, "how many `TASKS` are planned at a time")
	return cmd
}

// planByModel plans until interrupted.
func planByModel(ctx context.Context, p *cli.Program, o plannerModelOptions) error {
	model, known := (&bcp.Mesh{}).ModelOf(o.model)
	if !known {
		return cli.Usagef("planner model: --model: expected PROVIDER/MODEL, got %s", cli.Quoted(o.model)).WithHint("the providers are %s", cli.JoinOr(bcp.Providers()))
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
	agent, err := o.Connect(ctx, p, "planner", o.parallel)
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
	kept, err := metered(ctx, p, folder, agent, &model, log)
	if err != nil {
		return err
	}
	defer kept.Close()
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
