package run

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// Demo tells a story.
type Demo struct {
	Keep, Web    string
	Kernel, Desk bool `not:"web kernel desk"`
	Command      *cobra.Command
}

func (o *Demo) Run(ctx context.Context, p *cli.Program, _ []string) error {
	for _, name := range []string{"keep", "web"} {
		if f := o.Command.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return cli.Usagef("demo: --%s: expected a name, got nothing", name).WithHint("bcpmesh demo --help shows an example")
		}
	}
	cli.IgnoreBrokenPipes()
	switch {
	case o.Kernel:
		return demoKernel(ctx, p, o.Keep)
	case o.Desk:
		return demoDesk(ctx, p, o.Keep)
	}
	return demoMailroom(ctx, p, o.Keep, o.Web)
}

// settleTimeout is how long an exchange of a demonstration may take.
const settleTimeout = 30 * time.Second

// stage is the temporary mesh of a demonstration, whose story hears each decision.
type stage struct {
	p      *cli.Program
	folder meshdir.Folder
	keep   string // empty if nothing of it is kept
	def    *bcp.Mesh
	mesh   *mesh.Mesh

	mu      sync.Mutex    // guards the story
	changed chan struct{} // closed and replaced by every decision
}

// perform starts the mesh of some files in a folder, has a story play in it, and stops it. heard is called with mu held.
func perform(ctx context.Context, p *cli.Program, keep string, files fs.FS, heard func(*bcp.Decision), play func(*stage) error) (err error) {
	dir, what := keep, "--keep "+cli.Quoted(keep)
	if keep == "" {
		what = "a temporary folder"
		dir, err = os.MkdirTemp("", "bcpmesh-demo-")
	} else if err = os.Mkdir(keep, 0o700); err != nil {
		return cli.Failf("%s: %s", what, cli.FileReason(err)).WithHint("name a new folder in an existing one")
	}
	if err != nil {
		return cli.Failf("%s: %s", what, cli.FileReason(err))
	}
	defer func() {
		if keep == "" || err != nil {
			_ = os.RemoveAll(dir) // we made it, and what is left of it tells nothing
		}
	}()
	if err := copyDefinitions(dir, files); err != nil {
		return cli.Failf("%s: %s", what, cli.FileReason(err))
	}
	s := &stage{p: p, folder: meshdir.In(dir), keep: keep, changed: make(chan struct{})}
	if s.def, err = s.folder.Load(); err != nil {
		return err
	}
	decided := func(d *bcp.Decision) {
		s.mu.Lock()
		defer s.mu.Unlock()
		heard(d)
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.mesh, err = launch(ctx, mesh.Config{
		Definition: s.def, State: server.StateOf(dir), Version: cli.ProgramVersion(), OnDecision: decided, Logger: cli.NewLogger(hclog.Error, p.Out.Stderr),
		Folder: dir, Environ: withProgram(os.Environ()),
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return startFailure(err, listening{}, dir)
	}
	defer func() { err = errors.Join(err, stopMesh(s.mesh)) }()
	return play(s)
}

// withProgram is an environment whose PATH begins with the folder of this program: the commands of a demonstration are its own.
func withProgram(env []string) []string {
	self, err := os.Executable()
	if err != nil {
		return env
	}
	return append(env, "PATH="+filepath.Dir(self)+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// stopped is why a story ends early, if it does.
func stopped(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return cli.Failf("the demonstration stopped: %s", err)
}

// until waits until something is so, which the decisions that come may change.
func (s *stage) until(ctx context.Context, so func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		done, changed := so(), s.changed
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("an exchange did not end: %w", ctx.Err())
		}
	}
}

func (s *stage) credentials(agent bcp.AgentName, role bcp.Role) (agents.Credentials, error) {
	creds, err := s.mesh.Issue(agent, role, time.Hour)
	if err != nil {
		return agents.Credentials{}, cli.Failf("credentials for %s: %s", agent, err)
	}
	return agents.CredsText(creds.Text()), nil
}

// storyWidth is how wide the story is at most.
const storyWidth = 100

//go:embed demo.txt
var stories string

// say writes what a story says, unless its data are wanted. The text is a template of demo.txt.
func say(o *cli.Output, name string, data any) error {
	if o.JSON {
		return nil
	}
	texts := template.Must(template.New("").Funcs(template.FuncMap{
		"heading": func(title string) string { o.Heading(title); return "" },
		"rows":    func(header []string, rows [][]string) string { o.Table(header, rows); return "" },
		"table":   func(header []string, rows ...[]string) string { o.Table(header, rows); return "" },
		"row":     func(cells ...any) []string { return cli.Map(cells, func(c any) string { return fmt.Sprint(c) }) },
		"wrap":    func(parts ...any) string { return cli.Wrap(fmt.Sprint(parts...), min(storyWidth, o.Width)) + "\n" },
		"fit": func(indent int, parts ...any) string {
			return strings.Repeat(" ", indent) + cli.Short(cli.Plain(fmt.Sprint(parts...)), min(storyWidth, o.Width)-indent) + "\n"
		},
		"bar":    func(said string) string { return bar(o, said) },
		"bars":   func(said string) string { return bars(o, said) },
		"line":   inert.Line,
		"plain":  cli.Plain,
		"quoted": cli.Quoted,
		"count":  cli.Count,
	}).Parse(stories))
	err := texts.ExecuteTemplate(o.Stdout, name, data)
	if err != nil { // nobody reads it, mostly
		err = cmp.Or(o.Flush(), err)
	}
	return err
}

// bar shows hostile text with a bar at each of its lines.
func bar(o *cli.Output, text string) string {
	return strings.Join(inert.Prefixed("    "+inert.Gutter, text, cli.Columns(o.Screen)), "\n") + "\n"
}

// bars shows each line of a hostile text that is not empty.
func bars(o *cli.Output, text string) (shown string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			shown += bar(o, line)
		}
	}
	return shown
}

// copyDefinitions copies files into a folder.
func copyDefinitions(dir string, definitions fs.FS) error {
	err := os.CopyFS(dir, definitions)
	programs, _ := filepath.Glob(filepath.Join(dir, "*.sh")) // the pattern is good
	for _, program := range programs {
		err = errors.Join(err, os.Chmod(program, 0o700)) // an embedded file has lost it
	}
	return err
}
