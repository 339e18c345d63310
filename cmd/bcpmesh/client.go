package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// ownCredsTTL is how long the credentials live that a command makes for itself,
// and so how long one that follows can.
const ownCredsTTL = 24 * time.Hour

// clientFlags say as whom a command acts, and in which mesh: the one of the
// current folder, for which it makes credentials of its own, or one that it has
// a creds file for.
type clientFlags struct {
	as, creds, url string
	ca             string
	encoding       wordFlag
	shard          shardFlag
	where          stateFlags
	// attempt is how long one request may take, 0 for as long as most do.
	attempt time.Duration
}

func (f *clientFlags) addTo(cmd *cobra.Command, who string) {
	cmd.Flags().StringVar(&f.as, "as", "", "act as this `AGENT` (default: the mesh's only "+who+")")
	cmd.Flags().StringVar(&f.creds, "creds", "", "connect with this creds `FILE`; needs --url and --as")
	cmd.Flags().StringVar(&f.url, "url", "", "`URL` of the mesh (default: the running mesh of the folder)")
	cmd.Flags().StringVar(&f.ca, "ca", "", "with --url: trust the certificates of this PEM `FILE` alone")
	f.encoding = wordFlag{value: "json", words: []string{"json", "msgpack"}}
	f.encoding.addTo(cmd, "encoding", "with --creds: what the agent's definition says")
	people := who == "approver" || who == "auditor"
	complete(cmd, "as", completeAgents(people))
	if people {
		f.shard.addTo(cmd, ofPeople+" (default: all; with --creds: 0)")
	}
	f.where.addTo(cmd)
}

// client is a connection as an agent, or as a person, and what is known of the
// mesh.
type client struct {
	*agents.Connection
	name       bcp.AgentName
	encoding   bcp.Encoding
	definition *bcp.Mesh // nil with a creds file, and for the operator
	shards     []int     // that a person speaks to
	places     *bcp.Mesh // says which agent is on which of several shards, unless nil
}

// connect connects in a role.
func (f *clientFlags) connect(ctx context.Context, role bcp.Role) (*client, error) {
	if f.creds != "" {
		return f.remote(ctx)
	}
	folder, err := f.where.folder()
	if err != nil {
		return nil, err
	}
	// The operator has one name in every mesh, also in one whose files are being
	// edited.
	var def *bcp.Mesh
	name := bcp.Operator
	if role != bcp.RoleOperator {
		if def, err = folder.load(); err != nil {
			return nil, err
		}
		if name, err = actor(def, role, f.as); err != nil {
			return nil, err
		}
	}
	url, gone, known := f.url, false, trust{CA: f.ca}
	clustered := url != "" && wasExported(folder.state)
	if url == "" {
		about, err := folder.running()
		if err != nil {
			return nil, err
		}
		url, gone, known, clustered = about.URL, !about.alive(), about.trust, about.Cluster
	}
	secure, err := known.options()
	if err != nil {
		return nil, err
	}
	store, err := accounts.Open(folder.state, unlock())
	if err != nil {
		return nil, failf("the keys of the mesh: %s", err).withHint("the state folder is %s; --state names another", folder.state)
	}
	shards, places, err := f.shard.of(folder, def, store, clustered)
	if err != nil {
		return nil, err
	}
	creds, err := store.Issue(name, role, ownCredsTTL, accounts.ForItself)
	if err != nil {
		return nil, failf("credentials for %s: %s", name, err)
	}
	encoding := bcp.JSON
	if def != nil {
		if a, ok := def.Agent(name); ok {
			encoding = a.Encoding
		}
	}
	conn, err := agents.Connect(ctx, url, agents.CredsText(creds.Text()), agents.Options{Name: name, Encoding: encoding, Attempt: f.attempt, NATS: secure, Logger: hclog.NewNullLogger()})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, outcomeOf(ctx.Err())
	case err != nil && gone:
		return nil, failf("the mesh in %s is not running: it was killed", quoted(folder.dir)).withHint("start it: bcpmesh up %s", folder.dir)
	case err != nil:
		return nil, notReached(url, err)
	}
	return &client{Connection: conn, name: name, encoding: encoding, definition: def, shards: shards, places: places}, nil
}

// remote connects with a creds file.
func (f *clientFlags) remote(ctx context.Context) (*client, error) {
	if f.url == "" || f.as == "" {
		return nil, usagef("--creds needs --url and --as").withHint("for example --creds main.creds --url nats://127.0.0.1:4222 --as main")
	}
	name, err := bcp.ParseAgentName(f.as)
	if err != nil {
		return nil, usagef("--as: %s", err)
	}
	content, err := readSmall(f.creds)
	if err != nil {
		return nil, failf("%s cannot be read: %s", quoted(f.creds), reasonOf(err))
	}
	if _, err := jwt.ParseDecoratedUserNKey(content); err != nil {
		return nil, failf("%s holds no credentials", quoted(f.creds)).withHint("bcpmesh creds issue makes them")
	}
	encoding := bcp.JSON
	if f.encoding.value == "msgpack" {
		encoding = bcp.MessagePack
	}
	secure, err := trust{CA: f.ca}.options()
	if err != nil {
		return nil, err
	}
	conn, err := agents.Connect(ctx, f.url, agents.CredsFile(f.creds), agents.Options{Name: name, Encoding: encoding, NATS: secure, Logger: hclog.NewNullLogger()})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, outcomeOf(ctx.Err())
	case err != nil:
		return nil, notReached(f.url, err)
	}
	return &client{Connection: conn, name: name, encoding: encoding, shards: []int{f.shard.number}}, nil
}

