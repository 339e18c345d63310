package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/mesh/bench"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	quick, strict bool
	only          []string
	duration      durationFlag
	plots, state  string
	profile       string
}

func benchCommand(p *program) *cobra.Command {
	o := benchOptions{duration: durationFlag{least: 10 * time.Millisecond}}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what the protocol costs above its floors, on this machine",
		Long: `Measure meshes of their own against floors, in one run: the same NATS path with
an echo in place of the gateway (A), and with a bare, fsynced, shared record and
no protocol (B). Server, accounts, journal and fsync are real; the agents are a
process of their own, over TCP, with creds. The sides take turns, so that ratios
hold where other work makes every figure noisy.

Measurements: ` + measurementNames(bench.Names()) + `

A target that is missed is shown, and is no failure without --strict. Everything
takes about eleven minutes, and --quick, which shows only that it works, less than
half a minute.`,
		Example: `  bcpmesh bench
  bcpmesh bench --quick --json
  bcpmesh bench --only push,flow --duration 3s
  bcpmesh bench --plots docs/performance`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range o.only {
				if !slices.Contains(bench.Names(), name) {
					f := usagef("bench: --only: no measurement %s", quoted(name))
					if near := suggestion(name, bench.Names()); near != "" {
						return f.withHint("did you mean %s?", near)
					}
					return f.withHint("expected %s", oneOf(bench.Names()))
				}
			}
			return runBench(cmd.Context(), p, o)
		},
	}
	cmd.Flags().BoolVar(&o.quick, "quick", false, "measure small and short; the figures say little")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "fail when a target is missed")
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "measure these alone: `NAME,…`")
	cmd.Flags().Var(&o.duration, "duration", "how long one measurement of a round takes (default 1s, quick 100ms)")
	cmd.Flags().StringVar(&o.plots, "plots", "", "write plots and figures to `DIR`, and the tables into DIR.md where they stand")
	cmd.Flags().StringVar(&o.state, "state", "", "make the temporary state in `DIR`: its disk is measured (default the system's)")
	cmd.Flags().StringVar(&o.profile, "profile", "", "write processor profiles of the meshes to `DIR`, for go tool pprof")
	complete(cmd, "profile", completeFolders)
	complete(cmd, "only", cobra.FixedCompletions(bench.Names(), cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "plots", completeFolders)
	complete(cmd, "state", completeFolders)
	return cmd
}

// measurementNames writes names in lines that a help has room for.
func measurementNames(names []string) string {
	const half = 5
	return strings.Join(names[:half], ", ") + ",\n" + strings.Join(names[half:], ", ") + "."
}

// benchPartCommand is what bench starts itself as. It is no command for people,
// and so it is not listed.
func benchPartCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use:    "bench-part",
		Hidden: true,
		Short:  "Be one process of bcpmesh bench",
		Long: `Be one process of "bcpmesh bench", which starts it: orders come on stdin, and
replies go to stdout.`,
		Example: "  bcpmesh bench-part < orders",
		Args:    arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := bench.Serve(cmd.Context(), p.in, partOutput{p.out}); err != nil {
				return failf("%s", err)
			}
			return nil
		},
	}
}

// partOutput writes every reply at once.
type partOutput struct{ out *output }

// Write writes one reply.
func (o partOutput) Write(b []byte) (int, error) {
	n, err := o.out.stdout.Write(b)
	if err == nil {
		err = o.out.stdout.Flush()
	}
	return n, err
}

func runBench(ctx context.Context, p *program, o benchOptions) error {
	if o.plots != "" {
		if err := bench.CheckFiles(o.plots); err != nil {
			return failf("--plots %s: %s", quoted(o.plots), reasonOf(err))
		}
	}
	program, err := os.Executable()
	if err != nil {
		return failf("this program cannot be found: %s", reasonOf(err))
	}
	folder, err := os.MkdirTemp(o.state, "bcpmesh-bench-")
	if err != nil {
		return failf("a temporary folder: %s", reasonOf(err))
	}
	defer func() { _ = os.RemoveAll(folder) }() // we made it, and nothing in it is of use
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o700); err != nil {
			return failf("--profile %s: %s", quoted(o.profile), reasonOf(err))
		}
	}
	var bar *progressbar.ProgressBar
	report, err := bench.Run(ctx, bench.Options{
		Only: o.only, Quick: o.quick, Duration: o.duration.value, State: folder, Profile: o.profile, Version: programVersion(),
		Command: func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, program, "bench-part")
			cmd.Args[0] = os.Args[0]
			cmd.Stderr = p.out.stderr
			return cmd
		},
		Progress: func(done, all int, next string) {
			if !p.out.talkTerminal {
				return
			}
			if bar == nil {
				bar = progressbar.NewOptions(all, progressbar.OptionSetWriter(p.out.stderr), progressbar.OptionShowCount(),
					progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(true))
			}
			bar.Describe(next)
			_ = bar.Set(done) // it is talk
		},
	})
	if bar != nil {
		_ = bar.Exit() // it is talk
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return failf("%s", err)
	}
	if o.plots != "" {
		if err := report.WriteFiles(o.plots); err != nil {
			return failf("--plots %s: %s", quoted(o.plots), reasonOf(err))
		}
	}
	if err := showBench(p.out, report); err != nil {
		return err
	}
	if missed := report.Missed(); o.strict && len(missed) > 0 {
		return failf("%s missed", count(len(missed), "target"))
	}
	return nil
}

func showBench(o *output, r *bench.Report) error {
	if o.json {
		return o.value(r)
	}
	o.printf("%s\n", plain(r.Machine.String()))
	if len(r.Figures) > 0 {
		o.heading("\nFigures")
		o.table(bench.FigureHeader, r.FigureRows())
	}
	if len(r.Loads) > 0 {
		o.heading("\nPaths")
		o.table(bench.LoadHeader, r.LoadRows())
	}
	if len(r.Curves) > 0 {
		o.heading("\nCurves")
		o.table(bench.CurveHeader, r.CurveRows())
	}
	o.printf("\n%s, %s of %s each, %s\n", count(len(r.Missed()), "target")+" missed", count(r.Rounds, "round"), r.Round, r.Took)
	return nil
}
