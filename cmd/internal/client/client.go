package client

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// OwnCredsTTL is how long the credentials live that a command makes for itself,
// and so how long one that follows can.
const OwnCredsTTL = 24 * time.Hour

// Flags say as whom a command acts, and in which mesh: the one of the
// current folder, for which it makes credentials of its own, or one that it has
// a creds file for.
type Flags struct {
	As, Creds, URL string
	CA             string
	Encoding       string // json or msgpack; empty is json
	Where          meshdir.StateFlags
	// attempt is how long one request may take, 0 for as long as most do.
	Attempt time.Duration `flag:"-"`
	// Handlers is how many handlers run at a time, 0 for as many as most have. Logger, if it is set, is told what most
	// commands show nobody.
	Handlers int          `flag:"-"`
	Logger   hclog.Logger `flag:"-"`
}

// Client is a connection as an agent, or as a person, and what is known of the
// mesh.
type Client struct {
	*agents.Connection
	Name       bcp.AgentName
	Role       bcp.Role
	Log        hclog.Logger // of an agent that is served
	Encoding   bcp.Encoding
	Definition *bcp.Mesh // nil with a creds file, and for the operator

	// Of [Flags.Books]: how many decisions of the gateway they lack, the connection of the
	// state folder's owner, if the gateway listens, and the files of a stopped mesh.
	Behind uint64
	Owner  *Client
	files  *Source
}

// Close disconnects.
func (c *Client) Close() {
	c.Connection.Close()
	if c.Owner != nil {
		c.Owner.Close()
	}
	if c.files != nil {
		c.files.Close()
	}
}

// Operator is the operator's way over the connection.
func (c *Client) Operator() *agents.Operator { return agents.NewOperator(c.Connection) }

// Auditor is the auditor's way over the connection.
func (c *Client) Auditor() *agents.Auditor { return agents.NewAuditor(c.Connection) }

// Connect connects in a role.
func (f *Flags) Connect(ctx context.Context, role bcp.Role) (*Client, error) {
	if f.Creds != "" {
		return f.Remote(ctx, role)
	}
	folder, err := f.Where.Folder()
	if err != nil {
		return nil, err
	}
	// The operator has one name in every mesh, also in one whose files are being
	// edited.
	var def *bcp.Mesh
	name := bcp.Operator
	if role != bcp.RoleOperator {
		if def, err = folder.Load(); err != nil {
			return nil, err
		}
		if name, err = actor(def, role, f.As); err != nil {
			return nil, err
		}
	}
	url, gone, known := f.URL, false, meshdir.Trust{CA: f.CA}
	if url == "" {
		about, err := folder.Running()
		if err != nil {
			return nil, err
		}
		url, gone, known = about.URL, !about.Alive(), about.Trust
	}
	secure, err := known.Options()
	if err != nil {
		return nil, err
	}
	store, err := accounts.Open(folder.State, meshdir.Unlock())
	if err != nil {
		return nil, cli.Failf("the keys of the mesh: %s", err).WithHint("the state folder is %s; --state names another", folder.State)
	}
	creds, err := store.Issue(name, role, OwnCredsTTL, accounts.ForItself)
	if err != nil {
		return nil, cli.Failf("credentials for %s: %s", name, err)
	}
	encoding := bcp.JSON
	if def != nil && role != bcp.RoleKeeper && role != bcp.RolePlanner && role != bcp.RoleSubplanner { // whose messages are JSON, whatever their agent's are
		if a, ok := def.Agent(name); ok {
			encoding = a.Encoding
		}
	}
	conn, err := agents.Connect(ctx, url, agents.CredsText(creds.Text()), agents.Options{Name: name, Encoding: encoding, Attempt: f.Attempt, Handlers: f.Handlers, NATS: secure, Logger: cmp.Or(f.Logger, hclog.NewNullLogger())})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, meshdir.Failure(ctx.Err())
	case err != nil && gone:
		return nil, cli.Failf("the mesh in %s is not running: it was killed", cli.Quoted(folder.Dir)).WithHint("start it: bcpmesh up %s", folder.Dir)
	case err != nil:
		return nil, meshdir.NotReached(url, err)
	}
	return &Client{Connection: conn, Name: name, Role: role, Encoding: encoding, Definition: def}, nil
}

// Act connects in a role, has do act, and disconnects: within a time, unless that is 0.
func (f *Flags) Act(ctx context.Context, role bcp.Role, within time.Duration, do func(ctx context.Context, c *Client) error) error {
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	c, err := f.Connect(ctx, role)
	if err != nil {
		return err
	}
	defer c.Close()
	return meshdir.Failure(do(ctx, c))
}

// Remote connects with a creds file, which says who it is; role is what the command
// needs, or 0 for any.
func (f *Flags) Remote(ctx context.Context, role bcp.Role) (*Client, error) {
	who, err := meshdir.ReadCreds(f.Creds)
	if err != nil {
		return nil, err
	}
	switch {
	case f.As != "" && f.As != string(who.Agent):
		return nil, cli.Usagef("--as: %s belongs to %s", cli.Quoted(f.Creds), who.Agent).WithHint("leave out --as: the file determines the agent")
	case role != 0 && role != who.Role:
		refused := cli.Failf("%s belongs to %s as %s, and this is for %ss", cli.Quoted(f.Creds), who.Agent, who.Role, role)
		refused.Code = cli.ExitRefused
		return nil, refused.WithHint("bcpmesh creds issue %s --role %s --out FILE makes one, if the definitions allow it", who.Agent, role)
	}
	c, err := f.dial(ctx, who.Role, agents.Options{Name: who.Agent, Handlers: f.Handlers, Logger: cmp.Or(f.Logger, hclog.NewNullLogger())})
	return c, meshdir.Failure(err)
}

