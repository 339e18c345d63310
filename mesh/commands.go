package mesh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/mesh/supervisor"
)

const (
	// commandFolder is the folder, in the state folder, of the credentials of agents that the mesh itself starts.
	commandFolder = "run"
	// inMemory is the file in it that names the folder in memory that has them instead, where keys are sealed.
	inMemory = "in-memory"
	// memory is the folder whose files are on no disk, and memoryPrefix begins what we make there.
	memory       = "/dev/shm"
	memoryPrefix = "bcpmesh-run-"
)

// makeCommandFolder makes the folder of credentials, without those that a killed mesh left, and returns its absolute
// path. Where the keys of a state folder are sealed, nothing that opens the mesh lies on its disk in the clear, and the
// folder is in memory. Of systems that have no such place the error is [ErrNoMemory].
func makeCommandFolder(state string, sealed bool) (string, error) {
	folder, err := filepath.Abs(filepath.Join(state, commandFolder))
	if err = errors.Join(err, removeCommandFolder(state)); err != nil || !sealed {
		return folder, err
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil || !strings.Contains(string(mounts), " "+memory+" tmpfs ") {
		return "", ErrNoMemory
	}
	made, err := os.MkdirTemp(memory, memoryPrefix)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", errors.Join(err, os.Remove(made))
	}
	if err := os.WriteFile(filepath.Join(folder, inMemory), []byte(made), 0o600); err != nil {
		return "", errors.Join(err, os.Remove(made))
	}
	return made, nil
}

// RemoveCommandCreds removes the credentials of agents that a killed mesh has left. If a mesh
// runs on the state folder, the error wraps [server.ErrInUse].
func RemoveCommandCreds(state string) error {
	lock, err := server.Lock(state, server.ServerLock)
	if err != nil {
		return err
	}
	return errors.Join(removeCommandFolder(state), lock.Close())
}

// removeCommandFolder removes the folder of credentials, also the one in memory.
func removeCommandFolder(state string) error {
	folder := filepath.Join(state, commandFolder)
	content, err := os.ReadFile(filepath.Join(folder, inMemory))
	switch made := string(content); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && filepath.Dir(made) == memory && strings.HasPrefix(filepath.Base(made), memoryPrefix):
		if err := os.RemoveAll(made); err != nil {
			return err
		}
	}
	return os.RemoveAll(folder)
}

// ErrNoMemory says that the keys are sealed, and that the system has no folder in memory for the credentials of commands.
var ErrNoMemory = errors.New("the keys are sealed, and this system has no folder in memory for the credentials of the agents that the mesh starts")

// commands runs the commands in agents' definitions (PROTOCOL P9.2).
type commands struct {
	mesh       *Mesh
	folder     string // of the credentials, absolute
	supervisor *supervisor.Supervisor

	mu      sync.Mutex
	issued  map[string]server.Party // files written by this mesh, and their owners
	resting map[bcp.AgentName]restingCommand
}

// restingCommand describes an agent whose command ended successfully although work is
// waiting for it.
type restingCommand struct {
	waits []string // the work that waited when it ended
	ends  int      // how often in a row it left the same work
	again *time.Timer
}

// startCommands starts the commands of a mesh that serves. Without a folder to
// run them in, it starts none.
func (m *Mesh) startCommands() error {
	if m.config.Folder == "" {
		return nil
	}
	sealed := false
	if m.store != nil { // it is nil on a cluster
		var err error
		if sealed, err = m.store.Sealed(); err != nil {
			return fmt.Errorf("start the commands: %w", err)
		}
	}
	folder, err := makeCommandFolder(m.config.State, sealed)
	if errors.Is(err, ErrNoMemory) {
		m.config.Logger.Warn("no agent's command is started", "reason", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("start the commands: %w", err)
	}
	c := &commands{mesh: m, folder: folder, issued: map[string]server.Party{}, resting: map[bcp.AgentName]restingCommand{}}
	c.supervisor = supervisor.New(supervisor.Config{
		Logger: m.config.Logger.Named("agents"), Environ: m.config.Environ, Prepare: c.prepare, OnChange: c.changed,
	})
	m.running.Store(c)
	m.onStop(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), commandGrace)
		defer cancel()
		return errors.Join(c.supervisor.Stop(ctx), removeCommandFolder(m.config.State))
	})
	m.runEvery(commandRenewal, func(context.Context) { // a leaked copy soon expires
		if err := c.renew(); err != nil {
			m.config.Logger.Error("renewing the credentials of commands", "error", err)
		}
	})
	c.use(m.definition.Load())
	return nil
}

