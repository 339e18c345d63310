package run

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// local looks at the mesh of a folder. What needs a running one is left out where
// it rests.
func (c *checkup) local(ctx context.Context, where meshdir.StateFlags, folder meshdir.Folder) {
	var def *bcp.Mesh
	if folder.Dir != "" {
		def = c.definitions(folder)
		c.commands(folder, def)
		c.notify(folder, def)
	}
	if _, err := os.Stat(folder.State); errors.Is(err, fs.ErrNotExist) {
		c.Versions(nil, cli.ProgramVersion())
		c.OK("reachability", "the mesh has never run: there is no %s", folder.State)
		return
	}
	c.Modes(folder.State)
	store, err := accounts.Open(folder.State)
	if err != nil {
		c.fault("keys", meshdir.KeysFailure(err, folder.State))
		c.Versions(nil, cli.ProgramVersion())
		return
	}
	c.State(folder.State, store, def, onCluster(folder.State))
	nc := c.running(ctx, where, folder)
	c.Versions(nc, cli.ProgramVersion())
	if nc == nil {
		c.Disk(folder.State)
	}
}

// onCluster reports whether the journal is on a cluster: the accounts were given to one,
// and no server of this machine has streams of the mesh.
func onCluster(state string) bool {
	_, err := os.Stat(server.StreamsOf(state))
	return err != nil && meshdir.WasExported(state)
}

func (c *checkup) definitions(folder meshdir.Folder) *bcp.Mesh {
	const id = "definitions"
	def, err := folder.Load()
	if err != nil {
		c.Add(id, mesh.Failed, "bcpmesh check "+folder.Dir, "%s", err)
		return nil
	}
	c.OK(id, "%s and %s", cli.Count(len(def.Agents), "agent"), cli.Count(len(def.Channels), "channel"))
	return def
}

// commands looks whether the commands of agents can be started, and what confines them.
func (c *checkup) commands(folder meshdir.Folder, def *bcp.Mesh) {
	const id = "commands"
	if def == nil {
		return
	}
	var unconfined []string
	commands := 0
	for _, a := range def.Agents {
		if a.Supervised() {
			commands++
		}
		if a.Sandbox == bcp.SandboxNone {
			unconfined = append(unconfined, string(a.Name))
		}
	}
	if commands == 0 {
		return
	}
	_, report := folder.Here().Load(os.DirFS(folder.Dir))
	for _, e := range report.Errors {
		c.Add(id, mesh.Failed, "fix it, then bcpmesh reload", "%s", e)
	}
	if len(unconfined) > 0 {
		c.Add(id, mesh.Warned, "have agents that read hostile text confined by `sandbox: required`, or start them through sudo -u, docker, bwrap or the like, with `sandbox: own`", "nothing confines the commands of %s, which can read the keys and the journal", cli.FirstNames(unconfined, 3))
	}
	if len(report.Errors) == 0 && len(unconfined) == 0 {
		c.OK(id, "%s can be started, and are confined", cli.Count(commands, "command"))
	}
}

// running looks at a mesh that runs; the connection is closed when the program
// ends.
func (c *checkup) running(ctx context.Context, where meshdir.StateFlags, folder meshdir.Folder) *nats.Conn {
	const id = "reachability"
	about, err := folder.Running()
	if err != nil {
		if _, statErr := os.Stat(server.ReadyOf(folder.State)); errors.Is(statErr, fs.ErrNotExist) {
			if onCluster(folder.State) {
				c.Add(id, mesh.Warned, "bcpmesh accounts push saves it for the commands that have the keys", "the address of the mesh's cluster is not known")
			} else {
				c.OK(id, "the mesh does not run")
			}
		} else {
			c.Add(id, mesh.Failed, "start the mesh again", "%s", err)
		}
		return nil
	}
	if !about.Alive() {
		c.Add(id, mesh.Failed, "restart it: it resumes where it was", "the mesh was killed")
		return nil
	}
	o, err := (&client.Flags{Where: where}).Connect(ctx, bcp.RoleOperator)
	if err != nil {
		c.fault(id, err)
		return nil
	}
	c.OK(id, "it answers at %s", about.URL)
	c.Sealed(o.NATS())
	storage, err := o.Operator().Storage(ctx)
	switch {
	case err != nil:
		c.Add("gateway", mesh.Failed, "check the log of the mesh, and its disk", "the gateway does not answer: %s", err)
	case storage.Closed != "":
		c.fault("gateway", closedFailure(storage.Closed))
	default:
		c.OK("gateway", "it decides; %d records in the journal", storage.Records)
	}
	if err == nil {
		if onCluster(folder.State) {
			c.JournalOnCluster(folder.State, &storage)
		}
		c.Storage(storage)
	}
	if list, err := o.Operator().Agents(ctx); err == nil { // the gateway's own check says if not
		c.Agents(list)
	}
	return o.NATS()
}
