package conform

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/conformance"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// conformanceFlags say which agent is tested, and how.
type conformanceFlags struct {
	role                 bcp.Role
	agent, listen, creds string
	encoding             cli.WordFlag
	categories           []int
	arrival, patience    cli.DurationFlag
}

// ConformanceCommand returns the command conformance.
func ConformanceCommand(p *cli.Program) *cobra.Command {
	return cli.Group("conformance", conformanceRole(p, bcp.RoleReader), conformanceRole(p, bcp.RoleController))
}

func conformanceRole(p *cli.Program, role bcp.Role) *cobra.Command {
	f := conformanceFlags{
		role: role, encoding: cli.WordFlag{Value: "json", Words: []string{"json", "msgpack"}},
		arrival: cli.DurationFlag{Value: 5 * time.Minute, Least: time.Second}, patience: cli.DurationFlag{Value: 30 * time.Second, Least: time.Second},
	}
	word := role.String()
	cmd := &cobra.Command{
		Use: word + " [-- COMMAND [ARG...]]",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return cli.Usagef("conformance %s: one argument too many: %s", word, cli.Quoted(args[0])).WithHint("a command to start goes after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			cli.IgnoreBrokenPipes()
			return runConformance(p, cmd.Context(), f, args)
		},
	}
	cmd.Flags().StringVar(&f.agent, "agent", "candidate", "`NAME` of the agent under test")
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "`HOST:PORT` to serve on; port 0 means any free one")
	cmd.Flags().StringVar(&f.creds, "creds", "", "new `FILE` for the agent's creds, otherwise removed")
	cmd.Flags().Var(&f.arrival, "arrival", "how long to wait for the agent to connect")
	cmd.Flags().Var(&f.patience, "patience", "how long it may take to answer or acknowledge")
	cmd.Flags().Var(&f.encoding, "encoding", "encoding of the agent")
	cli.Complete(cmd, "encoding", cobra.FixedCompletions(f.encoding.Words, cobra.ShellCompDirectiveNoFileComp))
	if role == bcp.RoleReader {
		cmd.Flags().IntSliceVar(&f.categories, "categories", []int{1, 2, 3}, "categories to ask in")
	}
	return cmd
}

// chosenEncoding is the encoding that the flags say.
func (f *conformanceFlags) chosenEncoding() bcp.Encoding {
	if f.encoding.Value == "msgpack" {
		return bcp.MessagePack
	}
	return bcp.JSON
}

func runConformance(p *cli.Program, ctx context.Context, f conformanceFlags, command []string) error {
	if f.creds != "" {
		if err := cli.CheckNewFile(f.creds); err != nil {
			return err
		}
	}
	config := conformance.Config{
		Role: f.role, Agent: bcp.AgentName(f.agent), Listen: f.listen, Encoding: f.chosenEncoding(), Arrival: f.arrival.Value, Patience: f.patience.Value,
		OnCheck: func(c conformance.Check) { p.Out.Talkf("%s %s", c.ID, c.Result) },
	}
	var err error
	if config.Categories, err = f.asked(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "bcpmesh-conformance-")
	if err != nil {
		return cli.Failf("no temporary folder for a mesh: %s", cli.FileReason(err))
	}
	defer func() { _ = os.RemoveAll(folder) }() // we made it
	config.State = filepath.Join(folder, "state")
	rig, err := conformance.Start(context.WithoutCancel(ctx), config)
	if errors.Is(err, server.ErrPlaintext) {
		return cli.Failf("--listen %s can be reached from other machines", cli.Quoted(f.listen)).WithHint("listen on 127.0.0.1, and have the agent come through a tunnel")
	}
	if err != nil {
		return cli.Failf("%s", err)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.Background(), cli.StopTimeout)
		defer cancel()
		_ = rig.Stop(stop) // nothing of it is kept
	}()
	creds := f.creds
	if creds == "" {
		creds = filepath.Join(folder, f.agent+".creds")
	}
	if err := rig.Creds().WriteFile(creds); err != nil {
		return cli.Failf("%s", err)
	}
	checked, end := ctx, func() error { return nil }
	if len(command) > 0 {
		if checked, end, err = runCandidate(p, ctx, f, rig, creds, command); err != nil {
			return err
		}
	} else {
		p.Out.Talkf("waiting for %s as %s at %s with %s and the inbox prefix _INBOX.%s", f.agent, f.role, rig.URL(), creds, f.agent)
	}
	report := rig.Check(checked)
	ended := end()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !report.Arrived {
		if ended != nil {
			return cli.Failf("the command ended before it connected: %s", ended)
		}
		return cli.Failf("no agent connected within %s", f.arrival.Value).WithHint("it must use the creds and the inbox prefix _INBOX.%s", f.agent)
	}
	err = concludeConformance(p, report)
	var fault *cli.Failure
	if ended != nil && errors.As(err, &fault) {
		return fault.WithHint("the command ended by itself: %s", ended)
	}
	return err
}

