package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// The words of this package's command.
const cellWord, enterWord = "cell", "enter"

// CellCommand returns the command with which this program confines itself; run is what it does in a cell. It is no command for
// people, and so it is not listed.
func CellCommand(p *cli.Program, run func(context.Context, *cli.Program) error) *cobra.Command {
	return &cobra.Command{
		Use:    cellWord + " [enter SPEC]",
		Hidden: true,
		Args:   cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return run(cmd.Context(), p)
			case args[0] == enterWord && len(args) == 2:
				return cli.Failf("the program was not started, because it could not be confined: %s", process.EnterSandbox(args[1], os.Environ()))
			}
			return cli.Usagef("cell: bcpmesh starts it")
		},
	}
}

// Keeper is the argv of this program that keeps a confined command, or with run a built-in agent, nil if this program cannot be
// found.
func Keeper(run ...string) []string {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	return append([]string{program, "agent"}, run...)
}

// confinable says how a program is confined: it may read these, and the files that its words name, below a folder.
func confinable(words, env, read []string, below string) (s process.Sandbox, err error) {
	if err := process.DetectSandbox().Missing(); err != nil {
		return s, cli.Failf("the program cannot be confined, and is not started: %s", err).WithHint(process.SandboxRemedy)
	}
	path, err := findProgram(words[0], env)
	if err != nil {
		return s, err
	}
	in := func(name string) string {
		if below == "" || filepath.IsAbs(name) {
			return name // as it stands: an interpreter is told ./NAME
		}
		return filepath.Join(below, name)
	}
	if strings.Contains(path, string(filepath.Separator)) {
		path = in(path)
	}
	for _, word := range words[1:] {
		if info, err := os.Stat(in(word)); err == nil && info.Mode().IsRegular() {
			read = append(read, in(word))
		}
	}
	return process.Sandbox{Path: path, Args: words, Read: read, Memory: process.SandboxMemory}, nil
}

// Confined returns the command that runs a program confined.
func Confined(s process.Sandbox) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return s.Command([]string{program, cellWord, enterWord})
}

// ErrKilled says that a process that confines itself is killed for a system call, as by the filter of a unit or container.
var ErrKilled = errors.New("the system calls of this process are filtered, and a program that confines itself is killed")

// Starts starts this program confined, and says why it could not.
func Starts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd, err := Confined(process.Sandbox{Path: program, Args: []string{program, "--help"}, Memory: process.SandboxMemory})
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr = process.Scrub(os.Environ()), &stderr
	running, err := process.Start(cmd)
	if err != nil {
		return err
	}
	running.EndBy(ctx)
	switch state := running.State(); {
	case state.Success():
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case strings.HasPrefix(state.String(), "signal: bad system call"):
		return ErrKilled
	default:
		return fmt.Errorf("%s: %s", state, bytes.TrimSpace(stderr.Bytes()))
	}
}

// startPatience is how long this program may take to show its help.
const startPatience = 20 * time.Second
