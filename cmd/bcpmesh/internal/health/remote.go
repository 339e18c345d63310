package health

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
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
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// remote looks at the way to a mesh from an agent's side, with its creds alone.
func (c *checkup) remote(ctx context.Context, who *client.Flags) {
	user, role, ok := c.creds(who.Creds)
	reached := c.reach(ctx, who.URL)
	sealed := reached && c.sealed(ctx, who.URL, meshdir.Trust{CA: who.CA})
	if !ok || !sealed {
		c.versions(nil)
		return
	}
	name := bcp.AgentName(strings.TrimPrefix(user.Name, role.String()+"-"))
	secure, err := meshdir.Trust{CA: who.CA}.Options()
	if err != nil {
		c.add("tls", failed, "", "%s", err)
		return
	}
	conn, err := agents.Connect(ctx, who.URL, agents.CredsFile(who.Creds), agents.Options{Name: name, NATS: secure, Logger: hclog.NewNullLogger()})
	if err != nil {
		f := meshdir.NotReached(who.URL, err)
		c.add("login", failed, f.Hint, "%s", f.Message)
		c.versions(nil)
		return
	}
	defer conn.Close()
	c.ok("login", "the mesh takes the creds of %s as %s", name, role)
	c.versions(conn.NATS())
	c.permitted(conn.NATS(), name)
	c.answers(ctx, conn, role)
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

// dialTime bounds one attempt to reach an address.
const dialTime = 5 * time.Second

func (c *checkup) reach(ctx context.Context, text string) bool {
	const id = "reachability"
	u, err := meshdir.MeshURL(text)
	if err != nil {
		c.add(id, failed, "write it as tls://HOST:PORT", "%s", err)
		return false
	}
	dialer := net.Dialer{Timeout: dialTime}
	begin := time.Now()
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown):
		c.add(id, failed, "check the host name, and this machine's DNS", "the host %s cannot be resolved here", cli.Quoted(u.Hostname()))
		return false
	case err != nil:
		c.add(id, failed, "is the mesh running, and listening beyond loopback? is a firewall in the way?", "nothing answers at %s: %s", u.Host, cli.FileReason(errors.Unwrap(err)))
		return false
	}
	_ = conn.Close() // it was only tried
	c.ok(id, "%s answers in %s", u.Host, time.Since(begin).Round(time.Millisecond))
	return true
}

// sealed looks at the TLS of an address.
func (c *checkup) sealed(ctx context.Context, text string, t meshdir.Trust) bool {
	const id = "tls"
	u, err := meshdir.MeshURL(text)
	if err != nil {
		return false
	}
	if u.Scheme == "nats" || u.Scheme == "ws" {
		if !meshdir.Loopback(u.Hostname()) {
			c.add(id, warned, "write tls:// or wss://; the operator starts the mesh with --tls", "%s has no TLS: messages can be read and changed on the way", text)
		}
		return true
	}
	state, err := handshake(ctx, u, t)
	if err != nil {
		f := meshdir.NotReached(text, err)
		c.add(id, failed, f.Hint, "%s", f.Message)
		return false
	}
	leaf := state.PeerCertificates[0]
	if left := leaf.NotAfter.Sub(c.now); left < 7*24*time.Hour {
		c.add(id, warned, "the operator renews it; bcpmesh renews its own by itself", "the certificate of %s expires in %s", u.Host, client.Within(left))
		return true
	}
	c.ok(id, "%s, a certificate for %s until %s", tls.VersionName(state.Version), u.Hostname(), cli.Moment(leaf.NotAfter))
	return true
}

// handshake does TLS as a client does, over NATS after the server's first line.
func handshake(ctx context.Context, u *url.URL, t meshdir.Trust) (tls.ConnectionState, error) {
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(dialTime)); err != nil {
		return tls.ConnectionState{}, err
	}
	if u.Scheme == "tls" {
		line := make([]byte, 0, 4<<10)
		for len(line) < cap(line) && !strings.HasSuffix(string(line), "\n") {
			n, err := conn.Read(line[len(line) : len(line)+1])
			if err != nil {
				return tls.ConnectionState{}, err
			}
			line = line[:len(line)+n]
		}
		if !strings.Contains(string(line), `"tls_required":true`) {
			return tls.ConnectionState{}, nats.ErrSecureConnWanted
		}
	}
	config := &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS13}
	if t.Name != "" {
		config.ServerName = t.Name
	}
	if config.RootCAs, err = t.Roots(); err != nil {
		return tls.ConnectionState{}, err
	}
	client := tls.Client(conn, config)
	err = client.HandshakeContext(ctx)
	return client.ConnectionState(), err
}

// permitted looks whether the server lets the agent have its inbox.
func (c *checkup) permitted(nc *nats.Conn, name bcp.AgentName) {
	const id = "permissions"
	s, err := nc.SubscribeSync(subjects.InboxesOf(name))
	if err == nil {
		err = nc.FlushTimeout(dialTime)
	}
	if err == nil {
		if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			err = last
		}
	}
	if err != nil {
		c.add(id, failed, "the operator compares: bcpmesh perms --agent "+string(name), "the server refuses the agent its inbox: %s", err)
		return
	}
	_ = s.Unsubscribe()
	c.ok(id, "the inbox %s is open", subjects.InboxPrefix(name))
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
