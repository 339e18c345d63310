package byhand

import (
	"context"
	"fmt"
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
	return cli.Group("session", "Open, close and list controllers' sessions",
		`Open, close and list controllers' sessions. A session is one task, to which
budgets, escalations and exposure belong. An ask opens one by itself; it ends
when it is idle for the mesh's idle_timeout.`,
		`  bcpmesh session list
  bcpmesh session open
  bcpmesh session close --as main`,
		sessionListCommand(p), sessionVerbCommand(p, "open", "Open a session if none is open",
			`Open a session of a controller. If none was open, its channels begin new epochs:
their budgets are full again. Within idle_timeout of the end of a session that a
delivery began they do not, so that no reader can have its own budget renewed by
provoking one. With --renew the operator opens new epochs in any case.

Who opens a new session says that the controller begins with a cleared context: the
tasks of its runs are no longer tainted by what it was told before, unless deliveries
still wait for its acknowledgement.`, (*agents.Controller).OpenSession),
		sessionVerbCommand(p, "close", "Close the session, and cancel its open queries",
			`Close a controller's session. Its open queries are cancelled, at the price of a
failure; items that wait for a person stay.`, (*agents.Controller).CloseSession))
}

func sessionVerbCommand(p *cli.Program, verb, short, long string, do func(*agents.Controller, context.Context) error) *cobra.Command {
	var who client.Flags
	var wait cli.DurationFlag
	var renew bool
	cmd := &cobra.Command{
		Use:     verb,
		Short:   short,
		Long:    long,
		Example: "  bcpmesh session " + verb + "\n  bcpmesh session " + verb + " --as main --json",
		Args:    cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.Value)
			defer cancel()
			c, err := who.Connect(ctx, bcp.RoleController)
			if err != nil {
				return err
			}
			defer c.Close()
			if renew {
				err = renewEpochs(ctx, who.Where, c.Name)
			} else {
				err = do(agents.NewController(c.Connection), ctx)
			}
			if err != nil {
				return meshdir.Failure(err)
			}
			if p.Out.JSON {
				return p.Out.Value(map[string]string{"controller": string(c.Name), "session": verb})
			}
			p.Out.Printf("session of %s: %s\n", c.Name, verb)
			return nil
		},
	}
	who.AddTo(cmd, "controller")
	cli.WaitFlag(cmd, &wait, 30*time.Second, "how long to try")
	if verb == bcp.VerbOpen {
		cmd.Flags().BoolVar(&renew, "renew", false, "as the operator: open new epochs in any case")
	}
	return cmd
}

// renewEpochs acts as the operator.
func renewEpochs(ctx context.Context, where meshdir.StateFlags, controller bcp.AgentName) error {
	o, err := client.ConnectOperator(ctx, where)
	if err != nil {
		return err
	}
	defer o.Close()
	return o.Operator().Renew(ctx, controller)
}

func sessionListCommand(p *cli.Program) *cobra.Command {
	return client.OperatorCommand(&cobra.Command{
		Use:   "list",
		Short: "Show the newest session of each controller",
		Long: `Show the newest session of each controller: whether it is open, who began it, how
far hostile content has reached it (exposure), and what it has left on each of
its channels: bits of the epoch, escalations, and what is open, held for a person
or not yet acknowledged.`,
		Example: `  bcpmesh session list
  bcpmesh session list --json`,
		Args: cli.Arguments(0),
	}, nil, func(ctx context.Context, o *client.Client, _ string) error {
		sessions, err := o.Operator().Sessions(ctx)
		if err != nil {
			return err
		}
		if p.Out.JSON {
			return p.Out.Value(map[string]any{"sessions": sessions})
		}
		showSessions(p.Out, sessions)
		client.TalkOfTroubles(p, ctx, o)
		return nil
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
