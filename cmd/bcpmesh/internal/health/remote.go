package health

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// remote looks at the way to a mesh from an agent's side, with its creds alone.
func (c *checkup) remote(ctx context.Context, who *client.Flags) {
	user, role, ok := c.creds(who.Creds)
	if !ok {
		c.versions(nil)
		return
	}
	name := bcp.AgentName(strings.TrimPrefix(user.Name, role.String()+"-"))
	conn, err := connect(ctx, who, name)
	if err != nil {
		f := meshdir.NotReached(who.URL, err)
		c.add("login", failed, f.Hint, "%s", f.Message)
		c.versions(nil)
		return
	}
	defer conn.Close()
	c.ok("login", "the mesh takes the creds of %s as %s", name, role)
	c.sealed(conn.NATS())
	c.versions(conn.NATS())
	c.answers(ctx, conn, role)
}

func connect(ctx context.Context, who *client.Flags, name bcp.AgentName) (*agents.Connection, error) {
	if _, err := meshdir.MeshURL(who.URL); err != nil {
		return nil, err
	}
	secure, err := meshdir.Trust{CA: who.CA}.Options()
	if err != nil {
		return nil, err
	}
	return agents.Connect(ctx, who.URL, agents.CredsFile(who.Creds), agents.Options{Name: name, NATS: secure, Logger: hclog.NewNullLogger()})
}

// creds looks at a creds file, and says whose it is.
func (c *checkup) creds(file string) (*jwt.UserClaims, bcp.Role, bool) {
	const id, issue = "creds", "have the operator issue another: bcpmesh creds issue"
	content, err := cli.ReadSmall(file)
	if err != nil {
		c.add(id, failed, issue, "%s cannot be read: %s", cli.Quoted(file), cli.FileReason(err))
		return nil, 0, false
	}
	token, tokenErr := jwt.ParseDecoratedJWT(content)
	pair, err := jwt.ParseDecoratedUserNKey(content)
	var claims *jwt.UserClaims
	if err = errors.Join(err, tokenErr); err == nil {
		claims, err = jwt.DecodeUserClaims(token)
	}
	if err != nil {
		c.add(id, failed, issue, "%s holds no credentials", cli.Quoted(file))
		return nil, 0, false
	}
	word, _, _ := strings.Cut(claims.Name, "-")
	var role bcp.Role
	public, err := pair.PublicKey()
	switch {
	case err != nil || public != claims.Subject:
		c.add(id, failed, issue, "the key in %s is not that of its token", cli.Quoted(file))
		return nil, 0, false
	case role.UnmarshalText([]byte(word)) != nil:
		c.add(id, failed, issue, "%s is not of a mesh", cli.Quoted(file))
		return nil, 0, false
	}
	if info, err := os.Stat(file); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		c.add(id, failed, "chmod 600 "+file+"; if somebody else could read it, have it rotated", "others may read %s", cli.Quoted(file))
	} else {
		c.ok(id, "%s, issued %s", claims.Name, cli.Moment(time.Unix(claims.IssuedAt, 0)))
	}
	c.clock(time.Unix(claims.IssuedAt, 0), "the time of issue of "+file)
	c.credsEnd(claims)
	return claims, role, true
}

func (c *checkup) credsEnd(claims *jwt.UserClaims) {
	const id = "creds-expiry"
	ends := time.Unix(claims.Expires, 0)
	switch {
	case claims.Expires == 0:
		c.ok(id, "they never expire")
	case !c.now.Before(ends):
		c.add(id, failed, "have the operator issue others: bcpmesh creds issue; or set this machine's clock", "they expired at %s", cli.Moment(ends))
	case accounts.EndsSoon(time.Unix(claims.IssuedAt, 0), ends, c.now):
		c.add(id, warned, "have the operator issue others: bcpmesh creds issue", "they expire in %s", client.Within(ends.Sub(c.now)))
	default:
		c.ok(id, "they expire in %s", client.Within(ends.Sub(c.now)))
	}
}

// sealed looks at the TLS of a connection.
func (c *checkup) sealed(nc *nats.Conn) {
	const id = "tls"
	address := nc.ConnectedUrlRedacted() // one of those that were given
	state, err := nc.TLSConnectionState()
	if err != nil || len(state.PeerCertificates) == 0 {
		if u, err := url.Parse(address); err != nil || !guard.Loopback(u.Hostname()) {
			c.add(id, warned, "write tls:// or wss://; the operator starts the mesh with --tls", "%s has no TLS: messages can be read and changed on the way", address)
		}
		return
	}
	ends := state.PeerCertificates[0].NotAfter
	if left := ends.Sub(c.now); left < 7*24*time.Hour {
		c.add(id, warned, "the operator renews it; bcpmesh renews its own by itself", "the certificate of %s expires in %s", address, client.Within(left))
		return
	}
	c.ok(id, "%s, a certificate until %s", tls.VersionName(state.Version), cli.Moment(ends))
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
		c.ok(id, "not asked: a %s cannot ask without leaving a trace", role)
		return
	}
	if err != nil {
		c.add(id, failed, "is the encoding in the agent's definition json? If it is, have the operator run bcpmesh doctor there", "the gateway does not answer: %s", meshdir.Failure(err))
		return
	}
	c.ok(id, "it answers")
}
