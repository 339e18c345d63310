package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main runs the program that root has the commands of, and ends the process.
func Main(root func(*Program) *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(Run(ctx, root, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// Run executes one command line and returns the exit code of the process. It
// is the whole program: everything that it reads and writes is an argument, but
// for the files that the command line names and the folder it is called in.
func Run(ctx context.Context, root func(*Program) *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	p := &Program{In: stdin, Out: NewOutput(stdout, stderr), Env: env}
	cmd := root(p)
	if args == nil {
		args = []string{} // with nil, cobra takes the arguments of the process
	}
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	return p.Out.Finish(err)
}

// Root is the command that holds all others, whose texts are in help. Bare is what it does alone. The programs that have only
// some of the commands name them as bcpmesh does, which starts them.
func Root(p *Program, help string, bare func(*cobra.Command) error, groups []CommandGroup, others ...*cobra.Command) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:  "bcpmesh",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version && len(args) == 0 {
				return ShowVersion(p)
			}
			if len(args) == 0 {
				return bare(cmd)
			}
			return MissingCommand(cmd, args)
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		// Suggestions go through Suggestion, in one line.
		DisableSuggestions: true,
	}
	root.SetIn(p.In)
	root.SetOut(p.Out.Stdout)
	root.SetErr(p.Out.Stderr)
	root.SetFlagErrorFunc(FlagError)
	root.SetUsageFunc(WriteUsage)
	root.PersistentFlags().BoolVar(&p.Out.JSON, "json", false, "write the result as JSON")
	root.Flags().BoolVar(&version, "version", false, "show the version, as the command version does")
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.Title, Title: g.Title})
		for _, child := range g.Commands {
			child.GroupID = g.Title
			root.AddCommand(child)
		}
	}
	root.AddCommand(others...)
	root.AddCommand(VersionCommand(p))
	root.SetHelpCommand(HelpCommand(p))
	addConnectionFlags(p, root)
	p.describe(root, help)
	finishCommand(p, root)
	return root
}

// Program is what every command gets.
type Program struct {
	In  io.Reader
	Out *Output
	Env func(string) string
	// Complete completes arguments, by the name that a usage has for them.
	Complete map[string]cobra.CompletionFunc
	flags    map[string]string // what the help says of flags of several commands
	// Explain says of an error of a command what a person reads; nil says its words.
	Explain func(error) error
}

