package notify

import (
	"bytes"
	"context"
	"os/exec"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// run runs the command of a route with the message on its stdin, and waits for it.
func run(ctx context.Context, route *bcp.Route, place Place, m *Message, logger hclog.Logger) error {
	input, err := json.Marshal(m)
	if err != nil {
		return failure("the message cannot be written")
	}
	env := process.Scrub(place.Environ)
	path, err := process.LookUp(route.Command[0], env)
	if err != nil {
		return failure("the command is " + process.Reason(err))
	}
	output := process.NewOutput(logger)
	stdout, stderr := output.Stdout(), output.Stderr()
	p, err := process.Start(&exec.Cmd{Path: place.path(path), Args: route.Command, Env: env, Dir: place.Folder, Stdin: bytes.NewReader(append(input, '\n')), Stdout: stdout, Stderr: stderr})
	if err != nil {
		return failure("the command is " + process.Reason(err))
	}
	defer func() { stdout.End(); stderr.End(); output.End() }()
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		<-p.Done()
		return failure("the command did not end in time")
	}
	if state := p.State(); !state.Success() {
		return failure("the command ended with " + state.String())
	}
	return nil
}
