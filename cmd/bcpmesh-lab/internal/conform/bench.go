package conform

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/bench"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	quick, strict bool
	only          []string
	duration      cli.DurationFlag
	write, state  string
}

// BenchCommand returns the command bench.
func BenchCommand(p *cli.Program) *cobra.Command {
	o := benchOptions{duration: cli.DurationFlag{Least: 10 * time.Millisecond}}
	cmd := &cobra.Command{
		Use: "bench",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range o.only {
				if !slices.Contains(bench.Names(), name) {
					return cli.Usagef("bench: --only: no measurement %s", cli.Quoted(name)).WithHint("expected %s", cli.JoinOr(bench.Names())).Near(name, bench.Names())
				}
			}
			return runBench(cmd.Context(), p, o)
		},
	}
	cmd.Flags().BoolVar(&o.quick, "quick", false, "measure small and short; the figures mean little")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "fail when a target is missed")
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "measure only these: `NAME,…`")
	cmd.Flags().Var(&o.duration, "duration", "how long one measurement of a round takes (default 1s, quick 100ms)")
	cmd.Flags().StringVar(&o.write, "write", "", "write figures to `DIR`, and the tables into their places in DIR.md")
	cmd.Flags().StringVar(&o.state, "state", "", "`DIR` for the temporary state, whose disk is measured (default the system's)")
	cli.Complete(cmd, "only", cobra.FixedCompletions(bench.Names(), cobra.ShellCompDirectiveNoFileComp))
	cli.Complete(cmd, "write", cli.CompleteFolders)
	cli.Complete(cmd, "state", cli.CompleteFolders)
	return cmd
}

// BenchPartCommand is what bench starts itself as. It is no command for people,
// and so it is not listed.
func BenchPartCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:    "bench-part",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Every reply is written at once.
			if err := bench.Serve(cmd.Context(), p.In, os.Stdout); err != nil {
				return cli.Failf("%s", err)
			}
			return nil
		},
	}
}

func runBench(ctx context.Context, p *cli.Program, o benchOptions) error {
	if o.write != "" {
		if err := bench.CheckFiles(o.write); err != nil {
			return cli.Failf("--write %s: %s", cli.Quoted(o.write), cli.FileReason(err))
		}
	}
	program, err := os.Executable()
	if err != nil {
		return cli.Failf("this program cannot be found: %s", cli.FileReason(err))
	}
	folder, err := os.MkdirTemp(o.state, "bcpmesh-bench-")
	if err != nil {
		return cli.Failf("a temporary folder: %s", cli.FileReason(err))
	}
	defer func() { _ = os.RemoveAll(folder) }() // we made it, and nothing in it is of use
	report, err := bench.Run(ctx, bench.Options{
		Only: o.only, Quick: o.quick, Duration: o.duration.Value, State: folder, Version: cli.ProgramVersion(),
		Command: func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, program, "bench-part")
			cmd.Args[0] = os.Args[0]
			cmd.Stderr = p.Out.Stderr
			return cmd
		},
		Progress: func(done, all int, next string) {
			if p.Out.TalkTerminal {
				p.Out.Talkf("%d of %d: %s", done+1, all, next)
			}
		},
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return cli.Failf("%s", err)
	}
	if o.write != "" {
		if err := report.WriteFiles(o.write); err != nil {
			return cli.Failf("--write %s: %s", cli.Quoted(o.write), cli.FileReason(err))
		}
	}
	if err := showBench(p.Out, report); err != nil {
		return err
	}
	if missed := report.Missed(); o.strict && len(missed) > 0 {
		return cli.Failf("%s missed", cli.Count(len(missed), "target"))
	}
	return nil
}

func showBench(o *cli.Output, r *bench.Report) error {
	if o.JSON {
		return o.Value(r)
	}
	o.Printf("%s\n", cli.Plain(r.Machine.String()))
	if len(r.Figures) > 0 {
		o.Heading("\nFigures")
		o.Table(bench.FigureHeader, r.FigureRows())
	}
	o.Printf("\n%s, %s of %s each, %s\n", cli.Count(len(r.Missed()), "target")+" missed", cli.Count(r.Rounds, "round"), r.Round, r.Took)
	return nil
}
