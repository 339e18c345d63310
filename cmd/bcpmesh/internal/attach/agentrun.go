package attach

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/replay"
	"github.com/bcpmesh/bcpmesh/agents/sandbox"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	confinement "github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func agentRunCommand(p *cli.Program) *cobra.Command {
	var o seat
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run an agent with its model",
		Long: `Run an agent by its definition. A Reader's model answers queries and publishes, with
the tools, the network and the limits of its definition. A Controller's model handles
what Readers publish and its schedule, and asks Readers. A kernel's planner makes
plans. bcpmesh up does this for every agent with "command: builtin"; this command does
it by hand.

A planner is one process, since its model has no tools. Any other agent is two. This
process is the keeper: it has the creds, the key of the model and the network, and has
each request to a host and each call of the model recorded before it is sent. Its
child, the cell, reads hostile text and has none of these: only its standard streams.

It uses the definitions of the folder and the mesh that runs there, until interrupted.

With --record, it writes a transcript to a new file that only you may read, of at most
256 MiB: what the agent was asked, each call of its model and its tools with the
result, and its answers, unencrypted. bcpmesh agent show shows it, bcpmesh agent
replay replays it. A model with the provider replay and that file answers the same
requests with the same replies, without a network.`,
		Example: `  bcpmesh agent run researcher
  bcpmesh agent run researcher --record calls.jsonl
  bcpmesh agent run researcher --dir office`,
		Args: cli.Arguments(1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = bcp.AgentName(args[0])
			_, err := o.run(cmd.Context(), p)
			return err
		},
		ValidArgsFunction: meshdir.CompleteAgents(false),
	}
	o.addTo(cmd)
	return cmd
}

// seat is an agent that a model runs.
type seat struct {
	dir, record string
	name        bcp.AgentName
	task        string // of a Controller; empty: what its definition says
}

func (o *seat) addTo(cmd *cobra.Command) {
	cli.Take(cmd, "", cli.Into{"dir": &o.dir})
	cmd.Flags().StringVar(&o.record, "record", "", "write a transcript to a new `FILE`")
}

