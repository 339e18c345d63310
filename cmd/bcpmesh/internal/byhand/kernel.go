package byhand

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// RunCommands returns the commands of kernel that start and stop runs.
func RunCommands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{kernelRunCommand(p), kernelStopCommand(p)}
}

func kernelRunCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var forbid []string
	var id string
	var wait cli.DurationFlag
	var noWait bool
	cmd := &cobra.Command{
		Use:   "run KERNEL GRANT TASK",
		Short: "Run a task in a kernel and wait for the end",
		Long: `Run a task in a kernel of the mesh, with one of the grants that you may name,
and wait for the end. The planner sees TASK and no content.

--forbid TOOL=CEL adds a rule of your own to this run: calls of the tool for which
the condition holds are refused, whatever the kernel's rules say; * is every tool.

Exit code 3 means that the run did not commit: bcpmesh kernel explain says why. After
a lost connection ask again with the same --request-id: nothing is done twice.`,
		Example: `  bcpmesh kernel run desk reply "Summarise my latest mail and send it to me."
  bcpmesh kernel run desk reply "Send kim the agenda." --forbid 'send_email=args.to.value != "kim@example.org"'`,
		Args:              cli.Arguments(3, "KERNEL", "GRANT", "TASK"),
		ValidArgsFunction: CompleteRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := bcp.ParseAgentName(args[0])
			if err != nil {
				return cli.Usagef("kernel run: %s: %s", cli.Quoted(args[0]), err)
			}
			if err := CheckTask("kernel run", args[2]); err != nil {
				return err
			}
			task := agents.RunTask{ID: bcp.ClientID(id), Task: args[2], NewSession: true} // what a screen showed taints nobody
			if _, err := bcp.ParseClientID(id); id != "" && err != nil {
				return cli.Usagef("kernel run: --request-id: %s", err)
			}
			for _, rule := range forbid {
				tool, when, ok := strings.Cut(rule, "=")
				if !ok || tool == "" || when == "" {
					return cli.Usagef("kernel run: --forbid %s: expected TOOL=CEL", cli.Quoted(rule)).WithHint("such as --forbid 'send_email=args.to.value != \"kim@example.org\"'")
				}
				task.Forbid = append(task.Forbid, agents.ForbidRule{Tool: tool, When: when})
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.Value)
			defer cancel()
			if err := FindRequester(&who, name, args[1]); err != nil {
				return err
			}
			c, err := who.Connect(ctx, bcp.RoleController)
			if err != nil {
				return err
			}
			defer c.Close()
			return runTask(ctx, p, agents.NewRequester(c.Connection), name, args[1], task, noWait)
		},
	}
	who.AddTo(cmd, "requester")
	cmd.Flags().StringArrayVar(&forbid, "forbid", nil, "refuse calls for which this `TOOL=CEL` holds, in this run")
	cmd.Flags().StringVar(&id, "request-id", "", "repeat a task with the same `ID`: it is done once")
	cli.WaitFlag(cmd, &wait, 15*time.Minute, "how long to wait for the end")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the run has begun")
	return cmd
}

// CheckTask refuses a task that says nothing.
func CheckTask(command, task string) error {
	if strings.TrimSpace(task) == "" {
		return cli.Usagef("%s: TASK is empty", command).WithHint("say what is to be done; if TASK is a shell variable, is it set?")
	}
	return nil
}

// FindRequester finds as whom a run is started, and says what there is otherwise: the
// server denies what is not declared without a word.
func FindRequester(who *client.Flags, name bcp.AgentName, grant string) error {
	if who.Creds != "" {
		return nil // the gateway alone knows
	}
	folder, err := who.Where.Folder()
	if err != nil {
		return err
	}
	def, err := folder.Load()
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

func runTask(ctx context.Context, p *cli.Program, requester *agents.Requester, name bcp.AgentName, grant string, task agents.RunTask, noWait bool) error {
	run, err := requester.Run(ctx, name, grant, task)
	if err != nil {
		return RunFailure(err)
	}
	if noWait {
		if p.Out.JSON {
			return p.Out.Value(bcp.RunReceipt{Type: bcp.TypeRun, RunID: run.ID, Status: bcp.RunOpen})
		}
		p.Out.Printf("%s\n", cli.Plain(run.ID))
		return nil
	}
	end, err := run.Wait(ctx)
	if unanswered, ok := errors.AsType[*agents.UnansweredError](err); ok && errors.Is(unanswered, context.DeadlineExceeded) {
		return cli.Failf("run %s did not end in time", run.ID).WithHint("it is still running: bcpmesh kernel show %s", run.ID)
	}
	if err != nil {
		return RunFailure(err)
	}
	return ShowEnd(p.Out, end)
}

// ShowEnd shows how a run ended. What is not committed is a refusal.
func ShowEnd(o *cli.Output, end bcp.RunReceipt) error {
	if o.JSON {
		if err := o.Line(end); err != nil {
			return err
		}
	} else if end.Status == string(kernel.Committed) {
		o.Printf("%s\n", end.Status)
	}
	if end.Status == string(kernel.Committed) {
		return nil
	}
	message := cli.Plain(end.Status)
	if why := kernel.Explain(kernel.Code(end.Code)); why != "" {
		message += ": " + end.Code + ": " + why
	}
	return (&cli.Failure{Code: cli.ExitRefused, Message: message}).WithHint("bcpmesh kernel explain %s", end.RunID)
}

// RunFailure says why there is no run.
func RunFailure(err error) error {
	if refused, ok := errors.AsType[*agents.RunRefusedError](err); ok {
		return &cli.Failure{Code: cli.ExitRefused, Message: strings.TrimSuffix(cli.Plain(refused.Code)+": "+kernel.ExplainRefusal(kernel.Code(refused.Code)), ": ")}
	}
	return meshdir.Failure(err)
}

// CompleteRun completes KERNEL, and then its grants.
func CompleteRun(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 {
		return client.CompleteKernels(cmd, args, typed)
	}
	mesh, err := client.LoadMesh(cmd)
	if err != nil || len(args) > 1 {
		return nil, none
	}
	grants := map[string]bool{}
	for i := range mesh.Kernels {
		for _, r := range mesh.Kernels[i].Runs {
			if string(mesh.Kernels[i].Kernel) == args[0] {
				grants[r.Grant] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(grants)), none
}

func kernelStopCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	cmd := &cobra.Command{
		Use:   "stop RUN",
		Short: "Stop a run before its next call",
		Long: `Stop a run of a kernel, as owner of the state folder. It makes no further call;
a call under way may still be made, and its outcome is recorded.`,
		Example: "  bcpmesh kernel stop rJ4CU3CCAGCRCOVXSQ7GLZ6UN5",
		Args:    cli.Arguments(1, "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := who.Connect(cmd.Context(), bcp.RoleOperator)
			if err != nil {
				return err
			}
			defer c.Close()
			end, err := c.Operator(0).StopRun(cmd.Context(), args[0])
			switch {
			case err != nil:
				return RunFailure(err)
			case p.Out.JSON:
				return p.Out.Value(end)
			case end.Status != string(kernel.Stopped):
				p.Out.Printf("%s had ended: %s\n", cli.Plain(args[0]), cli.Plain(end.Status))
			default:
				p.Out.Printf("%s is stopped\n", cli.Plain(args[0]))
			}
			return nil
		},
	}
	who.Where.AddTo(cmd)
	return cmd
}
