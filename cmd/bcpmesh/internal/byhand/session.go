package byhand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// Session lists sessions, or opens or closes one.
type Session struct {
	client.Flags
	Wait    cli.DurationFlag `default:"30s"`
	Renew   bool
	Command *cobra.Command
}

// Adjust says what may be done.
func (o *Session) Adjust(cmd *cobra.Command) {
	cmd.ValidArgs = []string{bcp.VerbOpen, bcp.VerbClose}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && !slices.Contains(cmd.ValidArgs, args[0]) {
			return cli.MissingCommand(cmd, args)
		}
		return cli.Arguments(0, "open or close")(cmd, args)
	}
}

// Run does it.
func (o *Session) Run(ctx context.Context, p *cli.Program, args []string) error {
	if len(args) == 0 {
		for _, flag := range []string{"as", "creds", "url", "renew"} {
			if o.Command.Flags().Changed(flag) {
				return cli.Usagef("session: --%s is for open and close", flag)
			}
		}
		return client.AsOperator(ctx, o.Where, o.Wait.Value, func(ctx context.Context, c *client.Client) error {
			sessions, err := c.Operator().Sessions(ctx)
			if err != nil {
				return err
			}
			return p.Out.Show(map[string]any{"sessions": sessions}, func() { showSessions(p.Out, sessions) })
		})
	}
	if o.Renew && args[0] != bcp.VerbOpen {
		return cli.Usagef("session close: --renew is for open")
	}
	return o.Act(ctx, bcp.RoleController, o.Wait.Value, func(ctx context.Context, c *client.Client) (err error) {
		switch {
		case o.Renew:
			err = client.AsOperator(ctx, o.Where, o.Wait.Value, func(ctx context.Context, operator *client.Client) error {
				return operator.Operator().Renew(ctx, c.Name)
			})
		case args[0] == bcp.VerbClose:
			err = agents.NewController(c.Connection).CloseSession(ctx)
		default:
			err = agents.NewController(c.Connection).OpenSession(ctx)
		}
		if err != nil {
			return err
		}
		return p.Out.Show(map[string]string{"controller": string(c.Name), "session": args[0]}, func() { p.Out.Printf("session of %s: %s\n", c.Name, args[0]) })
	})
}

func showSessions(o *cli.Output, sessions []bcp.SessionView) {
	if len(sessions) == 0 {
		o.Talkf("the mesh has no controller")
		return
	}
	var rows [][]string
	for i := range sessions {
		s := &sessions[i]
		begun, last := "", ""
		if s.Session != "" {
			begun = s.Since.Local().Format(time.DateTime) + " by " + s.BegunBy
			last = s.Touched.Local().Format(time.DateTime)
		}
		taint := s.Taint.String()
		if len(s.Sources) > 0 {
			taint += " (" + strings.Join(s.Sources, ", ") + ")"
		}
		for i, c := range s.Channels {
			row := []string{"", "", "", "", "", "", string(c.Reader), strconv.FormatUint(c.Epoch, 10), c.Remaining.Rounded(),
				fmt.Sprintf("%d of %d", c.Escalations, c.MaxEscalations), fmt.Sprintf("%d / %d / %d", c.Open, c.Held, c.Waiting)}
			if i == 0 {
				copy(row, []string{string(s.Controller), s.Status, begun, last, taint, s.Exposure.String()})
			}
			rows = append(rows, row)
		}
		if len(s.Channels) == 0 {
			rows = append(rows, []string{string(s.Controller), s.Status, begun, last, taint, s.Exposure.String()})
		}
	}
	o.Table([]string{"controller", "session", "begun", "last activity", "own taint", "exposure", "reader", "epoch", "bits left", "escalations", "open / held / waiting"}, rows)
}

// Taint reports taint of an agent, or takes it away.
type Taint struct {
	client.OperatorFlags
	Source      cli.WordFlag
	Reset, Lift bool `not:"source reset lift"`
}

// Adjust says which sources there are.
func (f *Taint) Adjust(*cobra.Command) {
	f.Source.Words = cli.Map(bcp.TaintSources(), func(s bcp.TaintSource) string { return string(s) })
}

// Run does it.
func (f *Taint) Run(ctx context.Context, p *cli.Program, args []string) error {
	agent := args[0]
	if !f.Lift { // which may be of a tool service, too
		if (f.Source.Value == "") != f.Reset {
			return cli.Usagef("taint: expected --source, --reset or --lift").WithHint("a source is one of %s", strings.Join(f.Source.Words, ", "))
		}
		if err := isAgent(f.StateFlags, agent); err != nil {
			return err
		}
	}
	return f.Act(ctx, func(ctx context.Context, o *client.Client) (err error) {
		did, says := "report", "taint of "+agent+": report"
		switch {
		case f.Lift:
			did, says, err = "lifted", agent+" is not suspended any more", liftSuspension(ctx, o, agent)
		case f.Reset:
			did, says, err = "reset", "taint of "+agent+": reset", o.Operator().ResetTaint(ctx, bcp.AgentName(agent))
		default:
			err = o.Operator().ReportTaint(ctx, bcp.AgentName(agent), bcp.TaintSource(f.Source.Value))
		}
		if err != nil {
			return err
		}
		return p.Out.Show(map[string]string{"agent": agent, "taint": did}, func() { p.Out.Printf("%s\n", cli.Plain(says)) })
	})
}

func liftSuspension(ctx context.Context, o *client.Client, agent string) error {
	err := o.Operator().Lift(ctx, bcp.AgentName(agent))
	if refused, ok := errors.AsType[*agents.RefusedError](err); ok && refused.Code == bcp.Malformed {
		return cli.Failf("%s is not suspended", cli.Plain(agent)).WithHint("bcpmesh status shows who is")
	}
	return err
}

// isAgent refuses what is no agent of the mesh.
func isAgent(where meshdir.StateFlags, name string) error {
	_, def, err := where.Load()
	if err != nil {
		return err
	}
	var names []string
	for _, a := range def.Agents {
		if string(a.Name) == name {
			return nil
		}
		names = append(names, string(a.Name))
	}
	return cli.UnknownAgent(name, names)
}
