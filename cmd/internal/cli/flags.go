package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// NumberFlag is a flag that takes a whole number of at least least.
type NumberFlag struct{ Value, Least int }

// String returns the number.
func (f *NumberFlag) String() string { return strconv.Itoa(f.Value) }

// Type names the flag's values in the help.
func (f *NumberFlag) Type() string { return "NUMBER" }

// Set takes a number.
func (f *NumberFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || int(n) < f.Least {
		return fmt.Errorf("expected a number from %d", f.Least)
	}
	f.Value = int(n)
	return nil
}

// WordFlag is a flag that takes one of a closed list of words.
type WordFlag struct {
	Value string
	Words []string
	Name  string // of its values in the help, where they are many
}

// String returns the word.
func (f *WordFlag) String() string { return f.Value }

// Type names the flag's values in the help.
func (f *WordFlag) Type() string {
	if f.Name != "" {
		return f.Name
	}
	return strings.Join(f.Words, "|")
}

// Set takes one of the words.
func (f *WordFlag) Set(s string) error {
	if !slices.Contains(f.Words, s) {
		return fmt.Errorf("expected %s", JoinOr(f.Words))
	}
	f.Value = s
	return nil
}

// DurationFlag is a flag that takes a duration such as 90s, 24h or 7d.
type DurationFlag struct {
	Value time.Duration
	Least time.Duration
}

// String returns the duration, or nothing for none.
func (f *DurationFlag) String() string {
	if f.Value == 0 {
		return ""
	}
	return f.Value.String()
}

// Type names the flag's values in the help.
func (f *DurationFlag) Type() string { return "DURATION" }

// Set takes a duration of at least f.least and at most a hundred years.
func (f *DurationFlag) Set(s string) error {
	const longest = 36525 * 24 * time.Hour
	d, err := time.ParseDuration(s)
	if days, found := strings.CutSuffix(s, "d"); found {
		n, parseErr := strconv.ParseUint(days, 10, 16)
		d, err = time.Duration(n)*24*time.Hour, parseErr
	}
	if err != nil || d < f.Least || d > longest {
		return fmt.Errorf("expected a duration of at least %s, such as 90m, 24h or 7d", f.Least)
	}
	f.Value = d
	return nil
}

// The connection flags say on which mesh a command works, as whom, and for how long. The root declares them, once; a
// command says which of them it understands, and refuses the others: a --state that did nothing would be a trap.

// How a command understands a connection flag, which is an annotation of it.
const (
	connection = "connection "
	ambient    = "ambient" // the environment or a context may say it
	given      = "given"   // only the command line does
	own        = "own"     // it is another flag of the same name
)

// takeWait has cmd understand --wait, for how long it waits, with the default that wait has. It bounds what can be waited for at
// once, not for ever.
func takeWait(cmd *cobra.Command, wait *DurationFlag) {
	wait.Least = leastWait
	take(cmd, given, []string{"wait"}, func(_, value string) { _ = wait.Set(value) }) // the parser has read it
	if wait.Value > 0 {
		cmd.Annotations[waits] = " (default " + Duration(Seconds(wait.Value)) + ")"
	}
}

// waits is the annotation that has the default of --wait.
const waits = "waits"

const leastWait = 10 * time.Millisecond

// take has cmd understand connection flags: they are set when it runs, by the command line or the environment.
func take(cmd *cobra.Command, how string, names []string, set func(name, value string)) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	for _, name := range names {
		cmd.Annotations[connection+name] = how
	}
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range names {
			if flag := cmd.Flags().Lookup(name); flag != nil && flag.Value.String() != "" {
				set(name, flag.Value.String())
			}
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// taken are the connection flags that cmd understands.
func taken(cmd *cobra.Command) (names []string) {
	for key := range cmd.Annotations {
		if name, ok := strings.CutPrefix(key, connection); ok && name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// addConnectionFlags declares the connection flags on a root whose commands understand some.
func addConnectionFlags(p *Program, root *cobra.Command) {
	if !connects(root) {
		return
	}
	var as, creds, url, ca, dir, state string
	flags := root.PersistentFlags()
	flags.StringVar(&dir, "dir", "", "`DIR` of the mesh (default: the mesh of the current folder)")
	flags.StringVar(&state, "state", "", "`DIR` of its state (default: .bcpmesh in the folder of the mesh)")
	flags.StringVar(&as, "as", "", "act as this `AGENT` or person (default: the mesh's only one)")
	flags.StringVar(&creds, "creds", "", "connect as the owner of this creds `FILE`")
	flags.StringVar(&url, "url", "", "`URL` of the mesh (default: the running mesh of the folder, or of the creds file's)")
	flags.StringVar(&ca, "ca", "", "with --url: trust only the certificates in this PEM `FILE`")
	encoding := &WordFlag{Words: []string{"json", "msgpack"}}
	flags.Var(encoding, "encoding", "with --creds: the encoding in the agent's definition (default: json)")
	flags.Var(&DurationFlag{Least: leastWait}, "wait", "how long to try, or to wait for an answer")
	Complete(root, "encoding", cobra.FixedCompletions(encoding.Words, cobra.ShellCompDirectiveNoFileComp))
	Complete(root, "dir", CompleteFolders)
	Complete(root, "state", CompleteFolders)
	Complete(root, "creds", cobra.FixedCompletions([]string{"creds"}, cobra.ShellCompDirectiveFilterFileExt))
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		own := func(name string) bool { return cmd.Flags().Lookup(name) != flags.Lookup(name) }
		for _, name := range connectionFlags {
			how := cmd.Annotations[connection+name]
			flag := flags.Lookup(name)
			switch {
			case own(name):
			case flag.Changed && how == "":
				return Usagef("%s--%s does nothing here", Prefix(cmd), name).WithHint("%s --help shows the flags", cmd.CommandPath())
			case flag.Changed || how != ambient || name == "ca" && flags.Lookup("url").Changed: // a CA belongs to its URL
			default:
				variable := "BCPMESH_" + strings.ToUpper(name)
				if value := p.Env(variable); value != "" && flag.Value.Set(value) != nil {
					return Usagef("%s: --%s does not take %s", variable, name, Quoted(value)).WithHint("%s --help shows the flags", cmd.Root().Name())
				}
			}
		}
		return p.useContext(cmd, flags)
	}
}

// connects reports whether a command or one below it understands connection flags.
func connects(cmd *cobra.Command) bool {
	return len(taken(cmd)) > 0 || slices.ContainsFunc(cmd.Commands(), connects)
}

// connectionFlags are in the order in which the environment is asked.
var connectionFlags = []string{"dir", "state", "as", "creds", "ca", "url", "encoding", "wait"}
