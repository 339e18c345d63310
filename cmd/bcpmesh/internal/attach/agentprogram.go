package attach

import (
	"context"
	"os"
	"time"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/sandbox"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// endPatience is how long a program may take to end after its stdin was closed.
const endPatience = 3 * time.Second

// keepProgram starts a program confined, and serves it over its stdin and stdout until one of the two ends.
func keepProgram(ctx context.Context, p *cli.Program, o client.AgentFlags, read, command []string) error {
	if err := sandbox.Detect().Missing(); err != nil {
		return cli.Failf("the program cannot be confined, and is not started: %s", err).WithHint(sandbox.Remedy)
	}
	env := process.Scrub(os.Environ())
	path, err := process.LookUp(command[0], env)
	if err != nil {
		return cli.Failf("there is no program %s in PATH", cli.Quoted(command[0])).WithHint("install it, or write its path: ./%s", command[0])
	}
	read = append(read, namedFiles(command[1:])...)
	if definition := p.Env("BCPMESH_DEFINITION"); definition != "" {
		read = append(read, definition)
		env = append(env, "BCPMESH_DEFINITION="+definition)
	}
	if covering := meshdir.Covers(append(append(sandbox.System(), path), read...), o.Creds); covering != "" {
		return cli.Failf("the program would read %s, where the agent's own credentials are", cli.Quoted(covering)).WithHint("give it the folders that it needs, one by one")
	}
	agent, err := o.Connect(ctx, p, "agent", stdio.MaxHandlers)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	local, err := openLocal(ctx, p, agent, append(append(sandbox.System(), path), read...))
	if err != nil {
		return err
	}
	defer local.close()
	env = append(append(env, local.environment()...), "BCPMESH_AGENT="+string(agent.Name), "BCPMESH_DOOR=stdio")
	cmd, err := cell.Confined(sandbox.Spec{Path: path, Args: command, Read: read, Memory: sandbox.DefaultMemory, Local: local != nil})
	if err != nil {
		return err
	}
	if err := local.prepare(cmd); err != nil {
		return err
	}
	ours, theirs, err := streams()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, ours.close)()
	output := process.NewOutput(agent.Log)
	defer output.End()
	stderr := output.Stderr()
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, theirs.in, theirs.out, stderr
	running, err := process.Start(cmd)
	theirs.close()
	switch {
	case err != nil && local != nil && !sandbox.UserNamespaces():
		return cli.Failf("the program is not started: it has a model or hosts, so it needs a network of its own, and this user may not create user namespaces")
	case err != nil:
		return cli.Failf("the program cannot be started: %s", process.Reason(err))
	}
	serving, endServing := context.WithCancel(ctx)
	defer endServing()
	local.serve(serving, running)
	err = stdio.Serve(ctx, stdio.Agent{
		Connection: agent.Conn, Name: agent.Name, Role: agent.Role, Version: cli.ProgramVersion(), Logger: agent.Log,
	}, ours.in, ours.out)
	ours.close()
	end(ctx, running)
	stderr.End()
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return meshdir.Failure(err)
	case !running.State().Success():
		f := cli.Failf("the program failed: %s", running.State())
		if line := output.LastLine(); line != "" {
			f.Message += ": " + line
		}
		return f
	}
	return nil
}

// end waits for a program whose streams are closed, and ends it if that takes long or ctx ends.
func end(ctx context.Context, running *process.Process) {
	timer := time.NewTimer(endPatience)
	defer timer.Stop()
	select {
	case <-running.Done():
	case <-timer.C:
	case <-ctx.Done():
	}
	running.Kill()
	<-running.Done()
}

// namedFiles are the words of a command that name files, which it may read.
func namedFiles(words []string) []string {
	var files []string
	for _, word := range words {
		if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
			files = append(files, word)
		}
	}
	return files
}

// ends are one side of two pipes.
type ends struct{ in, out *os.File }

func (e ends) close() {
	_ = e.in.Close() // or it was closed before
	_ = e.out.Close()
}

// streams returns the two sides of a door.
func streams() (ours, theirs ends, err error) {
	if theirs.in, ours.out, err = os.Pipe(); err != nil {
		return ours, theirs, err
	}
	if ours.in, theirs.out, err = os.Pipe(); err != nil {
		_ = theirs.in.Close()
		_ = ours.out.Close()
	}
	return ours, theirs, err
}
