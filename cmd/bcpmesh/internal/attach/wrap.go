package attach

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// Wrap makes a Reader of an MCP server.
type Wrap struct {
	Where   meshdir.StateFlags
	As      string `how:"given"`
	Pass    []string
	Accept  bool
	Observe []string
	Yes     bool `short:"y"`
	Command *cobra.Command
}

// Run wraps a server with a command, or with none does something with the one that is wrapped.
func (o *Wrap) Run(ctx context.Context, p *cli.Program, args []string) error {
	dash, again := o.Command.ArgsLenAtDash(), o.Accept || len(o.Observe) > 0
	if o.Accept && len(o.Observe) > 0 || again && (dash >= 0 || len(args) != 1) || !again && (dash != 1 || len(args) < 2) {
		return cli.Usagef("wrap: expected READER -- SERVER, READER --observe TOOL=ARGUMENTS, or READER --accept").WithHint("for example bcpmesh wrap files -- npx -y @modelcontextprotocol/server-filesystem .")
	}
	reader, command := args[0], args[1:]
	if _, err := bcp.ParseAgentName(reader); err != nil {
		return cli.Usagef("wrap: %s is not a valid name for an agent: %s", cli.Quoted(reader), err)
	}
	folder, err := o.Where.Folder()
	if err != nil {
		return err
	}
	if folder.Dir == "" {
		return cli.Failf("there is no mesh here").WithHint("bcpmesh init makes one; --dir names it")
	}
	agent, file := filepath.Join(folder.Dir, "agents", reader+".md"), filepath.Join(folder.Dir, "tools", reader+".json")
	f := &wrap.File{Server: command, Reader: bcp.AgentName(reader)}
	if len(command) == 0 {
		if f, err = readTools(file); err != nil {
			return err
		}
	} else {
		for _, name := range []string{agent, file} {
			if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
				return cli.Failf("%s already exists", cli.Quoted(name)).WithHint("take another name, or bcpmesh wrap %s --accept", reader)
			}
		}
	}
	if len(o.Observe) > 0 && !o.Yes && !p.Interactive() {
		return cli.Usagef("wrap: expected --yes with --observe, since there is no terminal to ask on")
	}
	u, err := startUpstream(ctx, f.Server, o.Pass, cli.NewLogger(hclog.Warn, p.Out.Stderr))
	if err != nil {
		return err
	}
	defer u.Close()
	if len(o.Observe) > 0 {
		return o.draft(ctx, p, u, file, f)
	}
	tools, err := u.Tools(ctx)
	if err != nil {
		return err
	}
	next, d, err := wrap.Update(f, tools)
	if err != nil {
		return cli.Failf("%s", cli.Plain(err.Error()))
	}
	if len(command) == 0 {
		return accept(p, file, next, d)
	}
	return o.create(p, agent, file, next)
}