// concludeConformance shows the checklist, and says what failed.
func concludeConformance(p *cli.Program, report conformance.Report) error {
	if err := showConformance(p, report); err != nil || report.OK() {
		return err
	}
	failed := report.Failed()
	return cli.Failf("%s of %d failed: %s", cli.Count(len(failed), "check"), len(report.Checks), strings.Join(failed, ", ")).
		WithHint("bcp/PROTOCOL.md has the rule of each check")
}

// asked returns the categories that a Reader is asked in.
func (f *conformanceFlags) asked() (list []bcp.Category, err error) {
	for _, c := range f.categories {
		if c < 1 || c > 3 {
			return nil, cli.Usagef("conformance: --categories: expected some of 1, 2 and 3, got %d", c)
		}
		list = append(list, bcp.Category(c))
	}
	return list, nil
}

// errExited is why checks end before their time.
var errExited = errors.New("exit status 0")

// runCandidate starts the agent under test. The context ends with it; end ends
// it, and tells why it had ended before.
func runCandidate(p *cli.Program, ctx context.Context, f conformanceFlags, rig *conformance.Rig, creds string, command []string) (context.Context, func() error, error) {
	checked, cancel := context.WithCancelCause(ctx)
	creds, err := filepath.Abs(creds)
	if err != nil {
		cancel(nil)
		return nil, nil, cli.Failf("%s: %s", cli.Quoted(creds), cli.FileReason(err))
	}
	run := exec.CommandContext(checked, command[0], command[1:]...)
	run.Env = append(os.Environ(), "BCPMESH_URL="+rig.URL(), "BCPMESH_AGENT="+f.agent, "BCPMESH_ENCODING="+f.encoding.Value,
		"BCPMESH_"+strings.ToUpper(f.role.String())+"_CREDS="+creds)
	run.Stdout, run.Stderr = p.Out.Stderr, p.Out.Stderr
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	run.WaitDelay = 5 * time.Second
	if err := run.Start(); err != nil {
		cancel(nil)
		return nil, nil, cli.Failf("the command %s cannot be started: %s", cli.Quoted(command[0]), cli.FileReason(err))
	}
	done := make(chan error, 1)
	go func() {
		err := run.Wait()
		if err == nil {
			err = errExited
		}
		if checked.Err() != nil { // it was ended
			err = nil
		}
		done <- err
		cancel(errExited)
	}()
	return checked, func() error {
		cancel(nil)
		return <-done
	}, nil
}

func showConformance(p *cli.Program, r conformance.Report) error {
	if p.Out.JSON {
		return p.Out.Value(struct {
			OK bool `json:"ok"`
			conformance.Report
		}{r.OK(), r})
	}
	p.Out.Heading("Conformance of a " + r.Role.String())
	var rows [][]string
	for _, c := range r.Checks {
		text := c.Text
		if c.Detail != "" {
			text += "\n(" + c.Detail + ")"
		}
		rows = append(rows, []string{c.ID, c.Result.String(), text})
	}
	p.Out.Table([]string{"id", "result", "the agent"}, rows)
	return nil
}
