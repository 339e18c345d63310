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

// The words of this package's command.
const cellWord, enterWord, tryWord, keepWord = "cell", "enter", "try", "keep"

// Command returns the command with which this program confines itself, tries what a confined program may not, and keeps one
// until it is killed; run is what it does in a cell. It is no command for people, and so it is not listed.
func Command(p *cli.Program, run func(context.Context, *cli.Program) error) *cobra.Command {
	return &cobra.Command{
		Use:    cellWord + " [enter SPEC|try BAIT|keep]",
		Hidden: true,
		Args:   cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch word := strings.Join(args[:min(len(args), 1)], ""); {
			case len(args) == 0:
				return run(cmd.Context(), p)
			case word == keepWord && len(args) == 1:
				return keep(cmd.Context())
			case word == enterWord && len(args) == 2:
				return cli.Failf("the program was not started, because it could not be confined: %s", sandbox.Enter(args[1], os.Environ()))
			case word == tryWord && len(args) == 2:
				var b sandbox.Bait
				if err := json.Unmarshal([]byte(args[1]), &b, json.RejectUnknownMembers(true)); err != nil {
					return cli.Usagef("cell: BAIT is not understood")
				}
				return p.Out.Value(sandbox.Try(b))
			}
			return cli.Usagef("cell: bcpmesh starts it")
		},
	}
}

// keep keeps a confined program with a child that ignores what it can, until it is killed.
func keep(ctx context.Context) error {
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
	case <-ctx.Done():
	}
	return nil
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
	keeper := exec.CommandContext(ctx, program, cellWord, keepWord)
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
	return s.Command([]string{program, cellWord, enterWord})
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
	cmd, err := Confined(sandbox.Spec{Path: program, Args: []string{program, cellWord, tryWord, string(text), "--json"}, Memory: sandbox.DefaultMemory, Local: local})
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