// passedEnv is the environment of a foreign program: the few harmless keys, and what is
// passed on.
func passedEnv(pass []string) ([]string, error) {
	env := process.Scrub(os.Environ())
	for _, name := range pass {
		value, there := os.LookupEnv(name)
		if !there {
			return nil, cli.Failf("--pass: there is no variable %s in the environment", cli.Quoted(name)).WithHint("set it, or leave the flag out")
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// startUpstream starts a server, and says why it does not.
func startUpstream(ctx context.Context, command, pass []string, log hclog.Logger) (*wrap.Upstream, error) {
	env, err := passedEnv(pass)
	if err != nil {
		return nil, err
	}
	u, err := wrap.Start(ctx, wrap.Program{Command: command, Env: env, Logger: log})
	if err != nil {
		return nil, cli.Failf("%s: %s", cli.Quoted(command[0]), err).WithHint("try the same command by hand; --pass gives it variables of the environment")
	}
	return u, nil
}

// create writes the files of a Reader with the tools of a server, and says what is next.
func (o *Wrap) create(p *cli.Program, agent, file string, next *wrap.File) error {
	if len(next.Tools) == 0 {
		return cli.Failf("the server has no tools")
	}
	if err := writeTools(file, next); err != nil {
		return err
	}
	controller := cmp.Or(o.As, "main")
	definition := fmt.Sprintf(readerDefinition, next.Reader, cli.Quoted(strings.Join(next.Server, " ")), controller)
	if err := disk.Create(agent, []byte(definition), 0o600); err != nil {
		return cli.NotWritten(agent, err)
	}
	if err := showTools(p, file, next); err != nil {
		return err
	}
	p.Out.Talkf("")
	p.Out.Talkf("Add this to bcp_channels of %s, and look at what is to be decided in %s:", filepath.Join(filepath.Dir(agent), controller+".md"), file)
	for line := range strings.Lines(fmt.Sprintf(controllerEntry, next.Reader)) {
		p.Out.Talkf("%s", strings.TrimSuffix(line, "\n"))
	}
	p.Out.Talkf("Then:")
	p.Out.Talkf("  bcpmesh check && bcpmesh reload")
	p.Out.Talkf("  bcpmesh creds issue %s --out %s.creds", next.Reader, next.Reader)
	p.Out.Talkf("  bcpmesh reader --creds %s.creds --mcp %s", next.Reader, file)
	p.Out.Talkf("  bcpmesh mcp --creds %s.creds --tools %s", controller, file)
	return nil
}

const (
	readerDefinition = `---
# The Reader in front of an MCP server: what its tools answer crosses the gateway.
name: %s
description: Calls the tools of an MCP server.
# bcpmesh reader --mcp answers for it, with the server that tools/ names:
# %s
bcp_channels:
  - peer: %s
    role: reader
---
`
	controllerEntry = `  - peer: %s
    role: controller
    max_category: 2
    budget_bits: 1000
    # What a call may give the tool. It goes out to whatever the server reaches.
    max_argument_bytes: 2048
`
)

// accept pins the tools as the server lists them now.
func accept(p *cli.Program, file string, next *wrap.File, d wrap.Difference) error {
	if err := writeTools(file, next); err != nil {
		return err
	}
	return p.Out.Show(d, func() {
		for _, one := range []struct {
			what  string
			names []string
		}{{"new", d.New}, {"changed", d.Changed}, {"gone", d.Gone}} {
			for _, name := range one.names {
				p.Out.Talkf("%s: %s", one.what, cli.Plain(name))
			}
		}
		if len(d.New)+len(d.Changed)+len(d.Gone) == 0 {
			p.Out.Talkf("the server has the tools that are pinned")
		}
	})
}

// showTools tells what of each tool comes back.
func showTools(p *cli.Program, file string, f *wrap.File) error {
	return p.Out.Show(map[string]any{"file": file, "tools": f.Tools}, func() {
		rows := make([][]string, len(f.Tools))
		for i := range f.Tools {
			t := &f.Tools[i]
			var names []string
			for _, field := range t.Answer.Fields {
				names = append(names, field.Name+" ("+field.Type.String()+")")
			}
			for _, q := range t.Answer.Questions {
				names = append(names, fmt.Sprintf("%s (%s, %s)", q.ID, q.ExpectedFormat, cli.Count(q.MaxWords, "word")))
			}
			bits := ""
			if v, err := bcp.Compile(t.Answer, bcp.Settings{}); err == nil {
				bits = v.Prices().Nominal.String()
			}
			slices.Sort(names)
			rows[i] = []string{cli.Plain(t.Name), strings.Join(names, ", "), bits, cli.Plain(strings.Join(t.Decide, "; "))}
		}
		p.Out.Table([]string{"tool", "comes back", "bits", "to decide"}, rows)
	})
}

func writeTools(name string, f *wrap.File) error {
	content, err := json.Marshal(f, jsontext.WithIndent("  "), json.Deterministic(true))
	if err == nil {
		if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			err = disk.Replace(name, append(bytes.TrimSpace(content), '\n'), 0o600)
		}
	}
	if err != nil {
		return cli.NotWritten(name, err)
	}
	return nil
}

func readTools(name string) (*wrap.File, error) {
	content, err := disk.ReadFile(name, wrap.MaxFile)
	if err != nil {
		return nil, cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err)).WithHint("bcpmesh wrap writes it")
	}
	file, err := wrap.Parse(content)
	if err != nil {
		return nil, cli.Failf("%s: %s", cli.Quoted(name), cli.Plain(err.Error()))
	}
	return file, nil
}

// shownOfResult bounds what is shown of a result, in characters.
const shownOfResult = 300

// draft calls tools of a wrapped server, and drafts their answers from what comes.
func (o *Wrap) draft(ctx context.Context, p *cli.Program, u *wrap.Upstream, file string, f *wrap.File) error {
	results := map[int][]*wrap.Result{}
	var order []int
	for _, call := range o.Observe {
		name, arguments, _ := strings.Cut(call, "=")
		i := slices.IndexFunc(f.Tools, func(t wrap.Tool) bool { return t.Name == name })
		if i < 0 {
			return cli.Usagef("wrap: --observe: %s has no tool %s", cli.Quoted(file), cli.Quoted(name))
		}
		input := jsontext.Value(arguments)
		if arguments == "" {
			input = jsontext.Value("{}")
		}
		if !input.IsValid() || input.Kind() != '{' {
			return cli.Usagef("wrap: --observe: expected %s={…}, a JSON object, got %s", name, cli.Quoted(arguments))
		}
		result, err := u.Call(ctx, name, input, nil)
		if err != nil {
			return cli.Failf("%s: %s", name, cli.Plain(err.Error()))
		}
		said := []rune(result.Whole())
		shown := cli.Plain(string(said[:min(len(said), shownOfResult)]))
		if result.Failed {
			return cli.Failf("%s reports a failure, of which no answer is drafted: │%s│", name, shown).WithHint("call it with arguments with which it works")
		}
		p.Out.Talkf("%s returned, and is not to be trusted: │%s│", name, shown)
		if results[i] == nil {
			order = append(order, i)
		}
		results[i] = append(results[i], result)
	}
	drafts := &wrap.File{Server: f.Server, Reader: f.Reader}
	for _, i := range order {
		draft, err := f.Tools[i].Observed(results[i])
		if err != nil {
			return cli.Failf("%s: no answer can be drafted: %s", f.Tools[i].Name, cli.Plain(err.Error()))
		}
		f.Tools[i], drafts.Tools = draft, append(drafts.Tools, draft)
	}
	if err := showTools(p, file, drafts); err != nil {
		return err
	}
	if !o.Yes {
		if ok, err := cli.NewPrompter(ctx, p).Confirm("Write this into " + file + "?"); err != nil || !ok {
			return err
		}
	}
	return writeTools(file, f)
}