const (
	// commandCreds is how long the credentials of a command are good, and
	// commandRenewal how long until others are written over them.
	commandCreds   = 48 * time.Hour
	commandRenewal = commandCreds / 2
)

// commandGrace is how long commands may take to end with their mesh.
const commandGrace = 5 * time.Second

// use switches to the commands of other definitions.
func (c *commands) use(def *bcp.Mesh) {
	var programs []supervisor.Program
	for i := range def.Agents {
		a := &def.Agents[i]
		command, more := c.mesh.config.agentCommand(a), []string(nil)
		if keeps(a) {
			more = c.ofKeeper(def, a)
		}
		if len(command) > 0 {
			programs = append(programs, supervisor.Program{Agent: a.Name, Command: command, Dir: c.mesh.config.Folder, Env: append(more,
				"BCPMESH_AGENT="+string(a.Name),
				"BCPMESH_ENCODING="+a.Encoding.String(),
				"BCPMESH_DEFINITION="+filepath.Join(c.mesh.config.Folder, filepath.FromSlash(a.File)),
			)})
		}
	}
	for i := range def.Services {
		s := &def.Services[i]
		programs = append(programs, supervisor.Program{Agent: s.Name, Command: s.Command, Dir: c.mesh.config.Folder, Env: append(c.environment(s.Environment), "BCPMESH_AGENT="+string(s.Name))})
	}
	c.supervisor.Set(programs)
}

// Environment variables of the mesh that apply to all agents that it runs with a model.
const (
	// ModelVariable names a model that all of them use instead of their own.
	ModelVariable = "BCPMESH_MODEL"
	// ArchiveVariable names a folder of saved pages that replaces the network.
	ArchiveVariable = "BCPMESH_ARCHIVE"
	// PassphraseVariable names a file with the passphrase of keys.
	PassphraseVariable = "BCPMESH_PASSPHRASE_FILE"
)

// keeps reports whether an agent's program is also its keeper.
func keeps(a *bcp.Agent) bool {
	return a.Builtin || a.Sandbox == bcp.SandboxRequired && len(a.Command) > 0 && a.Kept()
}

// KeyPlaces returns the places of the keys that an agent's keeper reads, as written in
// definitions: those of its model, its mailbox and its MCP servers.
func KeyPlaces(def *bcp.Mesh, a *bcp.Agent) []string {
	var places []string
	if model, ok := def.ModelOf(a.Model); ok && a.AsksModel() {
		places = append(places, model.Key)
	}
	if a.Builtin {
		places = append(places, a.MailboxKey)
		for _, tool := range a.Tools {
			if server, _ := def.MCPTool(tool); server != nil {
				places = append(places, server.Key)
			}
		}
	}
	return places
}

