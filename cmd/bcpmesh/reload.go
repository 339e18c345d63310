package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
)

// watchPause is how long the files of a mesh have to be at rest before they are
// loaded: editors write in several steps.
const watchPause = 200 * time.Millisecond

func reloadCommand(p *program) *cobra.Command {
	return operatorCommand(&cobra.Command{
		Use:   "reload",
		Short: "Have the running mesh load its definitions again",
		Long: `Have the running mesh load the definitions of its folder again, all of them or,
where one has an error, none. It shows the permissions that were taken (-) and
given (+), and the audit keeps them with the SHA-256 of each file.

Of a mesh of several shards each loads them, one after the other; with --json each
says so in a line. Those that refuse are named.

Agents whose permissions change are disconnected for a moment and keep their
creds; agents that are gone are cut off. Budgets hold at once: what was spent
stays spent. Open queries stay open, unless their channel is gone or their spec
would cost something else now.

The exit code is 1 where the definitions have errors, or the program of a command
cannot be started; then nothing has changed. To see the errors of all files before: bcpmesh check.`,
		Example: `  bcpmesh check && bcpmesh reload
  bcpmesh reload --json`,
		Args: arguments(0),
	}, nil, func(ctx context.Context, o *client, _ string) error {
		var failed []error
		for _, shard := range o.shards { // in turn: what one refuses is seen before the next
			result, err := o.operator(shard).Reload(ctx)
			if err == nil {
				err = p.showReloaded(&sharded[gateway.Reloaded]{Of: gateway.Reloaded(result), Shard: shard, several: len(o.shards) > 1})
			}
			failed = append(failed, err)
		}
		if len(failed) == 1 {
			return failed[0]
		}
		return ofShards(o.shards, failed)
	})
}

// operatorCommand makes cmd do something as the operator, perhaps about the
// thing that its argument names; check looks at that before there is a
// connection.
func operatorCommand(cmd *cobra.Command, check func(where stateFlags, about string) error, do func(ctx context.Context, o *client, about string) error) *cobra.Command {
	var where stateFlags
	var shard shardFlag
	var wait durationFlag
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		about := strings.Join(args, "")
		if check != nil {
			if err := check(where, about); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), wait.value)
		defer cancel()
		// What takes long must not be begun again before it is answered.
		who := clientFlags{where: where, attempt: wait.value / operatorAttempts, shard: shard}
		c, err := who.connect(ctx, bcp.RoleOperator)
		if err != nil {
			return err
		}
		defer c.Close()
		return outcomeOf(do(ctx, c, about))
	}
	where.addTo(cmd)
	shard.addTo(cmd, ofPeople)
	waitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cmd
}

// operatorAttempts is how often an act is asked for within the time that it may take.
const operatorAttempts = 3

// connectOperator connects as the owner of the state folder.
func connectOperator(ctx context.Context, where stateFlags) (*client, error) {
	who := clientFlags{where: where}
	return who.connect(ctx, bcp.RoleOperator)
}

func (p *program) showReloaded(of *sharded[gateway.Reloaded]) error {
	r := of.Of
	var failed error
	if len(r.Errors) > 0 {
		failed = failf("the definitions were not loaded: %s", r.Errors[0]).withHint("nothing has changed; bcpmesh check shows all that is wrong")
	}
	if p.out.json {
		if err := p.out.value(of); err != nil {
			return err
		}
		return failed
	}
	if failed != nil {
		return failed
	}
	p.out.printf("%sdefinitions loaded; %s of permissions\n", of.label(), count(len(r.Changes), "change"))
	for _, line := range r.Changes {
		p.out.printf("  %s\n", plain(line))
	}
	for _, note := range r.Notes {
		p.out.talkf("note: %s", note)
	}
	return nil
}

// loadRunning is loadAll for a mesh that starts the commands of its agents.
func (m meshFolder) loadRunning() (*bcp.Mesh, error) { return m.loadAll(m.commands()) }

// commands has each command looked for, as this machine would start it.
func (m meshFolder) commands() definition.Option {
	return definition.Commands(mesh.FindCommand(m.dir, os.Environ()))
}

// loadAll is load with every error, a line each, for a mesh that runs.
func (m meshFolder) loadAll(options ...definition.Option) (*bcp.Mesh, error) {
	def, report := definition.Load(os.DirFS(m.dir), options...)
	if def != nil {
		return def, nil
	}
	lines := make([]string, 0, len(report.Errors))
	for _, e := range report.Errors {
		lines = append(lines, e.String())
	}
	return nil, errors.New(strings.Join(lines, "\n"))
}

// watch loads the definitions whenever their files change, until ctx ends.
func (m meshFolder) watch(ctx context.Context, p *program, running *mesh.Mesh) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return failf("--watch: %s", err)
	}
	defer watcher.Close()
	add := func() error {
		err := watcher.Add(m.dir)
		if agents := watcher.Add(filepath.Join(m.dir, "agents")); !errors.Is(agents, fs.ErrNotExist) {
			err = errors.Join(err, agents)
		}
		return err
	}
	if err := add(); err != nil {
		return failf("--watch %s: %s", quoted(m.dir), err)
	}
	p.out.talkf("watching %s", m.dir)
	pause := time.NewTimer(0)
	<-pause.C
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			p.out.talkf("--watch: %s", err)
		case event := <-watcher.Events:
			if name := filepath.Base(event.Name); strings.HasSuffix(name, ".md") || name == "mesh.yaml" || name == "agents" {
				pause.Reset(watchPause)
			}
		case <-pause.C:
			_ = add() // agents may be new; without it there is nothing to watch in it
			def, err := m.loadRunning()
			if err != nil {
				p.out.talkf("not loaded, the mesh goes on as before:")
				for line := range strings.Lines(err.Error()) {
					p.out.talkf("  %s", strings.TrimSpace(line))
				}
				continue
			}
			if definition.Digest(def) != definition.Digest(running.Definition()) {
				m.loadedAnew(ctx, p, running, def)
			}
		}
	}
}

func (m meshFolder) loadedAnew(ctx context.Context, p *program, running *mesh.Mesh, def *bcp.Mesh) {
	result, err := running.Reload(ctx, def)
	if err != nil {
		p.out.talkf("not loaded, the mesh goes on as before: %s", err)
		return
	}
	p.out.talkf("definitions loaded; %s of permissions", count(len(result.Changes), "change"))
	for _, line := range append(result.Changes, result.Notes...) {
		p.out.talkf("  %s", line)
	}
}
