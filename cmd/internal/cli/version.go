package cli

import (
	"bytes"
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// Release builds set these, with -ldflags "-X github.com/bcpmesh/bcpmesh/cmd/internal/cli.buildVersion=…".
var (
	buildVersion string
	buildCommit  string
	buildDate    string // of the commit, RFC 3339
)

// ProgramVersion names this build: what the release says, else what Go made of the revision that it was built from.
func ProgramVersion() string {
	info, ok := debug.ReadBuildInfo()
	if buildVersion == "" && ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return cmp.Or(buildVersion, "devel")
}

// VersionCommand returns the command version.
func VersionCommand(p *Program) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the program, of Go and of the Unicode tables",
		Long: `Show the versions that a verdict depends on: of the program, of Go, and of the
Unicode tables. Every decision of a mesh records them. A build that knows its commit
shows it, with the commit's date.`,
		Example: "  bcpmesh version",
		RunE:    func(*cobra.Command, []string) error { return ShowVersion(p) },
	}
}

// ShowVersion writes the version of the program.
func ShowVersion(p *Program) error {
	commit, date := buildCommit, buildDate
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.time":
				date = s.Value
			}
		}
	}
	v := struct {
		Version string `json:"version"`
		Commit  string `json:"commit,omitempty"`
		Date    string `json:"date,omitempty"`
		Go      string `json:"go"`
		Unicode string `json:"unicode"`
	}{ProgramVersion(), commit, date, runtime.Version(), text.Versions()}
	return p.Out.Show(v, func() {
		p.Out.Printf("bcpmesh %s\n", Plain(v.Version))
		if v.Commit != "" {
			p.Out.Printf("commit  %s\ndate    %s\n", Plain(v.Commit), Plain(v.Date))
		}
		p.Out.Printf("go      %s\nunicode %s\n", v.Go, v.Unicode)
	})
}

// CompletionCommand returns the command completion.
func CompletionCommand(p *Program) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	cmd := &cobra.Command{Use: "completion SHELL", ValidArgs: shells}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		shell := WordFlag{Words: shells}
		if err := shell.Set(args[0]); err != nil {
			return Usagef("completion: %s, got %s", err, Quoted(args[0])).WithHint("%s --help shows an example", cmd.CommandPath())
		}
		var script bytes.Buffer
		root := cmd.Root()
		write := map[string]func() error{
			"bash":       func() error { return root.GenBashCompletionV2(&script, true) },
			"zsh":        func() error { return root.GenZshCompletion(&script) },
			"fish":       func() error { return root.GenFishCompletion(&script, true) },
			"powershell": func() error { return root.GenPowerShellCompletionWithDesc(&script) },
		}
		if err := write[args[0]](); err != nil {
			return err
		}
		return p.Out.Show(map[string]string{"shell": args[0], "script": script.String()}, func() { p.Out.Printf("%s", script.String()) })
	}
	return cmd
}
