package attach

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

const (
	// mailFolder has, in the state folder, a folder for each agent whose mailbox a server has, with the Maildir that it is
	// copied into.
	mailFolder = "mail"
	// mailPatience is how long an agent that starts waits for the newest mail.
	mailPatience = 20 * time.Second
)

// copyMail copies the mailbox of an agent until end is called, and returns its Maildir. An agent whose mailbox no server has
// has none. What was copied of another mailbox is removed.
func copyMail(ctx context.Context, folder meshdir.Folder, def *bcp.Mesh, agent *bcp.Agent, state string, log hclog.Logger) (maildir []string, end func(), err error) {
	all, name := filepath.Join(state, mailFolder, string(agent.Name)), ""
	var server guard.MailServer
	if slices.Contains(agent.Tools, mailbox.Name) && guard.IsMailServer(agent.Mailbox) {
		if server, err = guard.ParseMailServer(agent.Mailbox); err != nil {
			return nil, nil, cli.Failf("the mailbox of %s: %s", agent.Name, err)
		}
		digest := sha256.Sum256([]byte(server.User + "\n" + server.Target.Authority() + "\n" + server.Mailbox))
		name = hex.EncodeToString(digest[:8])
	}
	if err := removeOthers(all, name); err != nil {
		return nil, nil, cli.Failf("the mail of %s: %s", agent.Name, cli.FileReason(err))
	}
	if name == "" {
		return nil, func() {}, nil
	}
	key := func() (string, error) { return folder.MailKey(agent.MailboxKey) }
	if _, err := key(); err != nil {
		return nil, nil, cli.Failf("%s: %s", agent.Name, err)
	}
	path, err := filepath.Abs(filepath.Join(all, name))
	if err != nil {
		return nil, nil, cli.Failf("the mail of %s: %s", agent.Name, cli.FileReason(err))
	}
	copier, err := mailbox.NewCopier(mailbox.CopyOptions{
		Server: server, Key: key, Folder: path, Logger: log,
		Dialer: &fetch.Dialer{Policy: fetch.Policy([]string{server.Target.Authority()}, os.LookupEnv), Addresses: def.AllowAddresses, Resolver: fetch.NewResolver()},
	})
	if err != nil {
		return nil, nil, cli.Failf("the mail of %s: %s", agent.Name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		copier.Run(ctx)
	}()
	select {
	case <-copier.Looked():
	case <-ctx.Done():
	case <-time.After(mailPatience):
		log.Info("the mailbox is still being copied, the newest messages first")
	}
	return []string{path}, func() {
		cancel()
		<-ended
	}, nil
}

// removeOthers removes what is in a folder under other names, and the folder if nothing is left.
func removeOthers(folder, name string) error {
	entries, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != name {
			if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return err
}

// listMCPTools are the tools of MCP servers that an agent has, in the operator's words.
func listMCPTools(def *bcp.Mesh, agent *bcp.Agent) []cell.MCPTool {
	var tools []cell.MCPTool
	for _, name := range agent.Tools {
		if _, t := def.MCPTool(name); t != nil {
			tools = append(tools, cell.MCPTool{Name: t.Name, Description: t.Description, Schema: jsontext.Value(t.InputSchema)})
		}
	}
	return tools
}

// mcpDesk calls the tools of MCP servers that an agent has. Its servers are started when they are called. changed is told
// once of each tool that is not as it was pinned.
func mcpDesk(folder meshdir.Folder, def *bcp.Mesh, agent *bcp.Agent, log hclog.Logger, changed func()) (*wrap.Desk, error) {
	var told sync.Map // by tool
	return wrap.NewDesk(def, agent.Tools, func(ctx context.Context, s *bcp.MCPServer) (*wrap.Upstream, error) {
		u, err := startServer(ctx, folder, s)
		if err != nil && ctx.Err() == nil {
			log.Error("an MCP server does not run", "server", string(s.Name), "error", err)
		}
		return u, err
	}, wrap.DeskTimeout, func(tool string) {
		log.Error("a tool differs from its pin and was not called", "tool", tool)
		if _, before := told.LoadOrStore(tool, true); !before {
			changed()
		}
	})
}

// tellTime bounds how long a call waits for the mesh to hear that its tool has changed.
const tellTime = 10 * time.Second

// toldOfTool has people told that a tool has changed: the record is the alert.
func toldOfTool(ctx context.Context, k *agents.Keeper, log hclog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	if err := k.Egress(ctx, bcp.EgressRequest{Act: bcp.EgressRefuse, Code: guard.ToolChanged}); err != nil {
		log.Error("operators could not be told that a tool has changed", "error", err)
	}
}

// startServer starts a server, or connects to it.
func startServer(ctx context.Context, folder meshdir.Folder, s *bcp.MCPServer) (*wrap.Upstream, error) {
	if s.URL == "" {
		program, err := mcpProgram(folder, s)
		if err != nil {
			return nil, err
		}
		return wrap.Start(ctx, program)
	}
	return dialServer(ctx, folder, s)
}

// dialServer connects to a server at a URL.
func dialServer(ctx context.Context, folder meshdir.Folder, s *bcp.MCPServer) (*wrap.Upstream, error) {
	key, err := folder.Key(s.Key, "the key of the server")
	if err != nil {
		return nil, err
	}
	u, err := wrap.Dial(ctx, wrap.Remote{URL: s.URL, Key: key})
	if errors.Is(err, wrap.ErrKey) && s.Key != "" {
		err = fmt.Errorf("%w: look at %s", err, s.Key)
	}
	return u, err
}

// mcpProgram says how a server is started: in the folder of the mesh, with what it may have of the environment. Nothing that
// it prints is logged.
func mcpProgram(folder meshdir.Folder, s *bcp.MCPServer) (wrap.Program, error) {
	dir, err := filepath.Abs(folder.Dir)
	program := wrap.Program{Command: s.Command, Dir: dir, Env: process.Scrub(os.Environ())}
	if err != nil {
		return program, err
	}
	for _, name := range s.Environment {
		if value, there := os.LookupEnv(name); there {
			program.Env = append(program.Env, name+"="+value)
		}
	}
	if s.Sandbox != bcp.SandboxRequired {
		return program, nil
	}
	confined, err := confinable(s.Command, program.Env, nil, dir)
	if err != nil {
		return program, err
	}
	if covering := meshdir.Covers(confined.Reads(), folder.State); covering != "" {
		return program, cli.Failf("it would read %s, which has the keys of the mesh below it", cli.Quoted(covering))
	}
	cmd, err := Confined(confined)
	if err != nil {
		return program, err
	}
	program.Command = append([]string{cmd.Path}, cmd.Args[1:]...)
	return program, nil
}