// notReached says why there is no connection.
func notReached(url string, err error) *failure {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, nats.ErrNoServers):
		return failf("no mesh answers at %s", quoted(url)).withHint("is it running? bcpmesh up starts it")
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return failf("the mesh at %s does not take these credentials", quoted(url)).
			withHint("it may be another mesh, not know the agent yet, or the credentials have expired")
	}
	var unknown x509.UnknownAuthorityError
	var other x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return failf("the certificate of %s is of an authority that is not trusted", quoted(url)).withHint("--ca FILE trusts the mesh's own: the operator has it")
	case errors.As(err, &other):
		return failf("the certificate of %s is for another host", quoted(url)).withHint("the operator adds a name: bcpmesh up --tls --tls-name HOST")
	case errors.As(err, &invalid):
		return failf("the certificate of %s is not valid: %s", quoted(url), err).withHint("is one of the two clocks wrong? bcpmesh doctor looks")
	case errors.Is(err, nats.ErrSecureConnWanted):
		return failf("the mesh at %s has no TLS", quoted(url)).withHint("its operator starts it with --tls; on the same machine it is nats:// without --ca")
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // without "agents: connecting NAME"
	}
	return failf("no mesh answers at %s: %s", quoted(url), reasonOf(err))
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
		return "", failf("the mesh has no %s", role).withHint("name a person in mesh.yaml: %ss: [kim]; then start the mesh again", role)
	case len(names) == 0:
		return "", failf("the mesh has no %s", role).withHint("an agent becomes one by an entry in bcp_channels")
	case as == "":
		return "", usagef("--as: the mesh has several %ss: %s", role, oneOf(names))
	}
	f := usagef("--as: %s is no %s of the mesh", quoted(as), role)
	if near := suggestion(as, names); near != "" {
		return "", f.withHint("did you mean %s?", near)
	}
	return "", f.withHint("there is %s", oneOf(names))
}

// outcomeOf turns what the gateway refused, or what did not come, into a
// failure.
func outcomeOf(err error) error {
	var refused *agents.RefusedError
	var f *failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return f
	case errors.As(err, &refused):
		f := &failure{code: exitRefused, message: string(refused.Code) + ": " + refused.Detail}
		if todo := refused.Code.Info().Decision; todo != "" {
			return f.withHint("%s", todo)
		}
		return f
	case errors.Is(err, context.Canceled):
		return err // the frame says it
	case errors.Is(err, context.DeadlineExceeded):
		return failf("nothing came in time").withHint("give it more time with --wait")
	case errors.Is(err, nats.ErrPermissionViolation):
		return (&failure{code: exitRefused, message: "the server refuses it: this agent may not do that"}).
			withHint("bcpmesh perms shows who may do what")
	case errors.Is(err, agents.ErrMessage):
		return failf("what the gateway says is not understood").withHint("is --encoding that of the agent's definition?")
	}
	return failf("%s", strings.TrimPrefix(err.Error(), "agents: "))
}

// channelOf finds the channel that a command speaks on, and says what there is
// otherwise: the server denies what is not declared without a word. Without
// definitions there is nothing to say.
func (c *client) channelOf(peer bcp.AgentName, role bcp.Role) (*bcp.Channel, error) {
	if c.definition == nil {
		return nil, nil
	}
	var peers []string
	for i := range c.definition.Channels {
		channel := &c.definition.Channels[i]
		mine, other := channel.Controller, channel.Reader
		if role == bcp.RoleReader {
			mine, other = other, mine
		}
		if mine != c.name {
			continue
		}
		if other == peer {
			return channel, nil
		}
		peers = append(peers, string(other))
	}
	f := &failure{code: exitRefused, message: string(bcp.NoChannel) + ": " + string(c.name) + " has no channel to " + string(peer)}
	if near := suggestion(string(peer), peers); near != "" {
		return nil, f.withHint("did you mean %s?", near)
	}
	return nil, f.withHint("it has one to %s", oneOf(peers))
}

// waitFlag is a flag for how long a command waits. It bounds what can be
// waited for at once, not for ever.
func waitFlag(cmd *cobra.Command, wait *durationFlag, standard time.Duration, usage string) {
	*wait = durationFlag{value: standard, least: 10 * time.Millisecond}
	cmd.Flags().Var(wait, "wait", usage)
}

// numberFlag is a flag that takes a whole number of at least least.
type numberFlag struct{ value, least int }

// String returns the number.
func (f *numberFlag) String() string { return strconv.Itoa(f.value) }

// Type names the flag's values in the help.
func (f *numberFlag) Type() string { return "NUMBER" }

// Set takes a number.
func (f *numberFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || int(n) < f.least {
		return fmt.Errorf("expected a number from %d", f.least)
	}
	f.value = int(n)
	return nil
}

// bitsOf writes bits with their unit: "1 bit", "18.4 bits".
func bitsOf(b bcp.Bits) string {
	if s := shortBits(b); s != "1" {
		return s + " bits"
	}
	return "1 bit"
}
