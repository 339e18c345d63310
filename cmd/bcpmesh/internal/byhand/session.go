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

// SessionCommand returns the command session.
func SessionCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var wait cli.DurationFlag
	var renew bool
	cmd := &cobra.Command{
		Use:       "session [open|close]",
		ValidArgs: []string{bcp.VerbOpen, bcp.VerbClose},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !slices.Contains(cmd.ValidArgs, args[0]) {
				return cli.MissingCommand(cmd, args)
			}
			return cli.Arguments(0, "open or close")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if len(args) == 0 {
				for _, flag := range []string{"as", "creds", "url", "renew"} {
					if cmd.Flags().Changed(flag) {
						return cli.Usagef("session: --%s is for open and close", flag)
					}
				}
				return client.AsOperator(ctx, who.Where, wait.Value, func(ctx context.Context, o *client.Client) error { return listSessions(ctx, p, o) })
			}
			if renew && args[0] != bcp.VerbOpen {
				return cli.Usagef("session close: --renew is for open")
			}
			return who.Act(ctx, bcp.RoleController, wait.Value, func(ctx context.Context, c *client.Client) (err error) {
				switch {
				case renew:
					err = client.AsOperator(ctx, who.Where, wait.Value, func(ctx context.Context, o *client.Client) error { return o.Operator().Renew(ctx, c.Name) })
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
		},
	}
	who.AddTo(cmd, "controller")
	cli.WaitFlag(cmd, &wait, 30*time.Second, "how long to try")
	cmd.Flags().BoolVar(&renew, "renew", false, "as the operator: open new epochs in any case")
	return cmd
}

func listSessions(ctx context.Context, p *cli.Program, o *client.Client) error {
	sessions, err := o.Operator().Sessions(ctx)
	if err != nil {
		return err
	}
	return p.Out.Show(map[string]any{"sessions": sessions}, func() { showSessions(p.Out, sessions) })
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

// TaintCommand returns the command taint.
func TaintCommand(p *cli.Program) *cobra.Command {
	var reset, lift bool
	source := cli.WordFlag{Words: cli.Map(bcp.TaintSources(), func(s bcp.TaintSource) string { return string(s) })}
	cmd := &cobra.Command{
		Use: "taint AGENT",
	}
	source.AddTo(cmd, "source", "where it came from")
	cmd.Flags().BoolVar(&reset, "reset", false, "forget the reported and delivered taint")
	cmd.Flags().BoolVar(&lift, "lift", false, "end its suspension")
	cmd.MarkFlagsMutuallyExclusive("source", "reset", "lift")
	return client.OperatorCommand(cmd, func(where meshdir.StateFlags, agent string) error {
		if lift { // of a tool service, too
			return nil
		}
		if (source.Value == "") != reset {
			return cli.Usagef("taint: expected --source, --reset or --lift").WithHint("a source is one of %s", strings.Join(source.Words, ", "))
		}
		return isAgent(where, agent)
	}, func(ctx context.Context, o *client.Client, agent string) error {
		did, err := "report", error(nil)
		if lift {
			did, err = "lifted", liftSuspension(ctx, o, agent)
		} else if reset {
			did, err = "reset", o.Operator().ResetTaint(ctx, bcp.AgentName(agent))
		} else {
			err = o.Operator().ReportTaint(ctx, bcp.AgentName(agent), bcp.TaintSource(source.Value))
		}
		switch {
		case err != nil:
			return err
		case p.Out.JSON:
			return p.Out.Value(map[string]string{"agent": agent, "taint": did})
		}
		if lift {
			p.Out.Printf("%s is not suspended any more\n", cli.Plain(agent))
			return nil
		}
		p.Out.Printf("taint of %s: %s\n", agent, did)
		return nil
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
