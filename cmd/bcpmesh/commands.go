package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// program is what every command gets.
type program struct {
	in  io.Reader
	out *output
	env func(string) string
}

// commands returns every command.
func commands(p *program) []*cobra.Command {
	return []*cobra.Command{
		initCommand(p),
		checkCommand(p),
		permsCommand(p),
		credsCommand(p),
		joinCommand(p),
		keysCommand(p),
		accountsCommand(p),
		validateCommand(p),
		kernelCommand(p),
		guardCommand(p),
		fetchURLCommand(p),
		roleCommand(p),
		upCommand(p),
		gatewayCommand(p),
		reloadCommand(p),
		demoCommand(p),
		conformanceCommand(p),
		benchCommand(p),
		benchPartCommand(p),
		shardsCommand(p),
		scaleCommand(p),
		statusCommand(p),
		doctorCommand(p),
		queryCommand(p),
		publishCommand(p),
		inboxCommand(p),
		answerCommand(p),
		readerCommand(p),
		agentCommand(p),
		mcpCommand(p),
		sessionCommand(p),
		taintCommand(p),
		proposalsCommand(p),
		approvalsCommand(p),
		ledgerCommand(p),
		auditCommand(p),
		explainCommand(p),
		backupCommand(p),
		restoreCommand(p),
		completionCommand(p),
		versionCommand(p),
	}
}

