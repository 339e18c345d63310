package attach

import (
	"context"
	"net"
	"os"
	"os/exec"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/sandbox"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// local is what a confined program reaches at [sandbox.Address]: its model and its network, as its definition has them.
// A nil one is nothing: the program has neither.
type local struct {
	services *keeper.Services
	kept     *agents.Connection // of its keeper
	model    bool
	fetches  bool
	theirs   *os.File
	accept   func() (net.Listener, error)
}

// openLocal opens what the definition of a program's agent gives it, if a mesh started this for one. Nothing that the
// program may read has a key of its keeper below it.
func openLocal(ctx context.Context, p *cli.Program, of *client.ServedAgent, reads []string) (*local, error) {
	if p.Env("BCPMESH_DEFINITION") == "" {
		return nil, nil
	}
	folder, def, agent, err := definedAgent(p, "", of.Name)
	if err != nil || !agent.Kept() {
		return nil, err
	}
	secrets, err := folder.Secrets(def, &agent)
	if err != nil {
		return nil, cli.Failf("a key of %s: %s", agent.Name, cli.FileReason(err))
	}
	for _, secret := range secrets {
		if covering := meshdir.Covers(reads, secret); covering != "" {
			return nil, cli.Failf("the program would read %s, which has keys below it", cli.Quoted(covering)).WithHint("give it the folders that it needs, one by one")
		}
	}
	l := &local{model: agent.AsksModel(), fetches: len(agent.Egress.Hosts) > 0}
	var model llm.Endpoint
	if l.model {
		if model, err = openModel(folder, def, &agent); err != nil {
			return nil, err
		}
	}
	archive, err := openArchive(p, folder)
	if err != nil {
		return nil, err
	}
	if l.kept, err = connectKeeper(ctx, p, folder, &agent, of.Log); err != nil {
		return nil, err
	}
	k := agents.NewKeeper(l.kept)
	l.services = keeper.NewServices(nil, keeper.Metered(model, k, &agent, of.Log), keeper.Desks(def, &agent, k, os.LookupEnv, archive))
	return l, nil
}

// placeholder is the key that the vendors' libraries do not start without. It opens nothing.
const placeholder = "kept-by-bcpmesh"

// environment tells the program, and the vendors' libraries in it, where its keeper is.
func (l *local) environment() []string {
	if l == nil {
		return nil
	}
	at := "http://" + sandbox.Address
	var env []string
	if l.model {
		env = append(env,
			"ANTHROPIC_BASE_URL="+at+wires.AnthropicBase, "ANTHROPIC_API_KEY="+placeholder,
			"OPENAI_BASE_URL="+at+wires.OpenAIBase, "OPENAI_API_KEY="+placeholder)
	}
	if l.fetches {
		env = append(env, "BCPMESH_FETCH="+at+"/fetch")
	}
	return env
}

func (l *local) prepare(cmd *exec.Cmd) (err error) {
	if l != nil {
		l.theirs, l.accept, err = sandbox.Listen(cmd)
	}
	return err
}

// serve serves a program that was started until ctx ends, and ends one whose network cannot be made: it says why itself.
func (l *local) serve(ctx context.Context, running *process.Process) {
	if l == nil {
		return
	}
	_ = l.theirs.Close() // it has its own
	go func() {
		listener, err := l.accept()
		if err != nil {
			end(ctx, running)
			return
		}
		_ = l.services.Serve(ctx, listener)
	}()
}

func (l *local) close() {
	if l == nil {
		return
	}
	l.kept.Close()
}
