package run

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/attach"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// health is what a check found. Its words stand in the output.
type health string

const (
	healthy health = "ok"
	warned  health = "warn" // it works, and will not for ever
	failed  health = "fail"
)

// finding is the result of one check. Ids are stable: scripts and people look for
// them.
type finding struct {
	ID     string `json:"id"`
	Health health `json:"status"`
	Says   string `json:"says"`
	Todo   string `json:"todo,omitempty"`
}

// checkup collects findings.
type checkup struct {
	Findings []finding               `json:"checks"`
	Sandbox  *process.SandboxSupport `json:"sandbox,omitempty"` // of --sandbox
	now      time.Time
}

func (c *checkup) add(id string, h health, todo, format string, args ...any) {
	c.Findings = append(c.Findings, finding{ID: id, Health: h, Says: fmt.Sprintf(format, args...), Todo: todo})
}

func (c *checkup) ok(id, format string, args ...any) { c.add(id, healthy, "", format, args...) }

// fault adds what a failure says, and what to do about it.
func (c *checkup) fault(id string, err error) {
	f, ok := errors.AsType[*cli.Failure](err)
	if !ok {
		f = cli.Failf("%s", err)
	}
	c.add(id, failed, f.Hint, "%s", f.Message)
}

func (c *checkup) count(h health) (n int) {
	for _, f := range c.Findings {
		if f.Health == h {
			n++
		}
	}
	return n
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
	c := &checkup{now: time.Now()}
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
	if n := c.count(failed); n > 0 {
		f := cli.Failf("%s", cli.Count(n, "problem"))
		if n := c.count(warned); n > 0 {
			f.Message += " and " + cli.Count(n, "warning")
		}
		return f
	}
	return nil
}

// versions says what runs here, and there if that is connected to.
func (c *checkup) versions(nc *nats.Conn) {
	const id = "versions"
	if nc != nil && release(nc.ConnectedServerVersion()) != release(server.NATSVersion) {
		c.add(id, warned, "run the same program on both sides, or restart the mesh with this one; on a cluster, upgrade the older nodes",
			"the mesh runs NATS server %s, this program has %s", nc.ConnectedServerVersion(), server.NATSVersion)
		return
	}
	c.ok(id, "bcpmesh %s, %s, NATS server %s", cli.ProgramVersion(), runtime.Version(), server.NATSVersion)
}

// release is a version without its patches, which differ in nothing that matters here.
func release(version string) string { return version[:max(0, strings.LastIndex(version, "."))] }

// skew is how far clocks may differ.
const skew = time.Minute

// clock judges by times that were written before.
func (c *checkup) clock(newest time.Time, what string) {
	if ahead := newest.Sub(c.now); ahead > skew {
		c.add("clock", failed, "set this machine's clock: creds and certificates depend on it, and the journal's time does not advance until then",
			"%s is %s in the future", what, client.Within(ahead))
		return
	}
	c.ok("clock", "%s", cli.Moment(c.now))
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
		c.add(id, failed, "give the key, or say where it is: `key` of models in mesh.yaml", "%s: %s", name, err)
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
		c.ok(id, "%s answers, in %s", name, time.Since(begun).Round(time.Millisecond))
		return
	case !known:
		says = err.Error()
	}
	if answered, ok := errors.AsType[*llm.Answered](err); ok && answered.Said != "" {
		says += "; it says: " + cli.Plain(answered.Said)
	}
	c.add(id, failed, modelTodo[fault.Fault], "%s: %s", name, says)
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
		c.add(id, failed, "a unit allows these by name: SystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp",
			"%s: `sandbox: required` starts nothing here", starts)
		return
	}
	offers := process.DetectSandbox()
	c.Sandbox = &offers
	if missing := offers.Missing(); missing != nil {
		c.add(id, failed, process.SandboxRemedy, "`sandbox: required` starts nothing here: %s", missing)
		return
	}
	if starts != nil {
		c.add(id, failed, "report this, with the machine's kernel and bcpmesh version", "a program was not confined: %s", starts)
		return
	}
	c.ok(id, "%s, Landlock version %d, seccomp: `sandbox: required` works", offers.System, offers.Landlock)
}
