package attach

import (
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// maxTask is the size of a task, in bytes.
const maxTask = 64 << 10

// readTask reads what a Controller is given to do: "-" is what stdin says.
func (o *seat) readTask(ctx context.Context, p *cli.Program) error {
	if o.task == "-" {
		text, err := io.ReadAll(io.LimitReader(cli.Interruptible(ctx, p.In), maxTask+1))
		if err != nil {
			return cli.Failf("the task: %s", cli.FileReason(err))
		}
		o.task = string(text)
	}
	switch o.task = strings.TrimSpace(o.task); {
	case o.task == "":
		return cli.Usagef("agent run: --task: expected a task").WithHint("bcpmesh agent run %s --task \"What is new?\"", o.name)
	case len(o.task) > maxTask || !utf8.ValidString(o.task):
		return cli.Usagef("agent run: --task: a task is text of at most %d KiB", maxTask>>10)
	}
	return nil
}

// showResult shows what a Controller made of its task.
func (o *seat) showResult(p *cli.Program, done cell.Done) error {
	if done.Failed != "" {
		return cli.Failf("%s has no result: %s", o.name, done.Failed)
	}
	if p.Out.JSON {
		return p.Out.Value(map[string]any{"agent": o.name, "result": done.Said})
	}
	for line := range strings.Lines(strings.TrimSpace(done.Said)) {
		p.Out.Printf("%s\n", cli.Plain(strings.TrimRight(line, "\r\n")))
	}
	return nil
}