// RunCell runs the cell of an agent, over stdin and stdout.
func RunCell(ctx context.Context, p *cli.Program) error {
	if cli.IsTerminal(p.In) {
		return cli.Usagef("cell: bcpmesh agent run starts it")
	}
	err := cell.Run(ctx, cli.Interruptible(ctx, p.In), p.Out.Screen, confine)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// confine refuses to be a cell that is not confined, if it has to be: startCell does so.
func confine(c cell.Configuration) error {
	if c.Confined && !sandbox.Inside() {
		return cli.Failf("the cell is not confined")
	}
	if most := int64(sandbox.DefaultMemory); c.Confined && most > 0 {
		debug.SetMemoryLimit(most * 3 / 4) // garbage goes before the limit of the sandbox ends the cell
	}
	return nil
}

// run is the keeper of an agent. It returns when its task is done, if it has one.
func (o *seat) run(ctx context.Context, p *cli.Program) (done cell.Done, err error) {
	folder, def, agent, err := builtinAgent(p, o.dir, o.name)
	if err != nil {
		return done, err
	}
	role := bcp.RoleReader
	switch plans := plannerRole(def, o.name); {
	case plans != 0 && o.task == "":
		return done, o.plan(ctx, p, folder, def, &agent, plans)
	case plans != 0:
		return done, cli.Failf("%s is a planner, and answers kernels", o.name).WithHint("bcpmesh kernel run gives a kernel a task")
	case !agent.Reader:
		role = bcp.RoleController
	case o.task != "":
		return done, cli.Failf("%s is a Reader, and answers queries", o.name).WithHint("give the task to a Controller, whose model asks Readers")
	}
	model, err := openModel(folder, def, &agent)
	if err != nil {
		return done, err
	}
	if agent.Sandbox == bcp.SandboxRequired {
		if err := sandbox.Detect().Missing(); err != nil {
			return done, cli.Failf("%s cannot be confined, and is not started: %s", o.name, err).WithHint("start it in a container or a virtual machine, and say `sandbox: none` there")
		}
	}
	read, err := toolFiles(folder, def, &agent)
	if err != nil {
		return done, err
	}
	log := cli.NewLogger(hclog.Info, p.Out.Stderr)
	kept, err := metered(ctx, p, folder, &agent, &model, log)
	if err != nil {
		return done, err
	}
	defer kept.Close()
	var to *replay.Writer
	if o.record != "" {
		file, err := createRecord(o.record)
		if err != nil {
			return done, err
		}
		defer func() { _ = file.Close() }() // each line was written when it was told
		if to, err = replay.NewWriter(file); err != nil {
			return done, cli.Failf("the transcript: %s", cli.FileReason(err))
		}
	}
	conn, err := connectBuiltin(ctx, p, folder, &agent, role, log)
	if err != nil {
		return done, err
	}
	defer conn.Close()
	state := folder.State
	if creds := p.Env("BCPMESH_KEEPER_CREDS"); creds != "" { // the mesh's, which knows where its state is: STATE/run/NAME/keeper.creds
		state = filepath.Dir(filepath.Dir(filepath.Dir(creds)))
	}
	watched := openWatch(state, agent.Name, log)
	defer watched.close()
	maildir, endMail, err := copyMail(ctx, folder, def, &agent, state, log)
	if err != nil {
		return done, err
	}
	defer endMail()
	read = append(read, maildir...)
	var desk func() (*fetch.Desk, error)
	if len(agent.Egress.Hosts) > 0 {
		if desk, err = newDesk(p, folder, def, &agent, keeper.NewLedger(agents.NewKeeper(kept))); err != nil {
			return done, err
		}
	}
	tools, err := mcpDesk(folder, def, &agent, log, func() { toldOfTool(ctx, agents.NewKeeper(kept), log) })
	if err != nil {
		return done, err
	}
	defer tools.Close()
	services := keeper.NewServices(cell.Configuration{
		Agent: agent.Name, Role: role, Task: o.task, Instructions: agent.Prompt, Model: model.Model, Tools: agent.Tools, MCP: listMCPTools(def, &agent), Files: read[:len(agent.Files)], Mailbox: strings.Join(read[len(agent.Files):], ""), Feeds: agent.Feeds,
		MaxTurns: agent.Run.MaxTurns, MaxTokens: agent.Run.MaxTokens, Confined: agent.Sandbox == bcp.SandboxRequired,
	}, model, desk)
	services.CallTools(tools.Call)
	services.HearWords(watched.words)
	services.SetAside(readAside(state, agent.Name))
	output := process.NewOutput(log)
	defer output.End()
	running, toKeeper, fromKeeper, err := startCell(agent.Sandbox, read, output)
	if err != nil {
		return done, cli.Failf("the cell of %s cannot be started: %s", agent.Name, process.Reason(err))
	}
	serving, end := context.WithCancel(ctx)
	defer end()
	record := func(stdio.Passage) error { return nil }
	if to != nil {
		record = replay.Record(to)
	}
	trace := func(passed stdio.Passage) error {
		watched.tell(passed)
		err := record(passed)
		if err != nil { // a transcript with a gap is of no use
			end()
		}
		return err
	}
	defer context.AfterFunc(serving, func() { _, _ = toKeeper.Close(), fromKeeper.Close() })() // also if the cell reads no more
	methods, finished := services.Methods(), false
	if o.task != "" {
		methods["done"] = func(_ context.Context, params jsontext.Value) (any, error) {
			if err := json.Unmarshal(params, &done, json.RejectUnknownMembers(true)); err != nil {
				return nil, &stdio.CallError{Code: "malformed", Message: "the parameters are not those of the method"}
			}
			finished = true
			end()
			return struct{}{}, nil
		}
	} else {
		p.Out.Talkf("%s answers with %s", agent.Name, cli.Quoted(agent.Model))
	}
	err = stdio.Serve(serving, stdio.Agent{
		Connection: conn, Name: agent.Name, Role: role, Version: cli.ProgramVersion(), Logger: log,
		Methods: methods, Rooms: services.Rooms(), MaxLine: keeper.MaxLine, Trace: trace,
	}, toKeeper, fromKeeper)
	_, _ = fromKeeper.Close(), toKeeper.Close()
	running.Kill()
	<-running.Done()
	if ctx.Err() == nil && !finished { // the cell ended by itself
		if err := writeAside(state, agent.Name, services.Aside()); err != nil {
			log.Warn("what the cell was reading when it ended cannot be set aside", "error", cli.FileReason(err))
		}
	}
	var unwritten error
	if to != nil {
		unwritten = to.Err()
	}
	switch {
	case unwritten != nil:
		return done, cli.Failf("the transcript: %s", strings.TrimPrefix(cli.FileReason(unwritten), "transcript: "))
	case ctx.Err() != nil, finished:
		return done, nil
	case err != nil:
		return done, meshdir.Failure(err)
	}
	return done, cli.Failf("the cell of %s has ended: %s", agent.Name, output.LastLine())
}

// metered has each call of an agent's model recorded before it is made, over a connection of the agent's keeper.
func metered(ctx context.Context, p *cli.Program, folder meshdir.Folder, agent *bcp.Agent, model *llm.Endpoint, log hclog.Logger) (*agents.Connection, error) {
	conn, err := connectBuiltin(ctx, p, folder, agent, bcp.RoleKeeper, log)
	if f, ok := errors.AsType[*cli.Failure](err); ok && f.Hint == "" {
		return nil, f.WithHint("if the mesh does not know yet that a model runs %s: bcpmesh reload", agent.Name)
	}
	if err != nil {
		return nil, err
	}
	debug.SetMemoryLimit(keeper.Memory)
	k := agents.NewKeeper(conn)
	if model.Provider == nil {
		return conn, nil
	}
	*model = wires.Each(*model, func(one llm.Provider) llm.Provider {
		return keeper.NewHealth(k.ReportModel, log, keeper.NewMeter(k, agent.Model, one))
	})
	return conn, nil
}

// builtinAgent finds the definition of an agent that the mesh runs.
func builtinAgent(p *cli.Program, dir string, name bcp.AgentName) (folder meshdir.Folder, def *bcp.Mesh, agent bcp.Agent, err error) {
	if folder, def, agent, err = definedAgent(p, dir, name); err == nil && !agent.Builtin {
		err = cli.Failf("%s has no `command: builtin`", name).WithHint("add it to %s, with a model", agent.File)
	}
	return folder, def, agent, err
}

// definedAgent finds the definition of an agent: in a folder, or where the mesh says that started this.
func definedAgent(p *cli.Program, dir string, name bcp.AgentName) (folder meshdir.Folder, def *bcp.Mesh, agent bcp.Agent, err error) {
	if file := p.Env("BCPMESH_DEFINITION"); dir == "" && file != "" {
		dir = filepath.Dir(filepath.Dir(file))
	}
	if dir != "" {
		folder, err = meshdir.Argument([]string{dir})
	} else {
		folder, err = meshdir.Find(".")
	}
	if err != nil {
		return folder, nil, agent, err
	}
	if def, err = folder.Load(); err != nil {
		return folder, nil, agent, err
	}
	agent, ok := def.Agent(name)
	if !ok {
		return folder, nil, agent, cli.Usagef("agent run: the mesh has no agent %s", cli.Quoted(string(name)))
	}
	return folder, def, agent, nil
}

func openModel(folder meshdir.Folder, def *bcp.Mesh, agent *bcp.Agent) (llm.Endpoint, error) {
	m, _ := def.ModelOf(agent.Model) // definitions that load have one
	model, err := folder.OpenModel(m, agent.Run.MaxTokens)
	if err != nil {
		return model, cli.Failf("the model of %s: %s", agent.Name, err)
	}
	return model, nil
}

// toolFiles returns what the tools of an agent read: its folders, then its mailbox if it has one of its own. Nothing secret is below
// any of it.
func toolFiles(folder meshdir.Folder, def *bcp.Mesh, agent *bcp.Agent) ([]string, error) {
	secrets, err := folder.Secrets(def, agent)
	if err != nil {
		return nil, cli.Failf("a key of %s: %s", agent.Name, cli.FileReason(err))
	}
	var paths []string
	names := slices.Clone(agent.Files)
	if agent.Mailbox != "" && !guard.IsMailServer(agent.Mailbox) {
		names = append(names, agent.Mailbox)
	}
	for _, name := range names {
		path, err := folder.FindFile(name)
		if err != nil {
			return nil, cli.Failf("%s cannot read %s: %s", agent.Name, cli.Quoted(name), cli.FileReason(err))
		}
		for _, secret := range secrets {
			if meshdir.Covers([]string{path}, secret) != "" {
				return nil, cli.Failf("%s would read %s, which has keys below it", agent.Name, cli.Quoted(name)).WithHint("name what it needs below it in %s", agent.File)
			}
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// createRecord makes a new file, which nobody else may read.
func createRecord(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, cli.Failf("the transcript: %s", cli.FileReason(err))
	}
	return file, nil
}

// recordTo has the calls of a model written to a new file.
func recordTo(path string, model *llm.Endpoint) (*os.File, error) {
	file, err := createRecord(path)
	if err != nil {
		return nil, err
	}
	recorder, err := replay.NewRecorder(model.Provider, file)
	if err != nil {
		_ = file.Close()
		return nil, cli.Failf("the transcript: %s", cli.FileReason(err))
	}
	model.Provider = recorder
	return file, nil
}

// connectBuiltin connects in a role: with the creds that the mesh gave, or with creds of its own from the keys of the folder.
func connectBuiltin(ctx context.Context, p *cli.Program, folder meshdir.Folder, agent *bcp.Agent, role bcp.Role, log hclog.Logger) (*agents.Connection, error) {
	variable, encoding := "BCPMESH_READER_CREDS", agent.Encoding
	switch role {
	case bcp.RoleKeeper:
		variable, encoding = "BCPMESH_KEEPER_CREDS", bcp.JSON
	case bcp.RoleController:
		variable = "BCPMESH_CONTROLLER_CREDS"
	case bcp.RolePlanner:
		variable, encoding = "BCPMESH_PLANNER_CREDS", bcp.JSON
	case bcp.RoleSubplanner:
		variable, encoding = "BCPMESH_SUBPLANNER_CREDS", bcp.JSON
	}
	creds := p.Env(variable)
	if creds == "" {
		who := client.Flags{As: string(agent.Name), Where: meshdir.StateFlags{Dir: folder.Dir}, Handlers: agent.Run.MaxParallel, Logger: log}
		c, err := who.Connect(ctx, role)
		if err != nil {
			return nil, err
		}
		return c.Connection, nil
	}
	secure, err := meshdir.Trust{CA: p.Env("BCPMESH_CA")}.Options()
	if err != nil {
		return nil, err
	}
	conn, err := agents.Connect(ctx, p.Env("BCPMESH_URL"), agents.CredsFile(creds), agents.Options{
		Name: agent.Name, Encoding: encoding, Logger: log, Handlers: agent.Run.MaxParallel, NATS: secure,
	})
	if err != nil {
		return nil, meshdir.NotReached(p.Env("BCPMESH_URL"), err)
	}
	return conn, nil
}

func newDesk(p *cli.Program, folder meshdir.Folder, def *bcp.Mesh, agent *bcp.Agent, ledger fetch.Ledger) (func() (*fetch.Desk, error), error) {
	e := agent.Egress
	o := fetch.Options{
		Agent: string(agent.Name), Policy: fetch.Policy(e.Hosts, os.LookupEnv), StartURLs: slices.Concat(e.StartURLs, agent.Feeds), LinksOnly: e.LinksOnly, Addresses: def.AllowAddresses, Ledger: ledger,
	}
	if name := p.Env(meshdir.ArchiveVariable); name != "" && name != meshdir.ArchiveOff {
		archive, err := folder.Archive(name)
		if err != nil {
			return nil, err
		}
		o.Resolver, o.Transport = archive, archive
	}
	return func() (*fetch.Desk, error) { return fetch.NewDesk(o) }, nil
}

// startCell starts this program again, with an empty environment, which may read what its tools read, and returns our ends of its door.
func startCell(by bcp.Sandbox, read []string, output *process.Output) (running *process.Process, in, out *os.File, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	theirIn, out, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { _ = theirIn.Close() }() // it has its own
	in, theirOut, err := os.Pipe()
	if err != nil {
		_ = out.Close()
		return nil, nil, nil, err
	}
	defer func() { _ = theirOut.Close() }()
	cmd := &exec.Cmd{Path: self, Args: []string{"bcpmesh", "cell"}}
	if by == bcp.SandboxRequired {
		if cmd, err = confinement.Confined(sandbox.Spec{Path: self, Args: cmd.Args, Read: read, Alone: true, Memory: sandbox.DefaultMemory}); err != nil {
			_, _ = in.Close(), out.Close()
			return nil, nil, nil, err
		}
	}
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = string(filepath.Separator), theirIn, theirOut, output.Stderr()
	running, err = process.Start(cmd)
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, nil, nil, err
	}
	return running, in, out, nil
}
