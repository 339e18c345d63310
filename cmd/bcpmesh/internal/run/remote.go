package run

import (
	"context"
	"os"
	"runtime"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// remote looks at the way to a mesh from an agent's side, with its creds alone.
func (c *checkup) remote(ctx context.Context, who *client.Flags) {
	of, err := meshdir.ReadCreds(who.Creds)
	if err != nil {
		c.fault("creds", err)
		c.Versions(nil, cli.ProgramVersion())
		return
	}
	c.creds(who.Creds, &of)
	conn, err := who.Remote(ctx, 0)
	if err != nil {
		c.fault("login", err)
		c.Versions(nil, cli.ProgramVersion())
		return
	}
	defer conn.Close()
	c.OK("login", "the mesh takes the creds of %s as %s", of.Agent, of.Role)
	c.Sealed(conn.NATS())
	c.Versions(conn.NATS(), cli.ProgramVersion())
	c.answers(ctx, conn.Connection, of.Role)
}

// creds looks at who may read a creds file, and how long it is good.
func (c *checkup) creds(file string, of *accounts.Holder) {
	if info, err := os.Stat(file); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		c.Add("creds", mesh.Failed, "chmod 600 "+file+"; if somebody else could read it, have it rotated", "others may read %s", cli.Quoted(file))
	} else {
		c.OK("creds", "%s-%s, issued %s", of.Role, of.Agent, cli.Moment(of.Issued))
	}
	c.Clock(of.Issued, "the time of issue of "+file)
	c.CredsEnd(of)
}

// answers asks the gateway for what costs and changes nothing.
func (c *checkup) answers(ctx context.Context, conn *agents.Connection, role bcp.Role) {
	const id = "gateway"
	var err error
	switch role {
	case bcp.RoleController:
		_, err = agents.NewController(conn).Channels(ctx)
	case bcp.RoleApprover:
		_, err = agents.NewApprover(conn).List(ctx)
	default:
		c.OK(id, "not asked: a %s cannot ask without leaving a trace", role)
		return
	}
	if err != nil {
		c.Add(id, mesh.Failed, "is the encoding in the agent's definition json? If it is, have the operator run bcpmesh doctor there", "the gateway does not answer: %s", meshdir.Failure(err))
		return
	}
	c.OK(id, "it answers")
}
