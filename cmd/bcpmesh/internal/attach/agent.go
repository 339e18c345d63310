package attach

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// Agent serves an agent to a program.
type Agent struct {
	client.Serving
	Read    []string
	Command *cobra.Command
}

// Run serves the program that started this, or starts one.
func (o *Agent) Run(ctx context.Context, p *cli.Program, args []string) error {
	if len(args) > 0 && o.Command.ArgsLenAtDash() != 0 {
		return cli.Usagef("agent: unexpected %s", cli.Quoted(args[0])).WithHint("a command to confine comes after --")
	}
	o.FromEnvironment(p.Env, bcp.RoleReader, bcp.RoleController)
	switch {
	case o.Creds == "":
		return cli.Usagef("agent: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
	case len(args) > 0:
		return o.keepProgram(ctx, p, args)
	case len(o.Read) > 0:
		return cli.Usagef("agent: --read needs a command after --")
	}
	return o.serveProgram(ctx, p)
}

// serveProgram serves until the program closes its end, or until interrupted.
func (o *Agent) serveProgram(ctx context.Context, p *cli.Program) error {
	agent, err := o.Serve(ctx, p, "agent", stdio.MaxHandlers)
	if err != nil {
		return err
	}
	defer agent.Close()
	if cli.IsTerminal(p.In) {
		p.Out.Talkf("this speaks JSON-RPC on stdin and stdout: let a program start it")
	}
	err = stdio.Serve(ctx, stdio.Agent{
		Connection: agent.Connection, Name: agent.Name, Role: agent.Role, Version: cli.ProgramVersion(), Logger: agent.Log,
	}, cli.Interruptible(ctx, p.In), p.Out.Screen)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// endPatience is how long a program may take to end after its stdin was closed.
const endPatience = 3 * time.Second

// keepProgram starts a program confined, and serves it over its stdin and stdout until one of the two ends.
func (o *Agent) keepProgram(ctx context.Context, p *cli.Program, command []string) error {
	read, env := o.Read, process.Scrub(os.Environ())
	if definition := p.Env("BCPMESH_DEFINITION"); definition != "" {
		read = append(read, definition)
		env = append(env, "BCPMESH_DEFINITION="+definition)
	}
	program, err := confinable(command, env, read, "")
	if err != nil {
		return err
	}
	if covering := meshdir.Covers(program.Reads(), o.Creds); covering != "" {
		return cli.Failf("the program would read %s, where the agent's own credentials are", cli.Quoted(covering)).WithHint("give it the folders that it needs, one by one")
	}
	agent, err := o.Serve(ctx, p, "agent", stdio.MaxHandlers)
	if err != nil {
		return err
	}
	defer agent.Close()
	serve := stdio.Agent{Connection: agent.Connection, Name: agent.Name, Role: agent.Role, Version: cli.ProgramVersion(), Logger: agent.Log}
	services, kept, err := openServices(ctx, p, agent, program.Reads())
	if err != nil {
		return err
	}
	if services != nil {
		defer kept.Close()
		serve.Methods, serve.Rooms, serve.MaxLine = services.ProgramMethods(), services.Rooms(), keeper.MaxLine
	}
	env = append(env, "BCPMESH_AGENT="+string(agent.Name), "BCPMESH_DOOR=stdio")
	cmd, err := Confined(program)
	if err != nil {
		return err
	}
	output := process.NewOutput(agent.Log)
	defer output.End()
	stderr := output.Stderr()
	cmd.Env, cmd.Stderr = env, stderr
	running, ours, err := process.Open(cmd)
	if err != nil {
		return cli.Failf("the program cannot be started: %s", process.Reason(err))
	}
	defer context.AfterFunc(ctx, ours.Close)()
	err = stdio.Serve(ctx, serve, ours.In, ours.Out)
	ours.Close()
	ending, cancel := context.WithTimeout(ctx, endPatience)
	running.EndBy(ending)
	cancel()
	stderr.End()
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	case !running.State().Success():
		f := cli.Failf("the program failed: %s", running.State())
		if line := output.LastLine(); line != "" {
			f.Message += ": " + line
		}
		return f
	}
	return nil
}

// openServices opens what the definition of a program's agent gives it, if a mesh started this for one: its model and its
// hosts, over the connection of its keeper. Both are nil for an agent that has neither. Nothing that the program may read has
// a key of its keeper below it.
func openServices(ctx context.Context, p *cli.Program, of *client.Client, reads []string) (*keeper.Services, *agents.Connection, error) {
	if p.Env("BCPMESH_DEFINITION") == "" {
		return nil, nil, nil
	}
	folder, def, agent, err := definedAgent(p, "", of.Name)
	if err != nil || !agent.Kept() {
		return nil, nil, err
	}
	switch covering, err := coveredKey(folder, def, &agent, reads); {
	case err != nil:
		return nil, nil, err
	case covering != "":
		return nil, nil, cli.Failf("the program would read %s, which has keys below it", cli.Quoted(covering)).WithHint("give it the folders that it needs, one by one")
	}
	var model llm.Endpoint
	if agent.AsksModel() {
		if model, err = openModel(folder, def, &agent); err != nil {
			return nil, nil, err
		}
	}
	archive, err := folder.Archive(p.Env(meshdir.ArchiveVariable))
	if err != nil {
		return nil, nil, err
	}
	kept, err := connectKeeper(ctx, p, folder, &agent, of.Log)
	if err != nil {
		return nil, nil, err
	}
	k := agents.NewKeeper(kept)
	return keeper.NewServices(nil, keeper.Metered(model, k, &agent, of.Log), keeper.Desks(def, &agent, k, os.LookupEnv, archive)), kept, nil
}
