package cell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/sandbox"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// The words of this package's commands.
const enterWord, tryWord, keepWord = "cell-enter", "cell-try", "cell-keep"

// EnterCommand returns the command with which this program confines itself. It is no command for people, and so it is not
// listed.
func EnterCommand() *cobra.Command {
	return &cobra.Command{
		Use:    enterWord + " SPEC",
		Hidden: true,
		Short:  "Confine this process and run a program in its place",
		Long: `Confine this process by a SPEC, which "bcpmesh agent" writes, and execute the program
that it names.`,
		Example: "  bcpmesh cell-enter SPEC",
		Args:    cli.Arguments(1, "SPEC"),
		RunE: func(_ *cobra.Command, args []string) error {
			return cli.Failf("the program was not started, because it could not be confined: %s", sandbox.Enter(args[0], os.Environ()))
		},
	}
}

// TryCommand returns the command that tries what a confined program may not. It is no command for people either.
func TryCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:    tryWord + " BAIT",
		Hidden: true,
		Short:  "Try to break out of the sandbox",
		Long: `Try to reach a BAIT, which "bcpmesh doctor --sandbox" lays out, and report what was
reached.`,
		Example: "  bcpmesh cell-try BAIT --json",
		Args:    cli.Arguments(1, "BAIT"),
		RunE: func(_ *cobra.Command, args []string) error {
			var b sandbox.Bait
			if err := json.Unmarshal([]byte(args[0]), &b, json.RejectUnknownMembers(true)); err != nil {
				return cli.Usagef("cell-try: BAIT is not understood")
			}
			return p.Out.Value(sandbox.Try(b))
		},
	}
}

// KeepCommand returns the command that keeps a confined program with a child, until it is killed. It is no command for people
// either.
func KeepCommand() *cobra.Command {
	return &cobra.Command{
		Use:    keepWord,
		Hidden: true,
		Short:  "Keep a confined program with a child until killed",
		Long: `Run a confined program that has a child and ignores what it can, for
"bcpmesh doctor --sandbox", which kills this command and looks for what is left.`,
		Example: "  bcpmesh cell-keep",
		Args:    cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			const shell, script = "/bin/sh", `trap "" HUP INT TERM; (sleep 600; :) & echo; wait; sleep 600; :`
			family, err := Confined(sandbox.Spec{Path: shell, Args: []string{shell, "-c", script}, Memory: sandbox.DefaultMemory})
			if err != nil {
				return err
			}
			printed, theirs, err := os.Pipe() // its line comes when we are its keeper, and not before
			if err != nil {
				return err
			}
			family.Env, family.Stdout, family.ExtraFiles = process.Scrub(os.Environ()), theirs, []*os.File{os.Stdout}
			running, err := process.Start(family)
			if err != nil {
				return err
			}
			_ = theirs.Close() // it has its own
			if _, err := printed.Read(make([]byte, 1)); err != nil {
				return err
			}
			if _, err := os.Stdout.WriteString("\n"); err != nil {
				return err
			}
			select {
			case <-running.Done():
			case <-cmd.Context().Done():
			}
			return nil
		},
	}
}

// endPatience is how long the programs of a killed keeper may take to end.
const endPatience = 10 * time.Second

// Outlives reports whether something of a confined program goes on after its keeper was killed.
func Outlives(ctx context.Context) (bool, error) {
	program, err := os.Executable()
	if err != nil {
		return false, err
	}
	family, theirs, err := os.Pipe() // all of them hold its other end
	if err != nil {
		return false, err
	}
	defer family.Close()
	keeper := exec.CommandContext(ctx, program, keepWord)
	keeper.Stdout = theirs
	err = keeper.Start()
	_ = theirs.Close() // it has its own
	if err != nil {
		return false, err
	}
	_, failed := family.Read(make([]byte, 1))
	_ = errors.Join(keeper.Process.Kill(), keeper.Wait()) // it was killed
	if failed != nil {
		return false, errors.New("the keeper kept nothing")
	}
	if err := family.SetReadDeadline(time.Now().Add(endPatience)); err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, family)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true, nil
	}
	return false, err
}

// Keeper is the argv of this program that keeps a confined command, nil if this program cannot be found.
func Keeper() []string {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{program, "agent"}
}

// Confined returns the command that runs a program confined.
func Confined(s sandbox.Spec) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return s.Command([]string{program, enterWord})
}

// Killed reports whether a process that confines itself is killed for a system call, as by the filter of a unit or container.
func Killed() bool {
	program, err := os.Executable()
	if err != nil {
		return false
	}
	cmd, err := Confined(sandbox.Spec{Path: program, Args: []string{program, "--help"}, Memory: sandbox.DefaultMemory})
	if err != nil {
		return false
	}
	_ = cmd.Run() // what becomes of it is looked at below
	return strings.HasPrefix(cmd.ProcessState.String(), "signal: bad system call")
}

// Attempts has a confined process of this program try what it may not, and returns what became of it. Nothing stays. A
// local one has a network with its keeper alone.
func Attempts(ctx context.Context, local bool) (outcomes []sandbox.Outcome, err error) {
	folder, err := os.MkdirTemp("", "bcpmesh-sandbox")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	bait, end, err := sandbox.NewBait(folder)
	if err != nil {
		return nil, err
	}
	defer end()
	text, err := json.Marshal(bait)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd, err := Confined(sandbox.Spec{Path: program, Args: []string{program, tryWord, string(text), "--json"}, Memory: sandbox.DefaultMemory, Local: local})
	if err != nil {
		return nil, err
	}
	started := func() {}
	if local {
		theirs, accept, err := sandbox.Listen(cmd)
		if err != nil {
			return nil, err
		}
		defer theirs.Close()
		started = func() {
			_ = theirs.Close() // it has its own
			if listener, err := accept(); err == nil {
				_ = listener.Close() // nobody is there
			}
		}
	}
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = process.Scrub(os.Environ()), &stdout, &stderr
	running, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	started()
	select {
	case <-running.Done():
	case <-ctx.Done():
		running.Kill()
		<-running.Done()
		return nil, context.Cause(ctx)
	}
	if !running.State().Success() {
		return nil, fmt.Errorf("%s: %s", running.State(), bytes.TrimSpace(stderr.Bytes()))
	}
	return outcomes, json.Unmarshal(stdout.Bytes(), &outcomes)
}
