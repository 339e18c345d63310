package client

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// AgentFlags say as which agent a command serves: the creds file says its name and role.
type AgentFlags struct {
	Creds, url, ca, encoding string
	// Roles are those of which the creds must have one; without, a controller or a reader.
	Roles []bcp.Role
}

// AddTo has cmd understand them; creds says what the credentials are for.
func (f *AgentFlags) AddTo(cmd *cobra.Command, creds string) {
	cli.TakeGiven(cmd, "--"+creds, cli.Into{"creds": &f.Creds, "url": &f.url, "ca": &f.ca, "encoding": &f.encoding})
}

// FromEnvironment takes what a mesh gives to the commands of its agents, for the flags
// that were not given. roles are those whose creds are looked for.
func (f *AgentFlags) FromEnvironment(env func(string) string, roles ...bcp.Role) {
	if f.Creds != "" {
		return
	}
	for _, role := range roles {
		if f.Creds = env("BCPMESH_" + strings.ToUpper(role.String()) + "_CREDS"); f.Creds != "" {
			break
		}
	}
	if f.Creds == "" {
		return
	}
	if f.url == "" {
		f.url, f.ca = env("BCPMESH_URL"), env("BCPMESH_CA")
	}
	f.encoding = cmp.Or(env("BCPMESH_ENCODING"), f.encoding)
}

// ServedAgent is an agent that this program serves.
type ServedAgent struct {
	Conn *agents.Connection
	Name bcp.AgentName
	Role bcp.Role
	Log  hclog.Logger
}

// Await is Connect for a mesh that may not be up yet: it waits for a server at the
// address, says so once, and fails like Connect at everything else.
func (f *AgentFlags) Await(ctx context.Context, p *cli.Program, command string, handlers int) (*ServedAgent, error) {
	for told := false; ; {
		agent, err := f.Connect(ctx, p, command, handlers)
		if err == nil || !errors.Is(err, nats.ErrNoServers) {
			return agent, err
		}
		if !told {
			told = true
			p.Out.Talkf("%s; waiting for it (bcpmesh up starts it)", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(awaitPause):
		}
	}
}

// awaitPause is between two looks for a mesh that is not up.
const awaitPause = time.Second

// Who reads which agent the creds are of, and in which role.
func (f *AgentFlags) Who() (bcp.AgentName, bcp.Role, error) {
	who, err := meshdir.ReadCreds(f.Creds)
	var words []string
	for _, role := range f.Roles {
		words = append(words, role.String())
	}
	switch {
	case err != nil:
		return "", 0, err
	case len(f.Roles) > 0 && !slices.Contains(f.Roles, who.Role):
		return "", 0, cli.Failf("%s belongs to %s, %s: expected the creds of a %s", cli.Quoted(f.Creds), who.Agent, who.Role, cli.JoinOr(words))
	case len(f.Roles) == 0 && who.Role != bcp.RoleController && who.Role != bcp.RoleReader:
		return "", 0, cli.Failf("%s belongs to %s, %s: only controllers and readers are agents", cli.Quoted(f.Creds), who.Agent, who.Role)
	}
	return who.Agent, who.Role, nil
}

// Connect connects as the agent of the creds file.
func (f *AgentFlags) Connect(ctx context.Context, p *cli.Program, command string, handlers int) (*ServedAgent, error) {
	name, role, err := f.Who()
	if err != nil {
		return nil, err
	}
	url, known := f.url, meshdir.Trust{CA: f.ca}
	if url == "" {
		url, known = MeshNear(f.Creds)
	}
	secure, err := known.Options()
	if err != nil {
		return nil, err
	}
	encoding := bcp.JSON
	if f.encoding == "msgpack" {
		encoding = bcp.MessagePack
	}
	log := cli.NewLogger(hclog.Info, p.Out.Stderr)
	conn, err := agents.Connect(ctx, url, agents.CredsFile(f.Creds), agents.Options{
		Name: name, Encoding: encoding, Logger: log, Handlers: handlers,
		NATS: append(secure, nats.Name("bcpmesh "+command+" "+string(name))),
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, meshdir.NotTaken(url, f.Creds, err)
	}
	return &ServedAgent{conn, name, role, log}, nil
}

// MeshNear is where the mesh serves in whose folder a file lies, or where one
// serves that was told nothing.
func MeshNear(file string) (url string, known meshdir.Trust) {
	if folder, err := meshdir.Find(filepath.Dir(file)); err == nil {
		if about, err := folder.Running(); err == nil {
			return about.URL, about.Trust
		}
	}
	return meshdir.StandardURL, meshdir.Trust{}
}
