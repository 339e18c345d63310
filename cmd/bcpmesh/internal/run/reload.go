package run

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// watchPause is how long the files of a mesh have to be at rest before they are
// loaded: editors write in several steps.
const watchPause = 200 * time.Millisecond

// ReloadCommand returns the command reload.
func ReloadCommand(p *cli.Program) *cobra.Command {
	return client.OperatorCommand(&cobra.Command{
		Use: "reload",
	}, nil, func(ctx context.Context, o *client.Client, _ string) error {
		result, err := o.Operator().Reload(ctx)
		if err != nil {
			return err
		}
		return showReloaded(p, result)
	})
}

func showReloaded(p *cli.Program, r agents.Reloaded) error {
	var failed error
	if len(r.Errors) > 0 {
		failed = cli.Failf("the definitions were not loaded: %s", r.Errors[0]).WithHint("nothing has changed; bcpmesh check shows all errors")
	}
	if p.Out.JSON {
		if err := p.Out.Value(r); err != nil {
			return err
		}
		return failed
	}
	if failed != nil {
		return failed
	}
	p.Out.Printf("definitions loaded; %s of permissions and budgets\n", cli.Count(len(r.Changes), "change"))
	for _, line := range r.Changes {
		p.Out.Printf("  %s\n", cli.Plain(line))
	}
	for _, note := range r.Notes {
		p.Out.Talkf("note: %s", note)
	}
	return nil
}

// watchFolder loads the definitions whenever their files change, until ctx ends.
func watchFolder(m meshdir.Folder, ctx context.Context, p *cli.Program, running *mesh.Mesh) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return cli.Failf("--watch: %s", err)
	}
	defer watcher.Close()
	add := func() error {
		err := watcher.Add(m.Dir)
		for _, name := range watched {
			if folder := watcher.Add(filepath.Join(m.Dir, name)); !errors.Is(folder, fs.ErrNotExist) {
				err = errors.Join(err, folder)
			}
		}
		return err
	}
	if err := add(); err != nil {
		return cli.Failf("--watch %s: %s", cli.Quoted(m.Dir), err)
	}
	p.Out.Talkf("watching %s", m.Dir)
	pause := time.NewTimer(0)
	<-pause.C
	refused := false // the files were not loaded when they last changed
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			p.Out.Talkf("--watch: %s", err)
		case event := <-watcher.Events:
			if name := filepath.Base(event.Name); slices.Contains([]string{".md", ".yaml", ".json"}, filepath.Ext(name)) || slices.Contains(watched, name) {
				pause.Reset(watchPause)
			}
		case <-pause.C:
			_ = add() // a folder may be new; without it there is nothing to watch in it
			def, err := m.LoadRunning()
			if err != nil {
				refused = true
				p.Out.Talkf("not loaded, the mesh stays unchanged:")
				for line := range strings.Lines(err.Error()) {
					p.Out.Talkf("  %s", strings.TrimSpace(line))
				}
				continue
			}
			switch {
			case definition.Digest(def) != definition.Digest(running.Definition()):
				refused = !reloadEdited(ctx, p, running, def)
			case refused:
				refused = false
				p.Out.Talkf("the files are again what the mesh runs")
			}
		}
	}
}

// watched are the folders of definitions.
var watched = []string{"agents", "tools", "contracts"}

// reloadEdited reports whether the mesh runs what was edited.
func reloadEdited(ctx context.Context, p *cli.Program, running *mesh.Mesh, def *bcp.Mesh) bool {
	result, err := running.Reload(ctx, def)
	if err != nil {
		p.Out.Talkf("not loaded, the mesh stays unchanged: %s", err)
		return false
	}
	p.Out.Talkf("definitions loaded; %s of permissions and budgets", cli.Count(len(result.Changes), "change"))
	for _, line := range append(result.Changes, result.Notes...) {
		p.Out.Talkf("  %s", line)
	}
	return true
}
