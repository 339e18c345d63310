package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/cluster"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// shardedPairs are a Controller and a Reader on each of several shards: main0 and
// mailer0, and so on.
func shardedPairs(shards, budget int) map[string]string {
	files := map[string]string{}
	for k := range shards {
		main, mailer, head := fmt.Sprint("main", k), fmt.Sprint("mailer", k), fmt.Sprintf("shard: %d\n", k)
		files[main+".md"] = agentFile(main, head, controls(mailer, budget, alerts))
		files[mailer+".md"] = agentFile(mailer, head, reads(main))
	}
	return files
}

// serving is the shards that gateways serve, as text: "0 1 / 2 3".
func serving(gateways ...*mesh.Gateway) string {
	var all []string
	for _, g := range gateways {
		var shards []string
		for _, seat := range g.ShardServers() {
			if seat.Active() {
				shards = append(shards, fmt.Sprint(seat.Shard()))
			}
		}
		all = append(all, strings.Join(shards, " "))
	}
	return strings.Join(all, " / ")
}

// Gateways share the shards of a mesh: whoever comes gets its part, whoever goes leaves it
// to the others, and on each shard what was pushed and spent is exact through all of it.
//
// covers P4.3, P4.5, P11.1
func TestGatewaysShareShards(t *testing.T) {
	t.Parallel()
	const shards = 4
	def := meshOf(t, shardedPairs(shards, 100))
	c := startCluster(t, def, "one", "two")
	readers := make([]*agents.Reader, shards)
	for k := range shards {
		readers[k] = agents.NewReader(c.connect(t, bcp.AgentName(fmt.Sprint("mailer", k)), bcp.RoleReader, k%3))
	}
	pushed := 0
	push := func() {
		t.Helper()
		pushed++
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for k, reader := range readers {
			if _, err := reader.Push(ctx, bcp.AgentName(fmt.Sprint("main", k)), "alerts", map[string]bool{"urgent": true}, agents.PushOptions{PushID: bcp.ClientID(fmt.Sprint("p", pushed))}); err != nil {
				t.Fatalf("shard %d: %v", k, err)
			}
		}
	}
	exact := func(gateways ...*mesh.Gateway) {
		t.Helper()
		until(t, fmt.Sprint(pushed, " bits spent on each shard, and no agent of another there"), func() bool {
			served := 0
			for _, g := range gateways {
				for _, seat := range g.ShardServers() {
					err := seat.Inspect(t.Context(), func(s *state.State) {
						pools, connected := s.Pools(), seat.Connected()
						if len(pools) == 1 && pools[0].Balance.Settled == bcp.Bits(pushed)*bcp.Bit && connected[bcp.RoleReader] == 1 {
							served++
						}
					})
					if err != nil && seat.Active() {
						return false
					}
				}
			}
			return served == shards
		})
	}

	one := c.gateway(t, def, "one")
	until(t, "one that serves all", func() bool { return serving(one) == "0 1 2 3" })
	push()
	exact(one)
	two := c.gateway(t, def, "two")
	push()
	until(t, "each that serves two", func() bool { // whichever those are
		first, second, _ := strings.Cut(serving(one, two), " / ")
		served := append(strings.Fields(first), strings.Fields(second)...)
		slices.Sort(served)
		return len(strings.Fields(first)) == shards/2 && slices.Equal(served, []string{"0", "1", "2", "3"})
	})
	push()
	exact(one, two)
	c.stop(t, one)
	push()
	until(t, "the other that serves all", func() bool { return serving(one, two) == " / 0 1 2 3" })
	push()
	exact(two)
}

// A backup that has agents which the definitions have on another shard is not restored
// there. Where it was all the same, no gateway serves that shard, and each says why; the
// others are served.
//
// covers P4.5, P11.1, BCP-34
func TestMovedAgentsAreNotServedOnAShard(t *testing.T) {
	t.Parallel()
	alone := meshtest.Start(t, pair(100))
	mailer := alone.Connect(t, "mailer", bcp.RoleReader)
	if r := mailer.Push(t, "main", "alerts", `{"urgent":true}`, ""); r.Text("status") != "delivered" {
		t.Fatal(r.JSON)
	}
	alone.Stop(t)
	var backup bytes.Buffer
	m, err := mesh.Backup(t.Context(), alone.State, nil, &backup, mesh.BackupOptions{WithoutKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	def := meshOf(t, map[string]string{
		"main.md":   agentFile("main", "shard: 1\n", controls("mailer", 100, alerts)),
		"mailer.md": agentFile("mailer", "shard: 1\n", reads("main")),
		"boss.md":   agentFile("boss", "", controls("clerk", 100)),
		"clerk.md":  agentFile("clerk", "", reads("boss")),
	})
	restore := func(config cluster.Config, of *bcp.Mesh) error {
		_, err := mesh.RestoreCluster(t.Context(), []io.ReadSeeker{bytes.NewReader(backup.Bytes())}, config, of, mesh.BackupOptions{})
		return err
	}
	// It is known before anything is connected to.
	if err := restore(cluster.Config{URL: "nats://127.0.0.1:1", Creds: t.TempDir()}, def.OfShard(0)); !errors.Is(err, bcp.ErrMoved) || !strings.Contains(err.Error(), "leave it on shard 0") {
		t.Errorf("a backup of agents that are on another shard is restored: %v", err)
	}

	c := startCluster(t, def, "one")
	if err := restore(cluster.Config{URL: c.URL(), Creds: filepath.Join(c.folder, "one"), Name: "backup"}, meshOf(t, pair(100))); err != nil {
		t.Fatal(err)
	}
	config := c.config(t, def, "one")
	said := make(chan struct{})
	config.Logger = hclog.New(&hclog.LoggerOptions{Output: &listener{words: "the term ended", then: bcp.ErrMoved.Error(), heard: said}})
	g, err := mesh.StartGateway(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop(t, g) })
	select {
	case <-said:
	case <-time.After(patience):
		t.Error("it does not say why it does not serve")
	}
	until(t, "the other shard is served", g.ShardServers()[1].Active)
	if g.ShardServers()[0].Active() {
		t.Error("a shard is served whose agents are on another")
	}
	if n := len(slices.Collect(c.decisions(t, "one"))); uint64(n) != m.Decisions {
		t.Errorf("the journal has %d decisions, and the backup %d", n, m.Decisions)
	}
}

// listener is a log that waits for a line with some words.
type listener struct {
	words, then string
	once        sync.Once
	heard       chan struct{}
}

func (l *listener) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(l.words)) && bytes.Contains(line, []byte(l.then)) {
		l.once.Do(func() { close(l.heard) })
	}
	return len(line), nil
}
