package keeper

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Options say which agent is run by its model, and what its cell may have.
type Options struct {
	Definition *bcp.Mesh
	Agent      *bcp.Agent
	Role       bcp.Role // a Reader or a Controller
	Task       string   // of a Controller; empty: what its definition says
	// Connection is the agent's, and Kept that of its keeper: each call of the model and each request to a host is recorded
	// over it before it is sent.
	Connection, Kept *agents.Connection
	Model            llm.Endpoint
	// Start starts the cell, such as [InProcess]. The agent is served over its door.
	Start    func(context.Context) (Cell, error)
	Confined bool // whether the cell has to be confined before it reads anything

	Files   []string       // that its tools read, by path
	Mailbox string         // a path too
	Archive *fetch.Archive // answers in the place of the network; nil is the network
	// LookUp finds the variables of the environment that hosts in definitions name. Nil finds none.
	LookUp func(string) (string, bool)
	// MCP are its tools of MCP servers, which CallTools calls. Nil calls none.
	MCP       []cell.MCPTool
	CallTools func(context.Context, tool.Call) tool.Result
	// Record takes a transcript of the model's calls: nothing goes on that it does not take. Nil takes none.
	Record  io.Writer
	Aside   []string     // inputs that ended cells before this one, which it is not to read
	Version string       // of the program
	Logger  hclog.Logger // nil is silent
}

// Cell is a started cell: our ends of its door, and what ends it and waits for that.
type Cell struct {
	In  io.WriteCloser
	Out io.ReadCloser
	End func()
}

// Result is what came of a keeper.
type Result struct {
	Done     cell.Done // of a task
	Finished bool      // there was a task, and it is done
	// Aside are the inputs that no cell is to read if this one has ended by itself.
	Aside []string
}

// ErrEnded is the error of a cell that has ended by itself.
var ErrEnded = errors.New("keeper: the cell has ended")

// Run runs an agent with its model, until ctx ends, its task is done, or its cell ends.
func Run(ctx context.Context, o Options) (r Result, err error) {
	o.Logger = cmp.Or[hclog.Logger](o.Logger, hclog.NewNullLogger())
	k := agents.NewKeeper(o.Kept)
	model := Metered(o.Model, k, o.Agent, o.Logger)
	if o.Record != nil {
		if model.Provider, err = wires.NewRecorder(model.Provider, o.Record); err != nil {
			return r, err
		}
	}
	services := NewServices(cell.Configuration{
		Agent: o.Agent.Name, Role: o.Role, Task: o.Task, Instructions: o.Agent.Prompt, Model: model.Model, Tools: o.Agent.Tools, MCP: o.MCP, Files: o.Files, Mailbox: o.Mailbox,
		MaxTurns: o.Agent.Run.MaxTurns, MaxTokens: o.Agent.Run.MaxTokens, Confined: o.Confined,
	}, model, Desks(o.Definition, o.Agent, k, o.LookUp, o.Archive))
	services.Tools, services.aside = o.CallTools, o.Aside
	serving, end := context.WithCancel(ctx)
	defer end()
	door, err := o.Start(serving)
	if err != nil {
		return r, err
	}
	defer context.AfterFunc(serving, func() { _, _ = door.In.Close(), door.Out.Close() })() // also if the cell reads no more
	methods := services.Methods()
	if o.Task != "" {
		methods["done"] = func(_ context.Context, params jsontext.Value) (any, error) {
			if err := json.Unmarshal(params, &r.Done, json.RejectUnknownMembers(true)); err != nil {
				return nil, errParams
			}
			r.Finished = true
			end()
			return struct{}{}, nil
		}
	}
	err = stdio.Serve(serving, stdio.Agent{
		Connection: o.Connection, Name: o.Agent.Name, Role: o.Role, Version: o.Version, Logger: o.Logger,
		Methods: methods, Rooms: services.Rooms(), MaxLine: MaxLine,
	}, door.Out, door.In)
	_, _ = door.In.Close(), door.Out.Close()
	door.End()
	r.Aside = services.Aside()
	switch {
	case ctx.Err() != nil, r.Finished:
		return r, nil
	case err != nil:
		return r, err
	}
	return r, ErrEnded
}

// InProcess runs a cell in this process. Nothing confines it: a hijacked parser has all that the process has.
func InProcess(ctx context.Context) (Cell, error) {
	toCell, fromKeeper := io.Pipe()
	toKeeper, fromCell := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = fromCell.CloseWithError(cell.Run(ctx, toCell, fromCell, nil)) // the keeper sees that it ended
	}()
	return Cell{In: fromKeeper, Out: toKeeper, End: func() {
		cancel()
		<-ended
	}}, nil
}

// Metered has each call of an agent's model recorded before it is made, and reports when its calls fail. No model stays none.
func Metered(m llm.Endpoint, k *agents.Keeper, agent *bcp.Agent, log hclog.Logger) llm.Endpoint {
	if m.Provider == nil {
		return m
	}
	report := func(ctx context.Context, fault bcp.ModelFault, said string) error {
		return k.Usage(ctx, bcp.UsageRequest{Act: bcp.UsageReport, ModelFault: fault, Said: said})
	}
	return wires.Each(m, func(one llm.Provider) llm.Provider {
		return NewHealth(report, log, NewMeter(k, agent.Model, one))
	})
}

// Desks makes the desks of an agent that may reach hosts, by its definition; nil for others.
func Desks(def *bcp.Mesh, agent *bcp.Agent, k *agents.Keeper, lookUp func(string) (string, bool), archive *fetch.Archive) func() (*fetch.Desk, error) {
	if len(agent.Egress.Hosts) == 0 {
		return nil
	}
	if lookUp == nil {
		lookUp = func(string) (string, bool) { return "", false }
	}
	o := fetch.Options{
		Policy: fetch.Policy(agent.Egress.Hosts, lookUp), StartURLs: agent.Egress.StartURLs,
		LinksOnly: agent.Egress.LinksOnly, Addresses: def.AllowAddresses, Ledger: NewLedger(k),
	}
	if archive != nil {
		o.Resolver, o.Transport = archive, archive
	}
	return func() (*fetch.Desk, error) { return fetch.NewDesk(o) }
}
