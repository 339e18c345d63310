package researchdesk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
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
		k := keeper.Options{Definition: o.Definition, Agent: &agent, Role: bcp.RoleReader, Start: keeper.InProcess, Mailbox: o.Mail, Archive: o.Archive, Version: "example", Logger: o.Logger}
		if name == Editor {
			k.Role, k.Task = bcp.RoleController, task
		}
		if err := o.connect(ctx, &k); err != nil {
			closeBoth(&k)
			return "", fmt.Errorf("researchdesk: %s: %w", name, err)
		}
		seats.Go(func() {
			defer closeBoth(&k)
			switch r, err := keeper.Run(ctx, k); {
			case r.Finished:
				done <- r.Done
			case err != nil && ctx.Err() == nil:
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

// connect opens the model of an agent, and connects as it and as its keeper.
func (o *Options) connect(ctx context.Context, k *keeper.Options) (err error) {
	if k.Model, err = o.Model(k.Agent); err != nil {
		return err
	}
	as := func(role bcp.Role) (*agents.Connection, error) {
		creds, err := o.Credentials(k.Agent.Name, role)
		if err != nil {
			return nil, err
		}
		return agents.Connect(ctx, o.URL, creds, agents.Options{Name: k.Agent.Name, Logger: o.Logger, Handlers: 1})
	}
	if k.Connection, err = as(k.Role); err != nil {
		return err
	}
	k.Kept, err = as(bcp.RoleKeeper)
	return err
}

func closeBoth(k *keeper.Options) {
	for _, c := range []*agents.Connection{k.Connection, k.Kept} {
		if c != nil {
			c.Close()
		}
	}
}
