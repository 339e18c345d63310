package researchdesk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Timeout bounds the work on a task.
const Timeout = 10 * time.Minute

// Options say where the mesh is, and what the agents have.
type Options struct {
	URL        string
	Definition *bcp.Mesh
	// Credentials and Model are asked for each agent.
	Credentials func(bcp.AgentName, bcp.Role) (agents.Credentials, error)
	Model       func(*bcp.Agent) (llm.Endpoint, error)
	Mail        string // the Maildir
	// Archive answers in the place of the network; nil is the network.
	Archive *fetch.Archive
	Logger  hclog.Logger // nil is silent
	// Trace is told what passes between the halves of each agent, as in [stdio.Agent]. Nil traces nothing.
	Trace func(bcp.AgentName) func(stdio.Passage) error
}

// Work has the editor work on a task, with the Readers in their seats, and returns what it says in the end: something that
// was heard. Each agent is a keeper and a cell, as ever, but in one process: nothing confines the cells.
func Work(ctx context.Context, o Options, task string) (string, error) {
	ctx, end := context.WithTimeout(ctx, Timeout)
	defer end()
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	done := make(chan cell.Done, 1)
	gone := make(chan error, 3)
	var seats sync.WaitGroup
	defer seats.Wait()
	defer end()
	for _, name := range []bcp.AgentName{WebReader, MailReader, Editor} {
		agent, ok := o.Definition.Agent(name)
		if !ok {
			return "", fmt.Errorf("researchdesk: the mesh has no %s", name)
		}
		s := seat{Options: o, agent: &agent, role: bcp.RoleReader, ended: func(d cell.Done) { done <- d }}
		if name == Editor {
			s.role, s.task = bcp.RoleController, task
		}
		if err := s.connect(ctx); err != nil {
			s.close()
			return "", fmt.Errorf("researchdesk: %s: %w", name, err)
		}
		seats.Go(func() {
			defer s.close()
			if err := s.serve(ctx); err != nil && ctx.Err() == nil {
				gone <- fmt.Errorf("researchdesk: %s: %w", name, err)
			}
		})
	}
	select {
	case d := <-done:
		if d.Failed != "" {
			return "", errors.New("researchdesk: the editor: " + d.Failed)
		}
		return d.Said, nil
	case err := <-gone:
		return "", err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// seat is one agent: its keeper and its cell.
type seat struct {
	Options
	agent *bcp.Agent
	role  bcp.Role
	task  string // of the editor
	ended func(cell.Done)

	connections []*agents.Connection // as the agent, then as its keeper
	services    *keeper.Services
}

func (s *seat) connect(ctx context.Context) error {
	model, err := s.Model(s.agent)
	if err != nil {
		return err
	}
	for _, role := range []bcp.Role{s.role, bcp.RoleKeeper} {
		creds, err := s.Credentials(s.agent.Name, role)
		if err != nil {
			return err
		}
		c, err := agents.Connect(ctx, s.URL, creds, agents.Options{Name: s.agent.Name, Logger: s.Logger, Handlers: 1})
		if err != nil {
			return err
		}
		s.connections = append(s.connections, c)
	}
	model = wires.Each(model, func(one llm.Provider) llm.Provider {
		return keeper.NewMeter(agents.NewKeeper(s.connections[1]), s.agent.Model, one)
	})
	s.services = keeper.NewServices(cell.Configuration{
		Agent: s.agent.Name, Role: s.role, Task: s.task, Instructions: s.agent.Prompt, Model: model.Model, Tools: s.agent.Tools, Mailbox: s.Mail, Feeds: s.agent.Feeds,
		MaxTurns: s.agent.Run.MaxTurns, MaxTokens: s.agent.Run.MaxTokens,
	}, model, s.desk())
	return nil
}

// desk makes the desk of each conversation.
func (s *seat) desk() func() (*fetch.Desk, error) {
	if len(s.agent.Egress.Hosts) == 0 {
		return nil
	}
	e := s.agent.Egress
	o := fetch.Options{
		Agent: string(s.agent.Name), Policy: fetch.Policy(e.Hosts, func(string) (string, bool) { return "", false }), StartURLs: append(e.StartURLs[:len(e.StartURLs):len(e.StartURLs)], s.agent.Feeds...),
		LinksOnly: e.LinksOnly, Addresses: s.Definition.AllowAddresses, Ledger: keeper.NewLedger(agents.NewKeeper(s.connections[1])),
	}
	if s.Archive != nil {
		o.Resolver, o.Transport = s.Archive, s.Archive
	}
	return func() (*fetch.Desk, error) { return fetch.NewDesk(o) }
}

// serve runs the cell behind its door until ctx ends.
func (s *seat) serve(ctx context.Context) error {
	toCell, fromKeeper := io.Pipe()
	toKeeper, fromCell := io.Pipe()
	defer context.AfterFunc(ctx, func() { _, _ = fromKeeper.Close(), fromCell.Close() })()
	running := make(chan error, 1)
	go func() {
		err := cell.Run(ctx, toCell, fromCell, nil)
		_ = fromCell.CloseWithError(err)
		running <- err
	}()
	methods := s.services.Methods()
	methods["done"] = func(_ context.Context, params jsontext.Value) (any, error) {
		var d cell.Done
		if err := json.Unmarshal(params, &d); err != nil {
			return nil, err
		}
		s.ended(d)
		return struct{}{}, nil
	}
	var trace func(stdio.Passage) error
	if s.Trace != nil {
		trace = s.Trace(s.agent.Name)
	}
	err := stdio.Serve(ctx, stdio.Agent{Trace: trace, Connection: s.connections[0], Name: s.agent.Name, Role: s.role, Version: "example", Logger: s.Logger, Methods: methods, Rooms: s.services.Rooms(), MaxLine: keeper.MaxLine}, toKeeper, fromKeeper)
	_ = fromKeeper.Close()
	return errors.Join(err, <-running)
}

func (s *seat) close() {
	for _, c := range s.connections {
		c.Close()
	}
}
