package agents

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Handlers do the calls of a service's tools, by the tool's name.
type Handlers map[string]func(context.Context, Call) (any, error)

// Do does a call with the handler of its tool. One of another tool is not performed.
func (h Handlers) Do(ctx context.Context, call Call) (any, error) {
	if do := h[call.Tool]; do != nil {
		return do(ctx, call)
	}
	return nil, &NotPerformedError{Err: errors.New("there is no such tool")}
}

// ToolFunc makes a handler from a function that takes the arguments as a Go value. The
// names of its fields match those of the input schema in any case. If the arguments do
// not fit the type, the call was not performed.
func ToolFunc[A any](do func(ctx context.Context, call Call, args A) (any, error)) func(context.Context, Call) (any, error) {
	return func(ctx context.Context, call Call) (any, error) {
		var args A
		if err := json.Unmarshal(call.Args, &args, json.MatchCaseInsensitiveNames(true), json.RejectUnknownMembers(true)); err != nil {
			return nil, &NotPerformedError{Err: err}
		}
		return do(ctx, call, args)
	}
}

// ServeTools is a complete program that serves tools. A mesh that starts it, as the
// command of a service, gives it address and creds in the environment (BCPMESH_URL,
// BCPMESH_CA, BCPMESH_AGENT and BCPMESH_TOOL_CREDS), which env looks up: os.Getenv.
// Outcomes are remembered in a file (see [OpenOutcomes]). It returns nil when the process
// is interrupted or terminated.
func ServeTools(env func(string) string, outcomes string, tools Handlers) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := Options{Name: bcp.AgentName(env("BCPMESH_AGENT"))}
	if ca := env("BCPMESH_CA"); ca != "" {
		o.NATS = append(o.NATS, nats.RootCAs(ca))
	}
	c, err := Connect(ctx, env("BCPMESH_URL"), CredsFile(env("BCPMESH_TOOL_CREDS")), o)
	if err != nil {
		return err
	}
	defer c.Close()
	done, err := OpenOutcomes(outcomes)
	if err != nil {
		return err
	}
	tool := NewTool(c, done, tools.Do)
	if err := tool.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return tool.Stop(context.WithoutCancel(ctx))
}
