package mesh_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// onShards is two pairs of agents, the second on a shard of its own.
func onShards(budget int) map[string]string {
	files := pair(budget)
	files["boss.md"] = agentFile("boss", "shard: 1\n", controls("clerk", budget, alerts))
	files["clerk.md"] = agentFile("clerk", "shard: 1\n", reads("boss"))
	return files
}

// A mesh with a server of its own is one mesh: agents of all shards are in one journal,
// and their shards change nothing, also in a reload.
//
// covers P4.5, P1.5
func TestServerOfItsOwnHasNoShards(t *testing.T) {
	t.Parallel()
	m := startEdited(t, pair(10))
	for _, budget := range []int{20, 30} {
		if r := m.edit(t, onShards(budget)); len(r.Errors) > 0 || r.Error != "" {
			t.Fatalf("reload: %+v", r)
		}
	}
	push := func(reader, controller bcp.AgentName) {
		t.Helper()
		agent := m.Connect(t, reader, bcp.RoleReader)
		if r := agent.Push(t, controller, "alerts", `{"urgent":true}`, ""); r.Text("status") != "delivered" {
			t.Errorf("%s to %s: %s", reader, controller, r.JSON)
		}
	}
	push("mailer", "main")
	push("clerk", "boss")
	m.Restart(t)
	push("clerk", "boss")
	if n := m.Count(func(d *bcp.Decision) bool { return d.Kind == bcp.KindPush && d.Controller == "boss" }); n != 2 {
		t.Errorf("%d pushes to the boss in the journal", n)
	}
	if m.Mesh.Mesh.Definition().Shards() != 1 {
		t.Error("the mesh runs on several shards")
	}
}

// The keys of a mesh of several shards, which was exported, are no good for one process,
// and those that one process made are no good for shards once somebody has creds. Both
// are said, and the keys stay what they were.
//
// covers P4.5, BCP-34
func TestKeysKeepTheirShards(t *testing.T) {
	t.Parallel()
	def := meshtest.Parse(t, onShards(10))
	exported, own := filepath.Join(t.TempDir(), "exported"), filepath.Join(t.TempDir(), "own")
	store, err := accounts.Create(exported)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Gateway("one", def.Shards()); err != nil {
		t.Fatal(err)
	}
	if _, err := accounts.CompileCluster(store, subjects.Permissions(def), time.Now()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, bundle, err := mesh.Keys(exported, def)
		if _, ok := bundle.Account(accounts.CoreOf(1)); err != nil || !ok {
			t.Fatalf("keys that were exported have no shards: %v", err)
		}
		if m, err := mesh.Start(t.Context(), mesh.Config{Definition: def, State: exported}); !errors.Is(err, bcp.ErrMoved) {
			t.Errorf("one process runs with the keys of shards: %v", err)
			if err == nil {
				_ = m.Stop(t.Context())
			}
		}
	}
	store, bundle, err := mesh.Keys(own, def)
	if _, ok := bundle.Account(accounts.CoreOf(1)); err != nil || ok {
		t.Fatalf("keys of one process have shards: %v", err)
	}
	if _, err := store.Push(); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*bcp.Mesh{def, def.Whole()} { // nobody was given creds
		if _, _, err := mesh.Keys(own, m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Issue("boss", bcp.RoleController, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := mesh.Keys(own, def); !errors.Is(err, bcp.ErrMoved) || !strings.Contains(err.Error(), "boss") {
		t.Errorf("agents are moved to a shard: %v", err)
	}
	if _, _, err := mesh.Keys(own, def.Whole()); err != nil {
		t.Errorf("where they were: %v", err)
	}
}
