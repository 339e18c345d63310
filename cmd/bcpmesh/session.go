package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

func sessionCommand(p *program) *cobra.Command {
	return group("session", "Open and close a controller's session",
		`Open and close a controller's session: one task, to which budgets, escalations and
exposure belong. An ask opens one by itself; it ends when it is idle for the
mesh's idle_timeout.`,
		`  bcpmesh session open
  bcpmesh session close --as main`,
		sessionVerbCommand(p, "open", "Open a session, where none is open",
			`Open a session of a controller. Where none was open, its channels begin new
epochs: their budgets are full again. Within idle_timeout of the end of a session
that a delivery began they do not, so that no reader can have its own budget
renewed by provoking one.`, (*agents.Controller).OpenSession),
		sessionVerbCommand(p, "close", "Close the session, and cancel its open queries",
			`Close a controller's session. Its open queries are cancelled, at the price of a
failure; what waits for a person stays.`, (*agents.Controller).CloseSession))
}

func sessionVerbCommand(p *program, verb, short, long string, do func(*agents.Controller, context.Context) error) *cobra.Command {
	var who clientFlags
	var wait durationFlag
	cmd := &cobra.Command{
		Use:     verb,
		Short:   short,
		Long:    long,
		Example: "  bcpmesh session " + verb + "\n  bcpmesh session " + verb + " --as main --json",
		Args:    arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.value)
			defer cancel()
			c, err := who.connect(ctx, bcp.RoleController)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := do(agents.NewController(c.Connection), ctx); err != nil {
				return outcomeOf(err)
			}
			if p.out.json {
				return p.out.value(map[string]string{"controller": string(c.name), "session": verb})
			}
			p.out.printf("session of %s: %s\n", c.name, verb)
			return nil
		},
	}
	who.addTo(cmd, "controller")
	waitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cmd
}
