package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// buildVersion is set by release builds, with -ldflags "-X main.buildVersion=…".
var buildVersion string

// programVersion names this build: what the release says, else the module's
// version, else the revision that it was built from.
func programVersion() string {
	if buildVersion != "" {
		return buildVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changed"
		}
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision + changed
}

func versionCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the program, of Go and of the Unicode tables",
		Long: `Show the versions that a verdict depends on: of the program, of Go, and of the
Unicode tables. Every decision of a mesh records them.`,
		Example: `  bcpmesh version
  bcpmesh version --json`,
		Args: arguments(0),
		RunE: func(*cobra.Command, []string) error { return showVersion(p) },
	}
}

func showVersion(p *program) error {
	v := struct {
		Version string `json:"version"`
		Go      string `json:"go"`
		Unicode string `json:"unicode"`
	}{programVersion(), runtime.Version(), text.Versions()}
	if p.out.json {
		return p.out.value(v)
	}
	p.out.printf("bcpmesh %s\ngo      %s\nunicode %s\n", plain(v.Version), v.Go, v.Unicode)
	return nil
}