// WriteUsage writes the part of a help that is below the description. It is no
// template: text/template keeps the linker from leaving out methods that nobody calls.
func WriteUsage(cmd *cobra.Command) error {
	var b strings.Builder
	line, groups := cmd.UseLine()+" [FLAGS]", cmd.HasAvailableSubCommands()
	if groups && holds(cmd) {
		line = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", line, cmd.Example)
	listed := func(title, group string) {
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() && child.GroupID == group {
				fmt.Fprintf(&b, "  %-*s %s\n", child.NamePadding(), child.Name(), child.Short)
			}
		}
	}
	for _, group := range cmd.Groups() {
		listed(group.Title, group.ID)
	}
	switch {
	case len(cmd.Groups()) > 0:
		listed("Other", "")
	case groups:
		listed("Commands", "")
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" { // whoever reads this knows it
			own.AddFlag(flag)
		}
	})
	if own.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", own.FlagUsages())
	}
	if !cmd.HasParent() {
		fmt.Fprintf(&b, "\nFlags that most commands understand (the environment: BCPMESH_DIR and so on):\n%s", cmd.PersistentFlags().FlagUsagesWrapped(80))
	} else {
		fmt.Fprintf(&b, "\nAlso --%s (%s --help).\n", strings.Join(append(taken(cmd), "json"), ", --"), cmd.Root().Name())
		for _, line := range Compact(strings.Split(cmd.Annotations[connection], "\n")...) {
			if strings.HasPrefix(line, "--wait:") {
				line += cmd.Annotations[waits]
			}
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	if groups && !cmd.HasParent() {
		fmt.Fprintf(&b, "\n\"%s COMMAND --help\" shows the help of a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// CommandGroup is a part of the list of commands.
type CommandGroup struct {
	Title    string
	Commands []*cobra.Command
}

// describe gives commands their texts. A program has them in one page: for each command "== " and its words, one line that says
// what it does, a description, behind "Examples:" command lines, and behind "Flags:" a line for each flag. Where a command has
// none for a flag, the line of the program itself counts.
func (p *Program) describe(root *cobra.Command, page string) {
	p.flags = map[string]string{}
	for _, section := range strings.Split("\n"+page, "\n== ")[1:] {
		words, text, _ := strings.Cut(section, "\n")
		cmd, rest, err := root.Find(strings.Fields(words)[1:])
		if err != nil || len(rest) > 0 {
			panic("help of " + words + ", which is no command")
		}
		var flags string
		text, flags, _ = strings.Cut(strings.TrimRight(text, "\n"), "\n\nFlags:\n")
		cmd.Short, text, _ = strings.Cut(text, "\n\n")
		cmd.Long, cmd.Example, _ = strings.Cut(text, "\n\nExamples:\n")
		for line := range strings.FieldsFuncSeq(flags, func(r rune) bool { return r == '\n' }) {
			p.describeFlag(cmd, line)
		}
	}
}

// describeFlag gives a flag of cmd its text, of a line "--FLAG text", or of the root those of all commands. A line about connection
// flags is shown as it is.
func (p *Program) describeFlag(cmd *cobra.Command, line string) {
	_, after, _ := strings.Cut(line, "--")
	name := strings.FieldsFunc(after, func(r rune) bool { return strings.ContainsRune(" :,", r) })[0]
	text := strings.TrimPrefix(line, "--"+name+" ")
	switch flag := cmd.Flags().Lookup(name); {
	case cmd.Annotations[connection+name] != "":
		cmd.Annotations[connection] = strings.Join(Compact(cmd.Annotations[connection], line), "\n")
	case flag != nil:
		flag.Usage = text
	case cmd.HasParent():
		panic("help of --" + name + ", which is no flag of " + cmd.CommandPath())
	default:
		p.flags[name] = text
	}
}

// Group is a command that only holds others.
func Group(use string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Args: cobra.ArbitraryArgs, RunE: MissingCommand}
	cmd.AddCommand(children...)
	return cmd
}

// holds reports whether a command only holds others, and does nothing itself.
func holds(cmd *cobra.Command) bool { return cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ") }

// Noun has cmd list or show what it is named for, and the commands below it do something with that. It takes no argument, or
// one that is may be: any other word was meant as a command.
func Noun(cmd *cobra.Command, may func(string) bool, children ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || may != nil && may(args[0]) {
			return Arguments(0, "ID")(cmd, args)
		}
		return MissingCommand(cmd, args)
	}
	cmd.AddCommand(children...)
	return cmd
}

// IsID reports whether an argument looks like an id or a number: no command has another character than a to z.
func IsID(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' })
}

// MissingCommand is what a group does when none of its commands was named.
func MissingCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return Usagef("%sexpected a command", Prefix(cmd)).WithHint("%s --help lists the commands", cmd.CommandPath())
	}
	return Usagef("%sno command %s", Prefix(cmd), Quoted(args[0])).WithHint("%s --help lists the commands", cmd.CommandPath()).Near(args[0], append(childNames(cmd), cmd.ValidArgs...))
}

// Prefix names a command in front of an error; the program itself is there
// already.
func Prefix(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") + ": "
}

func childNames(cmd *cobra.Command) []string {
	var names []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	return names
}

// finishCommand sets what all commands have in common.
func finishCommand(p *Program, cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine = true
	if cmd.Args == nil && !cmd.DisableFlagParsing {
		cmd.Args = usageArguments(cmd.Use)
	}
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := work(cmd, args)
			if p.Explain != nil {
				err = p.Explain(err)
			}
			var f *Failure
			if err == nil || errors.As(err, &f) || cmd.Context().Err() != nil && errors.Is(err, cmd.Context().Err()) {
				return err
			}
			return Failf("%s", err)
		}
	}
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = completeArguments(cmd.Use, p.Complete)
	}
	if complete, before := cmd.ValidArgsFunction, cmd.PreRunE; complete != nil && before != nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			_ = before(cmd, args) // takes the connection flags, and cannot fail
			return complete(cmd, args, begun)
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		flag.Usage = cmp.Or(flag.Usage, p.flags[flag.Name])
		placeholder, text := pflag.UnquoteUsage(flag)
		// It is completed as an argument of that name is; but only an argument that is a NAME is that of an agent.
		if _, has := cmd.GetFlagCompletionFunc(flag.Name); p.Complete[placeholder] != nil && !has && placeholder != "NAME" {
			Complete(cmd, flag.Name, p.Complete[placeholder])
		}
		if text == "" {
			panic("no help of --" + flag.Name + " of " + cmd.CommandPath())
		}
	})
	for _, child := range cmd.Commands() {
		finishCommand(p, child)
	}
}

