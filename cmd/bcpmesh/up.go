package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// Where a mesh keeps its state beside its definitions, and what a running one
// leaves there for the client commands to find it.
const (
	stateFolder = ".bcpmesh"
	readyName   = "mesh.json"
)

// stopTimeout is how long a clean end may take.
const stopTimeout = 20 * time.Second

// ready is what a running mesh tells about itself: in the ready file, and in
// the state folder for the client commands.
type ready struct {
	URL   string `json:"url"`
	State string `json:"state"`
	PID   int    `json:"pid"`
}

func upCommand(p *program) *cobra.Command {
	var listen, state, readyFile string
	level := &wordFlag{value: "warn", words: []string{"debug", "info", "warn", "error"}}
	cmd := &cobra.Command{
		Use:   "up [DIR]",
		Short: "Run the mesh of a folder: server, gateway, journal, audit",
		Long: `Run the mesh that a folder declares, until interrupted: the NATS server, the
gateway, the journal, the ledger and the audit.

Agents connect with the files that "bcpmesh creds issue" makes. Everything that
the mesh knows is in its state folder: start it again there and it goes on.
It listens on this machine only.`,
		Example: `  bcpmesh up
  bcpmesh up ./office --listen 127.0.0.1:4222 --ready-file /run/office.json`,
		Args: arguments(0, "DIR"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return up(cmd.Context(), p, dir, state, listen, readyFile, hclog.LevelFromString(level.value))
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:4222", "`HOST:PORT` for agents; port 0 means any free one")
	cmd.Flags().StringVar(&state, "state", "", "`DIR` of keys, journal and audit (default DIR/.bcpmesh)")
	cmd.Flags().StringVar(&readyFile, "ready-file", "", "write {url, state, pid} to `FILE` once everything serves")
	level.addTo(cmd, "log-level", "what to log on stderr")
	return cmd
}

func up(ctx context.Context, p *program, dir, state, listen, readyFile string, level hclog.Level) error {
	def, err := loadDefinition(p, dir)
	if err != nil {
		return err
	}
	if state == "" {
		state = filepath.Join(dir, stateFolder)
	}
	if state, err = filepath.Abs(state); err != nil {
		return failf("the state folder %s: %s", quoted(state), reasonOf(err))
	}
	m, err := mesh.Start(ctx, mesh.Config{
		Definition: def, State: state, Listen: listen, Version: programVersion(),
		Logger: hclog.New(&hclog.LoggerOptions{Name: "bcpmesh", Level: level, Output: p.out.stderr}),
	})
	if err != nil {
		return startFailure(err, listen, state)
	}
	about := ready{URL: m.URL(), State: state, PID: os.Getpid()}
	if err := errors.Join(writeReady(filepath.Join(state, readyName), about), writeReady(readyFile, about)); err != nil {
		return failf("the ready file: %s", reasonOf(errors.Join(err, stopMesh(m))))
	}
	if p.out.json {
		if err := p.out.line(about); err != nil {
			return err
		}
	} else {
		p.out.talkf("mesh %s serves %s and %s at %s", meshName(def), count(len(def.Agents), "agent"), count(len(def.Channels), "channel"), about.URL)
		p.out.talkf("state in %s", state)
		p.out.talkf("give an agent its credentials: bcpmesh creds issue AGENT --out AGENT.creds")
	}
	if err := p.out.stdout.Flush(); err != nil {
		return errors.Join(err, stopMesh(m))
	}

	select {
	case <-ctx.Done():
	case <-m.Done():
	}
	err = stopMesh(m)
	_ = os.Remove(filepath.Join(state, readyName))
	if readyFile != "" {
		_ = os.Remove(readyFile)
	}
	if ctx.Err() == nil || err != nil {
		return failf("the mesh ended: %v", err)
	}
	return nil
}

func stopMesh(m *mesh.Mesh) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return m.Stop(ctx)
}

func meshName(def *bcp.Mesh) string {
	if def.Name == "" {
		return "without a name"
	}
	return def.Name
}

// startFailure says what to do about what commonly keeps a mesh from starting.
func startFailure(err error, listen, state string) error {
	f := failf("the mesh does not start: %s", err)
	switch {
	case errors.Is(err, server.ErrInUse):
		return failf("a mesh runs on %s already", state).withHint("stop it first, or name another folder with --state")
	case errors.Is(err, server.ErrPlaintext):
		return failf("--listen %s can be reached from other machines, and there is no TLS", listen).withHint("listen on 127.0.0.1")
	case errors.Is(err, fs.ErrPermission):
		return f.withHint("%s must belong to you, and be closed to others: chmod 700", state)
	case errors.Is(err, bcp.ErrReplay):
		return f.withHint("the journal was written by another version, or was changed: restore a backup, or start with a new --state")
	}
	return f
}

// loadDefinition loads a folder, or shows everything that is wrong with it.
func loadDefinition(p *program, dir string) (*bcp.Mesh, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, failf("%s: %s", quoted(dir), reasonOf(err)).withHint("bcpmesh init %s makes a mesh there", dir)
	}
	if !info.IsDir() {
		return nil, failf("%s is not a folder", quoted(dir))
	}
	def, report := definition.Load(os.DirFS(dir))
	for _, problem := range report.Errors {
		p.out.talkf("%s:%d:%d: %s", filepath.Join(dir, problem.File), problem.Line, problem.Column, problem.Message)
	}
	if def == nil {
		return nil, failf("%s has %s", quoted(dir), count(len(report.Errors), "error")).withHint("bcpmesh check %s explains", dir)
	}
	if len(def.Agents) == 0 {
		return nil, failf("%s has no agents", quoted(dir)).withHint("bcpmesh init %s makes a mesh there", dir)
	}
	return def, nil
}

// writeReady writes the file whole or not at all.
func writeReady(path string, about ready) error {
	if path == "" {
		return nil
	}
	b, err := json.Marshal(about)
	if err != nil {
		return err
	}
	draft := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	if err := os.WriteFile(draft, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, path)
}

// credsFor makes short-lived credentials for a command that acts as an agent
// of the mesh of this folder.
func credsFor(state string, agent bcp.AgentName, role bcp.Role) (accounts.Creds, error) {
	store, err := accounts.Open(state)
	if err != nil {
		return accounts.Creds{}, failf("the keys in %s: %s", quoted(state), err)
	}
	return store.Issue(agent, role, time.Hour)
}