func rootCommand(p *program) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "bcpmesh",
		Short: "Run a mesh of agents that learn no more from each other than declared",
		Long: `bcpmesh runs a mesh of agents. Readers work with hostile content; Controllers
act. Between them stands a gateway that lets through validated answers only, and
counts every bit of them against a budget.

A mesh is a folder with mesh.yaml and agents/*.md. Commands that need one find
it from the current folder upwards.

Exit codes: 0 done; 1 a problem was found, or the operation failed; 2 the
command line is wrong; 3 the protocol refused; 4 no problem was found, but not
everything could be looked at.`,
		Example: `  bcpmesh init ./office
  bcpmesh check ./office
  bcpmesh validate < cases.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version && len(args) == 0 {
				return showVersion(p)
			}
			return missingCommand(cmd, args)
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		// Suggestions go through suggestion, in one line.
		DisableSuggestions: true,
	}
	root.SetIn(p.in)
	root.SetOut(p.out.stdout)
	root.SetErr(p.out.stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(writeUsage)
	root.PersistentFlags().BoolVar(&p.out.json, "json", false, "write the result as JSON")
	root.Flags().BoolVar(&version, "version", false, "show the version, as the command version does")
	root.AddCommand(commands(p)...)
	root.SetHelpCommand(helpCommand(p))
	finishCommand(root)
	return root
}

// writeUsage writes the part of a help that is below the description. It is no
// template: text/template keeps the linker from leaving out methods that nobody calls.
func writeUsage(cmd *cobra.Command) error {
	var b strings.Builder
	line, groups := cmd.UseLine()+" [FLAGS]", cmd.HasAvailableSubCommands()
	if groups {
		line = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", line, cmd.Example)
	if groups {
		b.WriteString("\nCommands:\n")
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-*s %s\n", child.NamePadding(), child.Name(), child.Short)
			}
		}
	}
	fmt.Fprintf(&b, "\nFlags:\n%s", cmd.Flags().FlagUsages())
	if groups {
		fmt.Fprintf(&b, "\n\"%s COMMAND --help\" shows the help of a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// group is a command that only holds others.
func group(use, short, long, example string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: cobra.ArbitraryArgs, RunE: missingCommand}
	cmd.AddCommand(children...)
	return cmd
}

// missingCommand is what a group does when none of its commands was named.
func missingCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%sexpected a command", prefix(cmd)).withHint("%s --help lists the commands", cmd.CommandPath())
	}
	f := usagef("%sno command %s", prefix(cmd), quoted(args[0]))
	if near := suggestion(args[0], namesOf(cmd)); near != "" {
		return f.withHint("did you mean %s?", near)
	}
	return f.withHint("%s --help lists the commands", cmd.CommandPath())
}

// prefix names a command in front of an error; the program itself is there
// already.
func prefix(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") + ": "
}

func namesOf(cmd *cobra.Command) []string {
	var names []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	return names
}

// finishCommand sets what all commands have in common.
func finishCommand(cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine = true
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := work(cmd, args)
			var f *failure
			if err == nil || errors.As(err, &f) || cmd.Context().Err() != nil && errors.Is(err, cmd.Context().Err()) {
				return err
			}
			return failf("%s", err)
		}
	}
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, child := range cmd.Commands() {
		finishCommand(child)
	}
}

// flagError turns an error of the flag parser into one line.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		// The parser meets the flags of an unknown command before its name.
		if args := cmd.Flags().Args(); len(args) > 0 {
			return missingCommand(cmd, args)
		}
	}
	help := cmd.CommandPath() + " --help shows the flags"
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			return usagef("%sno flag %s", prefix(cmd), quoted("-"+name)).withHint("%s", help)
		}
		f := usagef("%sno flag %s", prefix(cmd), quoted("--"+name))
		var names []string
		collect := func(flag *pflag.Flag) { names = append(names, flag.Name) }
		cmd.Flags().VisitAll(collect)
		cmd.InheritedFlags().VisitAll(collect)
		if near := suggestion(name, names); near != "" {
			return f.withHint("did you mean --%s?", near)
		}
		return f.withHint("%s", help)
	case errors.As(err, &invalid):
		cause := invalid.Unwrap()
		if invalid.GetFlag().Value.Type() == "bool" {
			cause = errors.New("expected true or false")
		}
		f := usagef("%s--%s: %s, got %s", prefix(cmd), invalid.GetFlag().Name, cause, quoted(invalid.GetValue()))
		if word, ok := invalid.GetFlag().Value.(*wordFlag); ok {
			if near := suggestion(invalid.GetValue(), word.words); near != "" {
				return f.withHint("did you mean %s?", near)
			}
		}
		return f.withHint("%s", help)
	case errors.As(err, &missing):
		return usagef("%s--%s needs a value", prefix(cmd), missing.GetFlag().Name).withHint("%s", help)
	}
	return usagef("%s%s", prefix(cmd), err).withHint("%s", help)
}

// arguments checks the number of arguments: names says what they are, the
// first required ones must be there.
func arguments(required int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < required:
			return usagef("%sexpected %s", prefix(cmd), names[len(args)]).withHint("%s --help shows an example", cmd.CommandPath())
		case len(args) > len(names):
			return usagef("%sone argument too many: %s", prefix(cmd), quoted(args[len(names)])).withHint("%s --help shows an example", cmd.CommandPath())
		}
		return nil
	}
}

// suggestion returns the word that was probably meant, or nothing.
func suggestion(word string, words []string) string {
	const longest = 64 // bounds the work; no name of ours is longer
	if word == "" || len(word) > longest {
		return ""
	}
	finder := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, w := range words {
		finder.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	if near := finder.SuggestionsFor(word); len(near) > 0 {
		return near[0]
	}
	return ""
}

// wordFlag is a flag that takes one of a closed list of words.
type wordFlag struct {
	value string
	words []string
	name  string // of its values in the help, where they are many
}

// String returns the word.
func (f *wordFlag) String() string { return f.value }

// Type names the flag's values in the help.
func (f *wordFlag) Type() string {
	if f.name != "" {
		return f.name
	}
	return strings.Join(f.words, "|")
}

// Set takes one of the words.
func (f *wordFlag) Set(s string) error {
	if !slices.Contains(f.words, s) {
		return fmt.Errorf("expected %s", oneOf(f.words))
	}
	f.value = s
	return nil
}

// oneOf writes "a, b or c".
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// addTo makes it a flag of cmd, with completion.
func (f *wordFlag) addTo(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(f, name, usage)
	complete(cmd, name, cobra.FixedCompletions(f.words, cobra.ShellCompDirectiveNoFileComp))
}

// complete sets the completion of a flag that cmd has.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	// It can only fail for a flag that is not there, which a test would see.
	_ = cmd.RegisterFlagCompletionFunc(flag, f)
}

func helpCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Long:    "Show the help of a command, like COMMAND --help.",
		Example: "  bcpmesh help creds issue",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return namesOf(at), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 && at.HasSubCommands() {
				return missingCommand(at, rest)
			}
			if p.out.json {
				return p.out.value(map[string]string{"command": at.CommandPath(), "help": strings.TrimSpace(at.Long), "usage": at.UsageString()})
			}
			return at.Help()
		},
	}
}
