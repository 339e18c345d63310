package main

import (
	"context"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// standardURL is where `bcpmesh up` serves unless it is told otherwise.
const standardURL = "nats://127.0.0.1:4222"

// agentFlags say as which agent a command serves: the creds file says its name and role.
type agentFlags struct {
	creds, url, ca string
	encoding       wordFlag
}

func (f *agentFlags) addTo(cmd *cobra.Command, creds string) {
	cmd.Flags().StringVar(&f.creds, "creds", "", creds)
	cmd.Flags().StringVar(&f.url, "url", "", "`URL` of the mesh (default: the one of the creds file's folder, or "+standardURL+")")
	cmd.Flags().StringVar(&f.ca, "ca", "", "with --url: trust the certificates of this PEM `FILE` alone")
	f.encoding = wordFlag{value: "json", words: []string{"json", "msgpack"}}
	f.encoding.addTo(cmd, "encoding", "what the agent's definition says")
	complete(cmd, "creds", cobra.FixedCompletions([]string{"creds"}, cobra.ShellCompDirectiveFilterFileExt))
}

// fromEnvironment takes what a mesh gives to the commands of its agents, for the flags
// that were not given. roles are those whose creds are looked for.
func (f *agentFlags) fromEnvironment(env func(string) string, roles ...bcp.Role) {
	if f.creds != "" {
		return
	}
	for _, role := range roles {
		name := "BCPMESH_READER_CREDS"
		if role == bcp.RoleController {
			name = "BCPMESH_CONTROLLER_CREDS"
		}
		if f.creds = env(name); f.creds != "" {
			break
		}
	}
	if f.creds == "" {
		return
	}
	if f.url == "" {
		f.url, f.ca = env("BCPMESH_URL"), env("BCPMESH_CA")
	}
	if word := env("BCPMESH_ENCODING"); word != "" {
		_ = f.encoding.Set(word) // a mesh gives one of the two
	}
}

// servedAgent is an agent that this program serves.
type servedAgent struct {
	conn *agents.Connection
	name bcp.AgentName
	role bcp.Role
	log  hclog.Logger
}

// connect connects as the agent of the creds file.
func (f *agentFlags) connect(ctx context.Context, p *program, command string, handlers int) (*servedAgent, error) {
	content, err := readSmall(f.creds)
	if err != nil {
		return nil, failf("%s cannot be read: %s", quoted(f.creds), reasonOf(err))
	}
	who, err := parseCreds(content)
	if err != nil {
		return nil, failf("%s holds no credentials of a mesh: %s", quoted(f.creds), err).withHint("bcpmesh creds issue makes them")
	}
	if who.Role != bcp.RoleController && who.Role != bcp.RoleReader {
		return nil, failf("%s is of %s, %s: only controllers and readers are agents", quoted(f.creds), who.Agent, who.Role)
	}
	url, known := f.url, trust{CA: f.ca}
	if url == "" {
		url, known = meshNear(f.creds)
	}
	secure, err := known.options()
	if err != nil {
		return nil, err
	}
	encoding := bcp.JSON
	if f.encoding.value == "msgpack" {
		encoding = bcp.MessagePack
	}
	log := newLogger(hclog.Info, p.out.stderr)
	conn, err := agents.Connect(ctx, url, agents.CredsFile(f.creds), agents.Options{
		Name: who.Agent, Encoding: encoding, Logger: log, Handlers: handlers,
		NATS: append(secure, nats.Name("bcpmesh "+command+" "+string(who.Agent))),
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, notReached(url, err)
	}
	return &servedAgent{conn, who.Agent, who.Role, log}, nil
}

// meshNear is where the mesh serves in whose folder a file lies, or where one
// serves that was told nothing.
func meshNear(file string) (url string, known trust) {
	if folder, err := findMesh(filepath.Dir(file)); err == nil {
		if about, err := folder.running(); err == nil {
			return about.URL, about.trust
		}
	}
	return standardURL, trust{}
}