// ofKeeper returns the additional variables of an agent's keeper: its keys, other needs
// of its MCP servers, variables of our environment for all keepers, if set, and digests
// of the agent's definition, so that a change restarts it.
func (c *commands) ofKeeper(def *bcp.Mesh, a *bcp.Agent) []string {
	passed := []string{ModelVariable, ArchiveVariable, guard.AllowVariable, "SSL_CERT_FILE", "SSL_CERT_DIR"} // the last two are for trusted certificates
	for _, place := range KeyPlaces(def, a) {
		switch kind, where, _ := strings.Cut(place, ":"); {
		case kind == "env":
			passed = append(passed, where)
		case kind == "command": // a password store, open in the user's session
			passed = append(passed, "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
		case strings.HasSuffix(where, ".age"):
			passed = append(passed, PassphraseVariable)
		}
	}
	for _, tool := range a.Tools {
		if server, _ := def.MCPTool(tool); server != nil && a.Builtin {
			passed = append(passed, server.Environment...)
		}
	}
	env := c.environment(passed)
	for _, f := range def.Files {
		if f.Path == a.File || f.Path == "mesh.yaml" {
			env = append(env, fmt.Sprintf("BCPMESH_DIGEST_%d=%x", len(env), f.SHA256))
		}
	}
	return env
}

// environment returns the variables of our environment with these names.
func (c *commands) environment(names []string) []string {
	var env []string
	for _, entry := range c.mesh.config.Environ {
		if key, _, _ := strings.Cut(entry, "="); slices.Contains(names, key) {
			env = append(env, entry)
		}
	}
	return env
}

// agentCommand returns the command to start for an agent, or nothing if it is not
// accepted or not possible.
func (c *Config) agentCommand(a *bcp.Agent) []string {
	switch {
	case a.Sandbox == "", a.OnDemand: // not accepted, or waits for a task
		return nil
	case a.Builtin && len(c.Builtin) > 0:
		return append(slices.Clone(c.Builtin), string(a.Name))
	case len(a.Command) == 0:
		return nil
	case a.Sandbox != bcp.SandboxRequired:
		return a.Command
	case len(c.Keeper) == 0:
		c.Logger.Warn("an agent's command is to be confined, and nothing here does so: it is not started", "agent", string(a.Name))
		return nil
	}
	command := slices.Clone(c.Keeper)
	for _, name := range a.Files {
		command = append(command, "--read="+name)
	}
	return slices.Concat(command, []string{"--"}, a.Command)
}

// FindCommand returns a function that says, in words for people, why a command
// cannot be started in a folder of definitions; environ is this program's
// environment.
func FindCommand(folder string, environ []string) func([]string, bcp.Sandbox) error {
	return func(command []string, confinedBy bcp.Sandbox) error {
		if confinedBy == bcp.SandboxRequired {
			if err := process.DetectSandbox().Missing(); err != nil {
				return fmt.Errorf("%w: %s", err, process.SandboxRemedy)
			}
		}
		return supervisor.Find(supervisor.Program{Command: command, Dir: folder}, environ)
	}
}

// prepare gives a command the address to connect to and the creds of its agent,
// one file for each role.
func (c *commands) prepare(p supervisor.Program) ([]string, error) {
	mesh := c.mesh.definition.Load()
	def, known := mesh.Agent(p.Agent)
	def.Name = p.Agent
	roles := agentRoles(mesh, &def)
	if !known && len(roles) == 0 {
		return nil, errors.New("the agent is not in the definitions any more")
	}
	if known && keeps(&def) {
		roles = append(roles, bcp.RoleKeeper)
	}
	env := []string{"BCPMESH_URL=" + c.mesh.URL()}
	if ca := c.mesh.config.CA; ca != "" {
		env = append(env, "BCPMESH_CA="+ca)
	}
	for _, role := range roles {
		file, err := c.creds(p.Agent, role)
		if err != nil {
			return nil, err
		}
		env = append(env, "BCPMESH_"+strings.ToUpper(role.String())+"_CREDS="+file)
	}
	return env, nil
}

// creds writes the creds of an agent once.
func (c *commands) creds(agent bcp.AgentName, role bcp.Role) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file := filepath.Join(c.folder, string(agent), role.String()+".creds")
	if _, written := c.issued[file]; written {
		return file, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	if err := c.write(file, server.Party{Agent: agent, Role: role}); err != nil {
		return "", err
	}
	c.issued[file] = server.Party{Agent: agent, Role: role}
	return file, nil
}

// write makes credentials and replaces those in file.
func (c *commands) write(file string, who server.Party) error {
	creds, err := c.mesh.Issue(who.Agent, who.Role, commandCreds)
	if err != nil {
		return err
	}
	return creds.ReplaceFile(file)
}

// renew writes all files again.
func (c *commands) renew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for file, who := range c.issued {
		err = errors.Join(err, c.write(file, who))
	}
	return err
}

// changed reports a command's change of state to the gateway.
func (c *commands) changed(s supervisor.Status) {
	g, said := c.mesh.gateway, bcp.Decision{Kind: bcp.KindProcess, Agent: s.Agent, Note: s.Exit}
	switch s.State {
	case supervisor.Running:
		said.Event, said.Note = bcp.ProcessStarted, ""
	case supervisor.Unavailable:
		said.Event = bcp.ProcessUnavailable
	case supervisor.Resting, supervisor.Waiting, supervisor.Stopped:
		said.Event = bcp.ProcessEnded
	}
	if said.Event != "" {
		g.Happened(said, nil)
	}
	if s.State == supervisor.Resting {
		// Work that came while it was ending would start no command.
		g.Waiting(s.Agent, func(ids []string) { c.restartRested(s.Agent, ids) })
	}
}

// restartRested restarts a command that ended successfully but left work: at once
// if it did some of it, otherwise with a backoff.
func (c *commands) restartRested(agent bcp.AgentName, waits []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.resting[agent]
	if r.ends++; !slices.Equal(r.waits, waits) {
		r.ends = 0
	}
	r.waits = waits
	if len(waits) > 0 {
		if r.again != nil {
			r.again.Stop()
		}
		r.again = time.AfterFunc(restPause(r.ends), func() { c.supervisor.Wake(agent) }) // nothing once it has stopped
	}
	c.resting[agent] = r
}

// restPause returns the pause for an agent that left the same work ends times
// in a row before.
func restPause(ends int) time.Duration {
	if ends == 0 {
		return 0
	}
	return min(time.Second<<min(ends, 20), maxRest)
}

// maxRest bounds the pause of an agent that has work waiting.
const maxRest = time.Minute
