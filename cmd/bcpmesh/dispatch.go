package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// The programs beside this one.
const (
	laboratory = "bcpmesh-lab"
	bridge     = "bcpmesh-bridge"
)

// elsewhere returns the command of this name, with those above it, which another program has. Whatever follows its name is
// for that program.
func elsewhere(p *cli.Program, program, name, short string) *cobra.Command {
	words := strings.Fields(name)
	named := func(by *cobra.Command) []string { // the command itself, or help of it
		if by.Name() == "help" {
			return slices.Concat([]string{"help"}, words)
		}
		return words
	}
	return &cobra.Command{
		Use:                words[len(words)-1],
		Short:              short,
		Long:               short + ".\n\nThis command is in the program " + program + ", beside this one or in PATH.",
		Example:            "  bcpmesh " + name + " --help",
		DisableFlagParsing: true,
		RunE: func(by *cobra.Command, args []string) error {
			if p.Out.JSON { // only help has read it
				args = append(args, "--json")
			}
			return start(p, program, named(by), args)
		},
		ValidArgsFunction: func(by *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return complete(program, slices.Concat(named(by), args, []string{begun}))
		},
	}
}

// start has the program take the place of this one: its signals and its exit code are its own.
func start(p *cli.Program, program string, named, args []string) error {
	at := find(program)
	if at == "" {
		return missing(program, strings.Join(named, " "))
	}
	if err := p.Out.Stdout.Flush(); err != nil {
		return err
	}
	args = slices.Concat(named, args)
	err := syscall.Exec(at, append([]string{at}, args...), os.Environ())
	if !errors.Is(err, errors.ErrUnsupported) {
		return cli.Failf("%s cannot be started: %s", cli.Quoted(at), cli.FileReason(err))
	}
	cmd := exec.Command(at, args...) // on Windows, where the console tells both of an interrupt
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return cli.Failf("%s cannot be started: %s", cli.Quoted(at), cli.FileReason(err))
	}
	os.Exit(cmd.ProcessState.ExitCode())
	return nil
}

// find returns where a program is, if it is: beside this one, else in an absolute folder of PATH.
func find(program string) string {
	self, _ := os.Executable() // without one it is looked for in PATH alone
	real, _ := filepath.EvalSymlinks(self)
	for _, folder := range append([]string{filepath.Dir(real), filepath.Dir(self)}, filepath.SplitList(os.Getenv("PATH"))...) {
		at, err := exec.LookPath(filepath.Join(folder, program))
		if err == nil && filepath.IsAbs(at) { // whoever wrote the current folder does not choose what is started
			return at
		}
	}
	return ""
}

// missing says how to get a program, in one line.
func missing(program, command string) error {
	folder := "DIR"
	if self, err := os.Executable(); err == nil {
		folder = filepath.Dir(self)
	}
	where := "the release of this program has it, to be put into " + cli.Quoted(folder)
	if at, err := os.Getwd(); err == nil {
		for ; at != filepath.Dir(at); at = filepath.Dir(at) {
			if _, err := os.Stat(filepath.Join(at, "cmd", program, "go.mod")); err == nil {
				where = "in " + at + ": go build -o " + folder + "/ ./cmd/" + program
				break
			}
		}
	}
	return cli.Usagef("%s: it is in the program %s, which is neither beside this one nor in PATH; %s", command, program, where)
}

// complete asks the program how a command line may go on.
func complete(program string, args []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	at := find(program)
	if at == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out, err := exec.Command(at, append([]string{cobra.ShellCompRequestCmd}, args...)...).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	directive, wrong := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], ":"))
	if err != nil || wrong != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return lines[:len(lines)-1], cobra.ShellCompDirective(directive)
}
