package run

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/attach"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// checkup collects findings.
type checkup struct {
	mesh.Checkup
	Sandbox *process.SandboxSupport `json:"sandbox,omitempty"` // of --sandbox
}

// fault adds what a failure says, and what to do about it.
func (c *checkup) fault(id string, err error) {
	f, ok := errors.AsType[*cli.Failure](err)
	if !ok {
		f = cli.Failf("%s", err)
	}
	c.Add(id, mesh.Failed, f.Hint, "%s", f.Message)
}

// Doctor looks at what may be wrong.
type Doctor struct {
	meshdir.StateFlags
	URL, Creds, CA         string `how:"given"`
	Sandbox, Model, Notify bool
}

func (o *Doctor) Run(ctx context.Context, p *cli.Program, _ []string) error {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	c := &checkup{Checkup: mesh.Checkup{Now: time.Now()}}
	elsewhere := o.Creds+o.URL+o.CA != ""
	switch {
	case elsewhere && (o.Sandbox || o.Model || o.Notify):
		return cli.Usagef("doctor: --sandbox, --model and --notify look at this machine alone")
	case o.Sandbox:
		c.confinement(ctx)
	case o.Creds != "" && o.URL == "":
		return cli.Usagef("doctor: --creds needs --url").WithHint("for example --url tls://mesh.example.org:4222")
	case elsewhere && o.Creds == "":
		return cli.Usagef("doctor: --url and --ca need --creds")
	case elsewhere:
		c.remote(ctx, &client.Flags{URL: o.URL, Creds: o.Creds, CA: o.CA, Where: o.StateFlags})
	default:
		folder, err := o.Folder()
		switch {
		case err != nil:
		case o.Model:
			err = c.models(ctx, folder)
		case o.Notify:
			err = c.routes(ctx, folder, cli.NewLogger(hclog.Info, p.Out.Stderr))
		default:
			c.local(ctx, o.StateFlags, folder)
		}
		if err != nil {
			return err
		}
	}
	return showCheckup(p, c)
}

// doctorTime bounds all checks together.
const doctorTime = 30 * time.Second

func showCheckup(p *cli.Program, c *checkup) error {
	if err := p.Out.Show(c, func() {
		rows := make([][]string, len(c.Findings))
		for i, f := range c.Findings {
			says := f.Says
			if f.Todo != "" {
				says += "\n  → " + f.Todo
			}
			rows[i] = []string{string(f.Health), f.ID, says}
		}
		p.Out.Table([]string{"", "check", "found"}, rows)
	}); err != nil {
		return err
	}
	if n := c.Count(mesh.Failed); n > 0 {
		f := cli.Failf("%s", cli.Count(n, "problem"))
		if n := c.Count(mesh.Warned); n > 0 {
			f.Message += " and " + cli.Count(n, "warning")
		}
		return f
	}
	return nil
}

const (
	// modelPatience bounds the call of one model.
	modelPatience = 20 * time.Second
	// modelTokens are what a model may answer: there are providers that refuse fewer.
	modelTokens = 16
)

// models calls each model of the agents once: it is paid, and in no budget.
func (c *checkup) models(ctx context.Context, folder meshdir.Folder) error {
	def, err := folder.Load()
	if err != nil {
		return err
	}
	var names []string
	for i := range def.Agents {
		if a := &def.Agents[i]; a.AsksModel() && !slices.Contains(names, a.Model) {
			names = append(names, a.Model)
			m, _ := def.ModelOf(a.Model) // definitions that load have one
			c.model(ctx, folder, a.Model, m)
		}
	}
	if len(names) == 0 {
		return cli.Failf("no agent of this mesh has a model").WithHint("docs/agents.md, \"A model in the seat\"")
	}
	return nil
}

func (c *checkup) model(ctx context.Context, folder meshdir.Folder, name string, m bcp.Model) {
	const id = "models"
	model, err := folder.OpenModel(m, modelTokens)
	if err != nil {
		c.Add(id, mesh.Failed, "give the key, or say where it is: `key` of models in mesh.yaml", "%s: %s", name, err)
		return
	}
	once := model.Provider // without retries: who waits wants to know
	wires.Each(model, func(one llm.Provider) llm.Provider { once = one; return one })
	ctx, cancel := context.WithTimeout(ctx, modelPatience)
	defer cancel()
	begun := time.Now()
	_, err = once.Do(ctx, &llm.Request{Model: model.Model, MaxTokens: modelTokens, Turns: []llm.Turn{{Role: llm.User, Parts: []llm.Part{llm.Constant("Answer with the word yes.")}}}})
	fault, known := keeper.FaultOf(err)
	if errors.Is(err, context.DeadlineExceeded) {
		fault, known = bcp.ModelFault{Fault: bcp.FaultSilent}, true
	}
	says := fault.String()
	switch {
	case err == nil:
		c.OK(id, "%s answers, in %s", name, time.Since(begun).Round(time.Millisecond))
		return
	case !known:
		says = err.Error()
	}
	if answered, ok := errors.AsType[*llm.Answered](err); ok && answered.Said != "" {
		says += "; it says: " + cli.Plain(answered.Said)
	}
	c.Add(id, mesh.Failed, modelTodo[fault.Fault], "%s: %s", name, says)
}

// modelTodo says what to do about a fault.
var modelTodo = map[bcp.Fault]string{
	bcp.FaultKey:        "look at the key, and for which models it is; then start the mesh again",
	bcp.FaultRate:       "wait, or ask the provider for more; queries are asked again by themselves",
	bcp.FaultOverloaded: "wait; queries are asked again by themselves",
	bcp.FaultUnreached:  "is base_url right, does it run, and is the network there?",
	bcp.FaultSilent:     "is base_url right? a local model may take its time to load",
	bcp.FaultRefused:    "look at the name of the model, at base_url, and at the account",
	bcp.FaultReply:      "is base_url that of the API? something else answers there",
}

// confinement looks at what this machine offers to confine agents' commands, and starts a confined program.
func (c *checkup) confinement(ctx context.Context) {
	const id = "sandbox"
	starts := attach.Starts(ctx) // before this process asks what a filter may kill it for
	if errors.Is(starts, attach.ErrKilled) {
		c.Add(id, mesh.Failed, "a unit allows these by name: SystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp",
			"%s: `sandbox: required` starts nothing here", starts)
		return
	}
	offers := process.DetectSandbox()
	c.Sandbox = &offers
	if missing := offers.Missing(); missing != nil {
		c.Add(id, mesh.Failed, process.SandboxRemedy, "`sandbox: required` starts nothing here: %s", missing)
		return
	}
	if starts != nil {
		c.Add(id, mesh.Failed, "report this, with the machine's kernel and bcpmesh version", "a program was not confined: %s", starts)
		return
	}
	c.OK(id, "%s, Landlock version %d, seccomp: `sandbox: required` works", offers.System, offers.Landlock)
}
