package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// ownCredsTTL is how long the credentials live that a command makes for itself.
const ownCredsTTL = time.Hour

// clientFlags say as whom a command acts, and in which mesh: the one of the
// current folder, for which it makes credentials of its own, or one that it has
// a creds file for.
type clientFlags struct {
	as, creds, url, encoding string
	where                    stateFlags
}

func (f *clientFlags) addTo(cmd *cobra.Command, who string) {
	cmd.Flags().StringVar(&f.as, "as", "", "act as this `AGENT` (default: the mesh's only "+who+")")
	cmd.Flags().StringVar(&f.creds, "creds", "", "connect with this creds `FILE`; needs --url and --as")
	cmd.Flags().StringVar(&f.url, "url", "", "`URL` of the mesh (default: the running mesh of the folder)")
	complete(cmd, "as", completeAgents(who == "approver" || who == "auditor"))
	f.where.addTo(cmd)
}

// client is a connection as an agent, or as a person, and what is known of the
// mesh.
type client struct {
	*agents.Connection
	name       bcp.AgentName
	definition *bcp.Mesh // nil with a creds file
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
	def, err := folder.load()
	if err != nil {
		return nil, err
	}
	name, err := actor(def, role, f.as)
	if err != nil {
		return nil, err
	}
	url := f.url
	if url == "" {
		about, err := folder.running()
		if err != nil {
			return nil, err
		}
		url = about.URL
	}
	store, err := accounts.Open(folder.state)
	if err != nil {
		return nil, failf("the keys of the mesh: %s", err)
	}
	creds, err := store.Issue(name, role, ownCredsTTL)
	if err != nil {
		return nil, failf("credentials for %s: %s", name, err)
	}
	encoding := bcp.JSON
	if a, ok := def.Agent(name); ok {
		encoding = a.Encoding
	}
	conn, err := agents.Connect(ctx, url, agents.CredsText(creds.Text()), agents.Options{Name: name, Encoding: encoding})
	if err != nil {
		return nil, notReached(url, err).withHint("is it running? start it: bcpmesh up %s", folder.dir)
	}
	return &client{Connection: conn, name: name, definition: def}, nil
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
	if _, err := os.Stat(f.creds); err != nil {
		return nil, failf("%s cannot be read: %s", quoted(f.creds), reasonOf(err))
	}
	conn, err := agents.Connect(ctx, f.url, agents.CredsFile(f.creds), agents.Options{Name: name})
	if err != nil {
		return nil, notReached(f.url, err)
	}
	return &client{Connection: conn, name: name}, nil
}

func notReached(url string, err error) *failure {
	return failf("no mesh answers at %s: %s", quoted(url), err)
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
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		f := &failure{code: exitRefused, message: string(refused.Code) + ": " + refused.Detail}
		if todo := refused.Code.Info().Decision; todo != "" {
			return f.withHint("%s", todo)
		}
		return f
	case errors.Is(err, context.DeadlineExceeded):
		return failf("nothing came in time").withHint("give it more time with --wait")
	}
	return failf("%s", strings.TrimPrefix(err.Error(), "agents: "))
}

// withTimeout bounds a command by --wait.
func withTimeout(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, wait)
}
