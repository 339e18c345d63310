package attach

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/office"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// rememberedFile is where the tools of an office keep what they did, in its folder.
const rememberedFile = ".done"

func toolOfficeCommand(p *cli.Program) *cobra.Command {
	var o client.AgentFlags
	var from string
	var definition bool
	const example = "bcpmesh tool office ./office --creds office.creds"
	cmd := &cobra.Command{
		Use:   "office DIR",
		Short: "Serve a mailbox, an outbox, contacts, a calendar and files",
		Long: `Serve the tools of an office, whose files are in one folder:

  mail           a Maildir or an mbox file, which is only read
  contacts.vcf   vCards, which are only read
  outbox/        a message for each mail that was sent; a program of yours sends it
  calendar.ics   iCalendar
  files/         text files

--definition prints the file for tools/ that defines them. Remove the tools that no
kernel of yours needs: what is not defined cannot be called. Tools that write do so
once for each call, even if the answer was lost. Started by a mesh as a service's
command, it needs no flags.`,
		Example: "  bcpmesh tool office --definition > tools/office.yaml\n  " + example,
		Args: func(cmd *cobra.Command, args []string) error {
			if definition {
				return cli.Arguments(0)(cmd, args)
			}
			return cli.Arguments(1, "DIR")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if definition {
				_, err := p.Out.Stdout.Write(office.Definition)
				return err
			}
			opened, err := office.Open(args[0], from)
			if err != nil {
				return cli.Failf("%s", err).WithHint("bcpmesh tool office --help says what is in the folder")
			}
			defer func() { _ = opened.Close() }() // every effect is on the disk
			o.Roles = []bcp.Role{bcp.RoleTool}
			if o.FromEnvironment(p.Env, bcp.RoleTool); o.Creds == "" {
				return cli.Usagef("tool office: expected --creds FILE").WithHint("bcpmesh creds issue NAME --role tool --out FILE makes one")
			}
			agent, err := o.Connect(ctx, p, "tool", 4)
			if err != nil {
				return err
			}
			defer agent.Conn.Close()
			return serveTools(ctx, p, agent.Conn, filepath.Join(args[0], rememberedFile), fmt.Sprintf("%s serves the office in %s", agent.Name, cli.Quoted(args[0])),
				func(ctx context.Context, c agents.Call) (any, error) { return opened.Call(ctx, c) })
		},
	}
	o.AddTo(cmd, "creds `FILE` of a tool service (default: $BCPMESH_TOOL_CREDS)")
	cmd.Flags().StringVar(&from, "from", "bcpmesh@localhost", "`ADDRESS` that mails are sent from")
	cmd.Flags().BoolVar(&definition, "definition", false, "print the definition of the tools, and serve nothing")
	return cmd
}