// actor is the agent or person that a command acts as.
func actor(def *bcp.Mesh, role bcp.Role, as string) (bcp.AgentName, error) {
	var names []string
	for _, scope := range subjects.Permissions(def) {
		if scope.Role == role {
			names = append(names, string(scope.Agent))
		}
	}
	for _, name := range names {
		if name == as || as == "" && len(names) == 1 {
			return bcp.AgentName(name), nil
		}
	}
	switch {
	case len(names) == 0 && (role == bcp.RoleAuditor || role == bcp.RoleApprover):
		return "", cli.Failf("the mesh has no %s", role).WithHint("name a person in mesh.yaml: %ss: [kim]; then restart the mesh", role)
	case len(names) == 0:
		return "", cli.Failf("the mesh has no %s", role).WithHint("an agent becomes one by an entry in bcp_channels")
	case as == "":
		return "", cli.Usagef("--as: the mesh has several %ss: %s", role, cli.JoinOr(names))
	}
	return "", cli.Usagef("--as: %s is no %s of the mesh", cli.Quoted(as), role).WithHint("there is %s", cli.JoinOr(names)).Near(as, names)
}

// FindChannel finds the channel that a command speaks on, and says what there is
// otherwise: the server denies what is not declared without a word. Without
// definitions there is nothing to say.
func (c *Client) FindChannel(peer bcp.AgentName, role bcp.Role) (*bcp.Channel, error) {
	if c.Definition == nil {
		return nil, nil
	}
	var peers []string
	for i := range c.Definition.Channels {
		channel := &c.Definition.Channels[i]
		mine, other := channel.Controller, channel.Reader
		if role == bcp.RoleReader {
			mine, other = other, mine
		}
		if mine != c.Name {
			continue
		}
		if other == peer {
			return channel, nil
		}
		peers = append(peers, string(other))
	}
	return nil, (&cli.Failure{Code: cli.ExitRefused, Message: string(bcp.NoChannel) + ": " + string(c.Name) + " has no channel to " + string(peer)}).WithHint("it has one to %s", cli.JoinOr(peers)).Near(string(peer), peers)
}

// ClusterFlags say which cluster, and as which gateway.
type ClusterFlags struct {
	URL, Creds, CA string `how:"given"`
}

// Config makes sure that the flags are there, and the files.
func (f *ClusterFlags) Config(command, name string) (server.ClusterConfig, error) {
	if f.URL == "" || f.Creds == "" {
		return server.ClusterConfig{}, cli.Usagef("%s: it needs --url and --creds", command).WithHint("bcpmesh accounts export writes the creds; bcpmesh up runs a mesh without a cluster")
	}
	for _, name := range []string{server.CoreCreds, server.SystemCreds, server.OperatorFile} {
		file := filepath.Join(f.Creds, name)
		if _, err := os.Stat(file); err != nil {
			return server.ClusterConfig{}, cli.Failf("%s cannot be read: %s", cli.Quoted(file), cli.FileReason(err)).WithHint("--creds names the folder that bcpmesh accounts export --gateway NAME writes")
		}
	}
	secure, err := meshdir.Trust{CA: f.CA}.Options()
	return server.ClusterConfig{URL: f.URL, Creds: f.Creds, Name: name, NATS: secure}, err
}

// Failure says what to do if a cluster does not do what it should.
func (f *ClusterFlags) Failure(what string, err error) *cli.Failure {
	fail := cli.Failf("%s: %s", what, err)
	switch {
	case errors.Is(err, nats.ErrNoServers):
		return cli.Failf("no server answers at %s", cli.Quoted(f.URL)).WithHint("is the cluster running? --url takes several, separated by commas")
	case agents.CredsRefused(err):
		return cli.Failf("the cluster does not accept the credentials in %s", cli.Quoted(f.Creds)).
			WithHint("it must run with the files of bcpmesh accounts export, and the gateway must not be revoked")
	case errors.Is(err, fs.ErrPermission):
		return fail.WithHint("%s must be yours", f.Creds)
	case errors.Is(err, jetstream.ErrUncertain), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fail.WithHint("the cluster has no majority, or JetStream is not enabled: nats server report jetstream shows it")
	}
	return fail
}

// ClusterPause is between two attempts to reach a cluster.
const ClusterPause = 500 * time.Millisecond

// OperatorFlags are those of what the operator does.
type OperatorFlags struct {
	meshdir.StateFlags
	Wait cli.DurationFlag `default:"30s"`
}

// Act has do act as the operator. What takes long must not be begun again before it is answered.
func (f *OperatorFlags) Act(ctx context.Context, do func(ctx context.Context, o *Client) error) error {
	who := Flags{Where: f.StateFlags, Attempt: f.Wait.Value / operatorAttempts}
	return who.Act(ctx, bcp.RoleOperator, f.Wait.Value, do)
}

// operatorAttempts is how often an act is asked for within the time that it may take.
const operatorAttempts = 3

// AsOperator is [Flags.Act] as the owner of the state folder.
func AsOperator(ctx context.Context, where meshdir.StateFlags, within time.Duration, do func(ctx context.Context, o *Client) error) error {
	who := Flags{Where: where}
	return who.Act(ctx, bcp.RoleOperator, within, do)
}
