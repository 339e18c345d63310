package keeper_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/mesh"
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
	folder, state := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"mesh.yaml":        "name: m\nmodels:\n- {name: small, provider: script, model: model.jsonl}\n",
		"agents/main.md":   "---\nname: main\nbcp_channels:\n- {peer: reader, role: controller, max_category: 1, budget_bits: 100}\n---\n",
		"agents/reader.md": "---\nname: reader\ncommand: builtin\nmodel: small\nnetwork: none\nbcp_channels:\n- {peer: main, role: reader}\n---\nYou answer.\n",
		"model.jsonl":      `{"call": {"name": "answer", "args": {"urgent": true}}}` + "\n",
	} {
		at := filepath.Join(folder, name)
		noError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		noError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	def, report := definition.Load(os.DirFS(folder))
	stopIf(t, def == nil, "%v", report.Errors)
	metered := make(chan struct{}, 16)
	m := must(mesh.Start(t.Context(), mesh.Config{Definition: def, State: state, OnDecision: func(d *bcp.Decision) {
		if d.Usage != nil {
			metered <- struct{}{}
		}
	}}))
	defer func() { _ = m.Stop(context.WithoutCancel(t.Context())) }()
	file := func(name bcp.AgentName, role bcp.Role) string {
		issued := must(m.Issue(name, role, time.Hour))
		at := filepath.Join(folder, role.String()+".creds")
		noError(t, os.WriteFile(at, issued.Text(), 0o600))
		return at
	}
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	ended := make(chan error, 1)
	readerCreds, keeperCreds := file("reader", bcp.RoleReader), file("reader", bcp.RoleKeeper)
	go func() {
		defer end() // nobody answers any more
		ended <- serve(ctx, folder, "reader", m.URL(), readerCreds, keeperCreds)
	}()
	conn, err := agents.Connect(t.Context(), m.URL(), agents.CredsFile(file("main", bcp.RoleController)), agents.Options{Name: "main"})
	noError(t, err)
	defer conn.Close()
	main := agents.NewController(conn)
	noError(t, main.Start(t.Context()))
	answer, err := main.AskAndWait(ctx, "reader", bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "urgent", Type: bcp.TypeBoolean}}}, agents.AskOptions{})
	failIf(t, err != nil || string(answer.Response) != `{"urgent":true}`, "the answer is %s, %v", answer.Response, err)
	select {
	case <-metered:
	case <-ctx.Done():
		t.Error("no call of the model is recorded")
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