// FlagError turns an error of the flag parser into one line.
func FlagError(cmd *cobra.Command, err error) error {
	if holds(cmd) {
		// The parser meets the flags of an unknown command before its name.
		if args := cmd.Flags().Args(); len(args) > 0 {
			return MissingCommand(cmd, args)
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
			return Usagef("%sno flag %s", Prefix(cmd), Quoted("-"+name)).WithHint("%s", help)
		}
		f := Usagef("%sno flag %s", Prefix(cmd), Quoted("--"+name))
		var names []string
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
		names = append(names, append(taken(cmd), "json")...)
		if near := Suggestion(name, names); near != "" {
			return f.WithHint("did you mean --%s?", near)
		}
		return f.WithHint("%s", help)
	case errors.As(err, &invalid):
		cause := invalid.Unwrap()
		if invalid.GetFlag().Value.Type() == "bool" {
			cause = errors.New("expected true or false")
		}
		f := Usagef("%s--%s: %s, got %s", Prefix(cmd), invalid.GetFlag().Name, cause, Quoted(invalid.GetValue())).WithHint("%s", help)
		if word, ok := invalid.GetFlag().Value.(*WordFlag); ok {
			return f.Near(invalid.GetValue(), word.Words)
		}
		return f
	case errors.As(err, &missing):
		return Usagef("%s--%s needs a value", Prefix(cmd), missing.GetFlag().Name).WithHint("%s", help)
	}
	return Usagef("%s%s", Prefix(cmd), err).WithHint("%s", help)
}

// usageArguments checks the number of arguments by what the usage says: FILE has to be there, [FILE] may, and of FILE... there
// may be any number, as behind --.
func usageArguments(use string) cobra.PositionalArgs {
	var names []string
	required := 0
	for _, word := range strings.Fields(use)[1:] {
		name := strings.Trim(word, "[]")
		if name == "--" || strings.Contains(word, "...") {
			return cobra.ArbitraryArgs
		}
		if strings.HasPrefix(name, "--") {
			break // it has to have this flag
		}
		if name == word {
			required++
		}
		names = append(names, strings.ReplaceAll(name, "|", " or "))
	}
	return Arguments(required, names...)
}

// completeArguments completes the arguments that the usage names, by complete. One that may be repeated is the last.
func completeArguments(use string, complete map[string]cobra.CompletionFunc) cobra.CompletionFunc {
	words := strings.Fields(use)[1:]
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		at := len(args)
		if last := len(words) - 1; at > last && last >= 0 && strings.Contains(words[last], "...") {
			at = last
		}
		if at < len(words) {
			name, _, _ := strings.Cut(strings.Trim(words[at], "[].|"), "|")
			if f := complete[strings.Trim(name, "[].")]; f != nil {
				return f(cmd, args[:0], begun)
			}
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// Arguments checks the number of arguments: names says what they are, the
// first required ones must be there.
func Arguments(required int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < required:
			return Usagef("%sexpected %s", Prefix(cmd), names[len(args)]).WithHint("%s --help shows an example", cmd.CommandPath())
		case len(args) > len(names):
			return Usagef("%sone argument too many: %s", Prefix(cmd), Quoted(args[len(names)])).WithHint("%s --help shows an example", cmd.CommandPath())
		}
		return nil
	}
}

// Suggestion returns the word that was probably meant, or nothing.
func Suggestion(word string, words []string) string {
	const longest = 64 // bounds the work; no name of ours is longer
	if word == "" || len(word) > longest {
		return ""
	}
	// Of a short word two other letters leave too little: foo does not mean hook.
	finder := &cobra.Command{SuggestionsMinimumDistance: 2}
	if len(word) < 4 {
		finder.SuggestionsMinimumDistance = 1
	}
	for _, w := range words {
		finder.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	if near := finder.SuggestionsFor(word); len(near) > 0 {
		return near[0]
	}
	return ""
}

// JoinOr writes "a, b or c".
func JoinOr(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Complete sets the completion of a flag that cmd has.
func Complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	// It can only fail for a flag that is not there, which a test would see.
	_ = cmd.RegisterFlagCompletionFunc(flag, f)
}

// HelpCommand returns the command help.
func HelpCommand(p *Program) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Long:    "Show the help of a command, like COMMAND --help.",
		Example: "  bcpmesh help creds issue",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			at, rest, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			if at.DisableFlagParsing { // another program has it, and its help
				return at.ValidArgsFunction(cmd, rest, begun)
			}
			return childNames(at), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 && at.HasSubCommands() {
				return MissingCommand(at, rest)
			}
			if at.DisableFlagParsing {
				return at.RunE(cmd, rest)
			}
			if p.Out.JSON {
				return p.Out.Value(map[string]string{"command": at.CommandPath(), "help": strings.TrimSpace(at.Long), "usage": at.UsageString()})
			}
			return at.Help()
		},
	}
}
