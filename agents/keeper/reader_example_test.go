package keeper_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// serve runs a Reader of a mesh with its model, without bcpmesh: the definition in the folder says what it may do. Nothing
// confines its cell here; keeper.Options.Start is where a program confines one.
func serve(ctx context.Context, folder string, name bcp.AgentName, url, readerCreds, keeperCreds string) error {
	def, report := definition.Load(os.DirFS(folder))
	if def == nil {
		return fmt.Errorf("%v", report.Errors)
	}
	agent, ok := def.Agent(name)
	if !ok {
		return fmt.Errorf("the mesh has no %s", name)
	}
	m, _ := def.ModelOf(agent.Model)
	model, err := wires.Open(m, wires.Options{Env: os.LookupEnv, Folder: folder, MaxTokens: agent.Run.MaxTokens})
	if err != nil {
		return err
	}
	reader, err := agents.Connect(ctx, url, agents.CredsFile(readerCreds), agents.Options{Name: name, Encoding: agent.Encoding})
	if err != nil {
		return err
	}
	defer reader.Close()
	kept, err := agents.Connect(ctx, url, agents.CredsFile(keeperCreds), agents.Options{Name: name})
	if err != nil {
		return err
	}
	defer kept.Close()
	_, err = keeper.Run(ctx, keeper.Options{
		Definition: def, Agent: &agent, Role: bcp.RoleReader, Connection: reader, Kept: kept, Model: model, Start: keeper.InProcess, LookUp: os.LookupEnv,
	})
	return err
}

// A program in Go runs the Reader of a definition with its model: it answers across the mesh, and each call of its model is
// recorded.
//
// covers ALF-84
func TestModelReader(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	files := map[string]string{
		"mesh.yaml":        "name: m\nmodels:\n- {name: small, provider: script, model: model.jsonl}\n",
		"agents/main.md":   "---\nname: main\nbcp_channels:\n- {peer: reader, role: controller, max_category: 1, budget_bits: 100}\n---\n",
		"agents/reader.md": "---\nname: reader\ncommand: builtin\nmodel: small\nnetwork: none\nbcp_channels:\n- {peer: main, role: reader}\n---\nYou answer.\n",
		"model.jsonl":      `{"call": {"name": "answer", "args": {"urgent": true}}}` + "\n",
	}
	for name, text := range files {
		at := filepath.Join(folder, name)
		noError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		noError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	delete(files, "model.jsonl")
	m := meshtest.Start(t, files)
	file := func(role bcp.Role) string {
		at := filepath.Join(folder, role.String()+".creds")
		noError(t, os.WriteFile(at, m.Creds(t, "reader", role), 0o600))
		return at
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	readerCreds, keeperCreds := file(bcp.RoleReader), file(bcp.RoleKeeper)
	go func() { ended <- serve(ctx, folder, "reader", m.URL(), readerCreds, keeperCreds) }()
	main := m.Connect(t, "main", bcp.RoleController)
	told := main.Deliveries(t)
	id := main.Accepted(t, "reader", `{"category":1,"fields":[{"name":"urgent","type":"boolean"}]}`)
	answer := told.NextOf(t, meshtest.With("query_id", id))
	failIf(t, !strings.Contains(answer.JSON, `"response":{"urgent":true}`), "the answer is %s", answer.JSON)
	m.Wait(t, func(d *bcp.Decision) bool { return d.Usage != nil })
	end()
	noError(t, <-ended)
}
