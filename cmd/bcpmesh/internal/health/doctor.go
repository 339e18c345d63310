package health

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/sandbox"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
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
	Findings []finding        `json:"checks"`
	Sandbox  *sandbox.Support `json:"sandbox,omitempty"` // of --sandbox
	now      time.Time
}

func (c *checkup) add(id string, h health, todo, format string, args ...any) {
	c.Findings = append(c.Findings, finding{ID: id, Health: h, Says: fmt.Sprintf(format, args...), Todo: todo})
}

func (c *checkup) ok(id, format string, args ...any) { c.add(id, healthy, "", format, args...) }

func (c *checkup) count(h health) (n int) {
	for _, f := range c.Findings {
		if f.Health == h {
			n++
		}
	}
	return n
}

// DoctorCommand returns the command doctor.
func DoctorCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var confined, model bool
	cmd := &cobra.Command{
		Use:  "doctor",
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorTime)
			defer cancel()
			c := &checkup{now: time.Now()}
			switch {
			case confined:
				if who.Creds != "" || who.URL != "" || who.CA != "" {
					return cli.Usagef("doctor: --sandbox checks this machine only")
				}
				c.confinement(ctx)
			case model:
				if who.Creds != "" || who.URL != "" || who.CA != "" {
					return cli.Usagef("doctor: --model calls the models of a folder's agents")
				}
				folder, err := who.Where.Folder()
				if err != nil {
					return err
				}
				if err := c.models(ctx, folder); err != nil {
					return err
				}
			case who.Creds != "" && who.URL == "":
				return cli.Usagef("doctor: --creds needs --url").WithHint("for example --url tls://mesh.example.org:4222")
			case who.Creds == "" && (who.URL != "" || who.CA != ""):
				return cli.Usagef("doctor: --url and --ca need --creds")
			case who.Creds != "":
				c.remote(ctx, &who)
			default:
				folder, err := who.Where.Folder()
				if err != nil {
					return err
				}
				c.local(ctx, who.Where, folder)
			}
			return showCheckup(p, c)
		},
	}
	cli.TakeGiven(cmd, "--creds with --url: check from an agent's side", cli.Into{"creds": &who.Creds, "url": &who.URL, "ca": &who.CA})
	cmd.Flags().BoolVar(&confined, "sandbox", false, "check the sandbox for agents here, and try to break out of it")
	cmd.Flags().BoolVar(&model, "model", false, "call each model of the agents once; this is paid")
	who.Where.AddTo(cmd)
	return cmd
}

// doctorTime bounds all checks together.
const doctorTime = 30 * time.Second

func showCheckup(p *cli.Program, c *checkup) error {
	if p.Out.JSON {
		if err := p.Out.Value(c); err != nil {
			return err
		}
	} else {
		rows := make([][]string, len(c.Findings))
		for i, f := range c.Findings {
			says := f.Says
			if f.Todo != "" {
				says += "\n  → " + f.Todo
			}
			rows[i] = []string{string(f.Health), f.ID, says}
		}
		p.Out.Table([]string{"", "check", "found"}, rows)
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
	here := natsServerVersion()
	if nc != nil && here != "" && release(nc.ConnectedServerVersion()) != release(here) {
		c.add(id, warned, "run the same program on both sides, or restart the mesh with this one; on a cluster, upgrade the older nodes",
			"the mesh runs NATS server %s, this program has %s", nc.ConnectedServerVersion(), here)
		return
	}
	c.ok(id, "bcpmesh %s, %s, NATS server %s", cli.ProgramVersion(), runtime.Version(), here)
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
