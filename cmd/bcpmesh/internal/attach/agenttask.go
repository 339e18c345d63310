package attach

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// maxTask is the size of a task, in bytes.
const maxTask = 64 << 10

func agentTaskCommand(p *cli.Program) *cobra.Command {
	var o seat
	cmd := &cobra.Command{
		Use:   "task NAME [TEXT]",
		Short: "Give a Controller a task and wait for the result",
		Long: `Give a Controller with "command: builtin" a task in words. Its model works on it: it
asks the Readers that the definition lets it ask, in the categories and within the
budgets of their channels, and reports the result. Without TEXT the task is read from
stdin.

Write the task yourself: the model follows it. Readers' answers are data to it, and a
hijacked Reader can choose every value of its answers. So treat the result as hearsay,
not as fact.

The folder's mesh must be running. The Controller is started for this task alone; what
Readers publish meanwhile is left to the one that the mesh runs.`,
		Example: `  bcpmesh agent task main "Which releases of this week concern us?"
  bcpmesh agent task main --json < task.txt`,
		Args: cli.Arguments(1, "NAME", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = bcp.AgentName(args[0])
			if len(args) == 2 {
				o.task = args[1]
			} else {
				text, err := io.ReadAll(io.LimitReader(cli.Interruptible(cmd.Context(), p.In), maxTask+1))
				if err != nil {
					return cli.Failf("the task: %s", cli.FileReason(err))
				}
				o.task = string(text)
			}
			switch o.task = strings.TrimSpace(o.task); {
			case o.task == "":
				return cli.Usagef("agent task: expected a task").WithHint("bcpmesh agent task %s \"What is new?\"", o.name)
			case len(o.task) > maxTask || !utf8.ValidString(o.task):
				return cli.Usagef("agent task: a task is text of at most %d KiB", maxTask>>10)
			}
			done, err := o.run(cmd.Context(), p)
			switch {
			case err != nil:
				return err
			case cmd.Context().Err() != nil:
				return cmd.Context().Err()
			case done.Failed != "":
				return cli.Failf("%s has no result: %s", o.name, done.Failed)
			}
			if p.Out.JSON {
				return p.Out.Value(map[string]any{"agent": o.name, "result": done.Said})
			}
			for line := range strings.Lines(strings.TrimSpace(done.Said)) {
				p.Out.Printf("%s\n", cli.Plain(strings.TrimRight(line, "\r\n")))
			}
			return nil
		},
		ValidArgsFunction: meshdir.CompleteAgents(false),
	}
	o.addTo(cmd)
	return cmd
}
