package run

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/notify"
)

func placeOf(folder meshdir.Folder) notify.Place {
	return notify.Place{Folder: cli.Absolute(folder.Dir), Environ: os.Environ()}
}

// routes sends a test message by each notification route of the definitions.
func (c *checkup) routes(ctx context.Context, folder meshdir.Folder, log hclog.Logger) error {
	def, err := folder.Load()
	if err != nil {
		return err
	}
	if len(def.Notify) == 0 {
		return cli.Failf("the mesh has no notification routes").WithHint("declare them under notify in mesh.yaml: docs/notifications.md")
	}
	for i := range def.Notify {
		r := &def.Notify[i]
		m := notify.Test(def, r, time.Now())
		if err := notify.Send(ctx, r, placeOf(folder), &m, log); err != nil {
			c.Add("notify", mesh.Failed, "docs/notifications.md says what each way needs", "the route %s, by %s: %s", r.Name, r.Way(), notify.Reason(err))
			continue
		}
		c.OK("notify", "the route %s, by %s: the message is taken", r.Name, r.Way())
	}
	return nil
}

// notify looks at the routes of the definitions: whether their secrets can be read here,
// and whether the mesh that runs, or ran last, got messages through.
func (c *checkup) notify(folder meshdir.Folder, def *bcp.Mesh) {
	const id = "notify"
	if def == nil || len(def.Notify) == 0 {
		return
	}
	status, err := notify.ReadStatus(filepath.Join(folder.State, notify.StatusFile))
	if err != nil {
		c.Add(id, mesh.Warned, "the next message writes it again", "%s", err)
	}
	good := true
	for i := range def.Notify {
		r := &def.Notify[i]
		if s := status[r.Name]; !s.Failing.IsZero() {
			good = false
			c.Add(id, mesh.Failed, "bcpmesh doctor --notify sends each route a message", "the route %s has been failing for %s: %s (%s)", r.Name, tell.Within(c.Now.Sub(s.Failing)), s.Why, cli.Count(s.Attempts, "attempt"))
			continue
		}
		if err := notify.Check(r, placeOf(folder)); err != nil {
			good = false
			c.Add(id, mesh.Warned, "the environment of bcpmesh up must have it", "the route %s: here %s", r.Name, notify.Reason(err))
		}
	}
	if good {
		c.OK(id, "%s", cli.Count(len(def.Notify), "notification route"))
	}
}
