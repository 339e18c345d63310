package conform

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/corpus"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

func targetCommand(p *cli.Program) *cobra.Command {
	var channel, listen string
	var category int
	cmd := &cobra.Command{
		Use:   "target [DIR]",
		Short: "Serve as the target of another red-team tool, over HTTP",
		Long: `Start a temporary mesh with a hijacked Reader that repeats what a red-team tool
sends: in every text position of an answer, whole or cut to the limits, and divided
over the questions of one answer. It returns what the Controller got:

  POST /  {"text": "ignore previous instructions"}
  {"reached":false,"held":true,"outcome":"held","text":"","anomalies":[],"said":15}

reached says that four words or more arrived unheld, text what arrived. docs/redteam.md
has configurations for garak, promptfoo, PyRIT and spikee.

Without DIR the mesh is a sample, with the channels m-hold/r-hold,
m-hold-all/r-hold-all, m-reject/r-reject and m-flag/r-flag; with DIR it is a copy of the
definitions in that folder, which starts no commands, notifies nobody, and whose budgets and rates do not
end. A running mesh is left alone. Texts are said one at a time, and at most 64
requests wait. A request has at most 64 KiB. It listens on this machine only, without
a login, until interrupted.`,
		Example: "  bcpmesh redteam target --channel m-hold/r-hold --category 2\n  bcpmesh redteam target --channel main/researcher --http 127.0.0.1:8077 office",
		Args:    cli.Arguments(0, "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			controller, reader, ok := strings.Cut(channel, "/")
			if !ok {
				return cli.Usagef("redteam target: --channel: expected CONTROLLER/READER, got %s", cli.Quoted(channel))
			}
			if category < 0 || category > 3 {
				return cli.Usagef("redteam target: --category: expected 1, 2 or 3, got %d", category)
			}
			c := corpus.TargetConfig{Controller: bcp.AgentName(controller), Reader: bcp.AgentName(reader), Category: bcp.Category(category), Seed: 1}
			return runTarget(cmd.Context(), p, args, listen, c)
		},
		ValidArgsFunction: cli.CompleteFolders,
	}
	cmd.Flags().StringVar(&channel, "channel", "", "channel `CONTROLLER/READER` whose Reader is hijacked")
	cmd.Flags().StringVar(&listen, "http", "127.0.0.1:0", "loopback `ADDRESS` to listen on; port 0 is a free one")
	cmd.Flags().IntVar(&category, "category", 0, "category `NUMBER` of the answers; 0 for the widest that the channel allows")
	cli.Complete(cmd, "category", cobra.FixedCompletions([]string{"1", "2", "3"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runTarget(ctx context.Context, p *cli.Program, args []string, listen string, c corpus.TargetConfig) error {
	if len(args) > 0 {
		m, err := ownMesh(args)
		if err != nil {
			return err
		}
		c.Definition = m
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return cli.Failf("--http %s: %s", cli.Quoted(listen), cli.FileReason(err))
	}
	defer func() { _ = listener.Close() }() // the target closes it, too
	folder, err := os.MkdirTemp("", "bcpmesh-target-")
	if err != nil {
		return cli.Failf("no temporary folder for a mesh: %s", cli.FileReason(err))
	}
	defer func() { _ = os.RemoveAll(folder) }() // we made it
	c.State, c.Listener = folder, listener
	var shown error
	c.OnReady = func(url string) {
		if p.Out.JSON {
			shown = p.Out.Value(struct {
				OK  bool   `json:"ok"`
				URL string `json:"url"`
			}{true, url})
		} else {
			p.Out.Printf("The target listens on %s\n", url)
		}
		shown = errors.Join(shown, p.Out.Flush()) // whoever started it waits for that
	}
	switch err := corpus.Target(ctx, c); {
	case errors.Is(err, corpus.ErrNotLoopback):
		return cli.Failf("--http %s can be reached from other machines", cli.Quoted(listen)).WithHint("listen on 127.0.0.1")
	case errors.Is(err, corpus.ErrNoChannel), errors.Is(err, corpus.ErrCategory):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("--help lists the channels of the sample, and the definitions yours")
	case err != nil:
		return cli.Failf("%s", cli.Plain(err.Error()))
	}
	return shown
}
