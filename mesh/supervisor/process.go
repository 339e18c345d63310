package supervisor

import (
	"errors"
	"os/exec"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/process"
)

// running is one started process, with its output.
type running struct {
	*process.Process
	out  *process.Output
	done chan struct{} // closed when it is gone and its output was logged
}

// start starts a program with exactly this environment. The error is for
// [process.Reason].
func start(program Program, env []string, logger hclog.Logger) (*running, error) {
	if len(program.Command) == 0 {
		return nil, errors.New("the command is empty")
	}
	out := process.NewOutput(logger)
	stdout, stderr := out.Stdout(), out.Stderr()
	p, err := process.Start(&exec.Cmd{Args: program.Command, Env: env, Dir: program.Dir, Stdout: stdout, Stderr: stderr})
	if err != nil {
		return nil, err
	}
	r := &running{Process: p, out: out, done: make(chan struct{})}
	go func() {
		<-p.Done()
		stdout.End()
		stderr.End()
		out.End()
		close(r.done)
	}()
	return r, nil
}
