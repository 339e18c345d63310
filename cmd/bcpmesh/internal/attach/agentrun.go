package attach

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// AgentRun runs an agent with its model.
type AgentRun struct {
	Dir, Record string
	Task        string // of a Controller; empty: what its definition says
	Command     *cobra.Command
	name        bcp.AgentName
}

// Run runs it, and shows the result of a task.
func (o *AgentRun) Run(ctx context.Context, p *cli.Program, args []string) error {
	o.name = bcp.AgentName(args[0])
	given := o.Command.Flags().Changed("task")
	if given {
		if err := o.readTask(ctx, p); err != nil {
			return err
		}
	}
	done, err := o.run(ctx, p)
	switch {
	case err != nil || !given:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return o.showResult(p, done)
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
	if c.Confined && !process.InSandbox() {
		return cli.Failf("the cell is not confined")
	}
	if most := int64(process.SandboxMemory); c.Confined && most > 0 {
		debug.SetMemoryLimit(most * 3 / 4) // garbage goes before the limit of the sandbox ends the cell
	}
	return nil
}

// run is the keeper of an agent. It returns when its task is done, if it has one.
func (o *AgentRun) run(ctx context.Context, p *cli.Program) (done cell.Done, err error) {
	folder, def, agent, err := definedAgent(p, o.Dir, o.name)
	if err == nil && !agent.Builtin {
		err = cli.Failf("%s has no `command: builtin`", o.name).WithHint("add it to %s, with a model", agent.File)
	}
	if err != nil {
		return done, err
	}
	role, plans := bcp.RoleReader, plannerRole(def, o.name)
	switch {
	case plans != 0 && o.Task != "":
		return done, cli.Failf("%s is a planner, and answers kernels", o.name).WithHint("bcpmesh kernel run gives a kernel a task")
	case plans != 0:
		role = plans
	case !agent.Reader:
		role = bcp.RoleController
	case o.Task != "":
		return done, cli.Failf("%s is a Reader, and answers queries", o.name).WithHint("give the task to a Controller, whose model asks Readers")
	}
	model, err := openModel(folder, def, &agent)
	if err != nil {
		return done, err
	}
	if agent.Sandbox == bcp.SandboxRequired && plans == 0 { // a planner has no cell
		if err := process.DetectSandbox().Missing(); err != nil {
			return done, cli.Failf("%s cannot be confined, and is not started: %s", o.name, err).WithHint("start it in a container or a virtual machine, and say `sandbox: none` there")
		}
	}
	read, err := toolFiles(folder, def, &agent)
	if err != nil {
		return done, err
	}
	log := cli.NewLogger(hclog.Info, p.Out.Stderr)
	kept, err := connectKeeper(ctx, p, folder, &agent, log)
	if err != nil {
		return done, err
	}
	defer kept.Close()
	var record io.Writer
	if o.Record != "" { // a new file, which nobody else may read
		file, err := os.OpenFile(o.Record, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return done, cli.Failf("the transcript: %s", cli.FileReason(err))
		}
		defer func() { _ = file.Close() }() // each call was written when it ended
		record = file
	}
	conn, err := connectBuiltin(ctx, p, folder, &agent, role, log)
	if err != nil {
		return done, err
	}
	defer conn.Close()
	if plans != 0 {
		model = keeper.Metered(model, agents.NewKeeper(kept), &agent, log)
		return done, planWithModel(ctx, p, &client.Client{Connection: conn, Name: agent.Name, Role: role, Log: log}, model, agent.Prompt, record)
	}
	state := folder.State
	if creds := p.Env(client.CredsVariable(bcp.RoleKeeper)); creds != "" { // the mesh's, which knows where its state is: STATE/run/NAME/keeper.creds
		state = filepath.Dir(filepath.Dir(filepath.Dir(creds)))
	}
	maildir, endMail, err := copyMail(ctx, folder, def, &agent, state, log)
	if err != nil {
		return done, err
	}
	defer endMail()
	read = append(read, maildir...)
	archive, err := folder.Archive(p.Env(meshdir.ArchiveVariable))
	if err != nil {
		return done, err
	}
	tools, err := mcpDesk(folder, def, &agent, log, func() { toldOfTool(ctx, agents.NewKeeper(kept), log) })
	if err != nil {
		return done, err
	}
	defer tools.Close()
	output := process.NewOutput(log)
	defer output.End()
	options := keeper.Options{
		Definition: def, Agent: &agent, Role: role, Task: o.Task, Connection: conn, Kept: kept, Model: model,
		Start:    func(context.Context) (keeper.Cell, error) { return startCell(agent.Sandbox, read, output) },
		Confined: agent.Sandbox == bcp.SandboxRequired,
		Files:    read[:len(agent.Files)], Mailbox: strings.Join(read[len(agent.Files):], ""), Archive: archive, LookUp: os.LookupEnv,
		MCP: listMCPTools(def, &agent), CallTools: tools.Call, Aside: readAside(state, agent.Name),
		Version: cli.ProgramVersion(), Logger: log,
		Record: record,
	}
	if o.Task == "" {
		p.Out.Talkf("%s answers with %s", agent.Name, cli.Quoted(agent.Model))
	}
	result, err := keeper.Run(ctx, options)
	if ctx.Err() == nil && !result.Finished { // the cell ended by itself
		if err := writeAside(state, agent.Name, result.Aside); err != nil {
			log.Warn("what the cell was reading when it ended cannot be set aside", "error", cli.FileReason(err))
		}
	}
	if errors.Is(err, keeper.ErrEnded) {
		return done, cli.Failf("the cell of %s has ended: %s", agent.Name, output.LastLine())
	}
	return result.Done, err
}

// connectKeeper connects as the keeper of an agent.
func connectKeeper(ctx context.Context, p *cli.Program, folder meshdir.Folder, agent *bcp.Agent, log hclog.Logger) (*agents.Connection, error) {
	conn, err := connectBuiltin(ctx, p, folder, agent, bcp.RoleKeeper, log)
	if f, ok := errors.AsType[*cli.Failure](err); ok && f.Hint == "" {
		return nil, f.WithHint("if the mesh does not know yet that a model runs %s: bcpmesh reload", agent.Name)
	}
	debug.SetMemoryLimit(keeper.Memory)
	return conn, err
}

// definedAgent finds the definition of an agent: in a folder, or where the mesh says that started this.
func definedAgent(p *cli.Program, dir string, name bcp.AgentName) (folder meshdir.Folder, def *bcp.Mesh, agent bcp.Agent, err error) {
	if file := p.Env("BCPMESH_DEFINITION"); dir == "" && file != "" {
		dir = filepath.Dir(filepath.Dir(file))
	}
	where := meshdir.StateFlags{Dir: dir}
	if folder, def, err = where.Load(); err != nil {
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
		switch covering, err := coveredKey(folder, def, agent, []string{path}); {
		case err != nil:
			return nil, err
		case covering != "":
			return nil, cli.Failf("%s would read %s, which has keys below it", agent.Name, cli.Quoted(name)).WithHint("name what it needs below it in %s", agent.File)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// coveredKey returns the first of the paths that has a key of an agent's keeper below it, if there is one.
func coveredKey(folder meshdir.Folder, def *bcp.Mesh, agent *bcp.Agent, paths []string) (string, error) {
	secrets, err := folder.Secrets(def, agent)
	if err != nil {
		return "", cli.Failf("a key of %s: %s", agent.Name, cli.FileReason(err))
	}
	for _, secret := range secrets {
		if covering := meshdir.Covers(paths, secret); covering != "" {
			return covering, nil
		}
	}
	return "", nil
}

// connectBuiltin connects in a role: with the creds that the mesh gave, or with creds of its own from the keys of the folder.
func connectBuiltin(ctx context.Context, p *cli.Program, folder meshdir.Folder, agent *bcp.Agent, role bcp.Role, log hclog.Logger) (*agents.Connection, error) {
	who := client.Flags{As: string(agent.Name), Where: meshdir.StateFlags{Dir: folder.Dir}, Handlers: agent.Run.MaxParallel, Logger: log}
	if who.Creds = p.Env(client.CredsVariable(role)); who.Creds != "" {
		who.URL, who.CA = p.Env("BCPMESH_URL"), p.Env("BCPMESH_CA")
		if role == bcp.RoleReader || role == bcp.RoleController {
			who.Encoding = agent.Encoding.String()
		}
	}
	c, err := who.Connect(ctx, role)
	if err != nil {
		return nil, err
	}
	return c.Connection, nil
}

// startCell starts this program again, with an empty environment, which may read what its tools read.
func startCell(by bcp.Sandbox, read []string, output *process.Output) (c keeper.Cell, err error) {
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	cmd := &exec.Cmd{Path: self, Args: []string{"bcpmesh", "cell"}}
	if by == bcp.SandboxRequired {
		cmd, err = Confined(process.Sandbox{Path: self, Args: cmd.Args, Read: read, Alone: true, Memory: process.SandboxMemory})
	}
	if err == nil {
		var running *process.Process
		var ours process.Ends
		cmd.Dir, cmd.Stderr = string(filepath.Separator), output.Stderr()
		if running, ours, err = process.Open(cmd); err == nil {
			return keeper.Cell{In: ours.Out, Out: ours.In, End: func() {
				running.Kill()
				<-running.Done()
			}}, nil
		}
	}
	return c, cli.Failf("the cell cannot be started: %s", process.Reason(err))
}

// maxTask is the size of a task, in bytes.
const maxTask = 64 << 10

// readTask reads what a Controller is given to do: "-" is what stdin says.
func (o *AgentRun) readTask(ctx context.Context, p *cli.Program) error {
	if o.Task == "-" {
		text, err := io.ReadAll(io.LimitReader(cli.Interruptible(ctx, p.In), maxTask+1))
		if err != nil {
			return cli.Failf("the task: %s", cli.FileReason(err))
		}
		o.Task = string(text)
	}
	switch o.Task = strings.TrimSpace(o.Task); {
	case o.Task == "":
		return cli.Usagef("agent run: --task: expected a task").WithHint("bcpmesh agent run %s --task \"What is new?\"", o.name)
	case len(o.Task) > maxTask || !utf8.ValidString(o.Task):
		return cli.Usagef("agent run: --task: a task is text of at most %d KiB", maxTask>>10)
	}
	return nil
}

// showResult shows what a Controller made of its task.
func (o *AgentRun) showResult(p *cli.Program, done cell.Done) error {
	if done.Failed != "" {
		return cli.Failf("%s has no result: %s", o.name, done.Failed)
	}
	return p.Out.Show(map[string]any{"agent": o.name, "result": done.Said}, func() {
		for line := range strings.Lines(strings.TrimSpace(done.Said)) {
			p.Out.Printf("%s\n", cli.Plain(strings.TrimRight(line, "\r\n")))
		}
	})
}

// asideFolder has, in the state folder, a file for each agent one of whose cells ended while it read something: the digests of
// what it read, one a line. Deleting the file has it read again.
const asideFolder = "aside"

func readAside(state string, agent bcp.AgentName) []string {
	content, err := cli.ReadSmall(filepath.Join(state, asideFolder, string(agent)))
	if err != nil {
		return nil // there is none, or it is to be written anew
	}
	return strings.Fields(string(content))
}

func writeAside(state string, agent bcp.AgentName, inputs []string) error {
	if len(inputs) == 0 {
		return nil
	}
	folder := filepath.Join(state, asideFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return disk.Replace(filepath.Join(folder, string(agent)), []byte(strings.Join(inputs, "\n")+"\n"), 0o600)
}
