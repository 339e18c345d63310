//go:build unix

package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/cluster"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func (c *clustered) access(shard int) cluster.Config {
	return cluster.Config{URL: c.URL(), Creds: filepath.Join(c.folder, "one"), Name: "backup", Shard: shard}
}

// backup writes one of a shard to a file.
func (c *clustered) backup(t *testing.T, shard int, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	f, err := os.Create(file)
	if err == nil {
		_, err = mesh.BackupCluster(t.Context(), c.access(shard), c.state, f, mesh.BackupOptions{Version: "test"})
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return file
}

// cut truncates a backup.
func (c *clustered) cut(t *testing.T, def *bcp.Mesh, whole string) (string, error) {
	t.Helper()
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cut-"+filepath.Base(whole))
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = mesh.TruncateBackup(t.Context(), whole, bytes.NewReader(content), c.state, def, f, mesh.BackupOptions{Version: "test"})
	return file, errors.Join(err, f.Close())
}

func (c *clustered) restore(t *testing.T, def *bcp.Mesh, shard int, files ...string) error {
	t.Helper()
	var from []io.ReadSeeker
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		from = append(from, bytes.NewReader(content))
	}
	_, err := mesh.RestoreCluster(t.Context(), from, c.access(shard), def.OfShard(shard), mesh.BackupOptions{})
	return err
}

// empty has all nodes begin anew, with nothing in their streams.
func (c *clustered) empty(t *testing.T) {
	t.Helper()
	for i := range c.Size() {
		c.Kill(t, i)
		c.Empty(t, i)
	}
	for i := range c.Size() {
		c.Restart(t, i)
	}
	c.AwaitHealthy(t)
}

// sign signs a checkpoint of a shard as the operator reads it.
func (c *clustered) sign(t *testing.T, shard int) ([]byte, error) {
	t.Helper()
	conn := c.connect(t, bcp.Operator, bcp.RoleOperator, 0)
	defer conn.Close()
	o := agents.NewOperator(conn).OnShard(shard)
	return mesh.SignCheckpoint(t.Context(), c.state, shard, func(ctx context.Context, from, _ uint64, each func(uint64, [][]byte) error) error {
		for r, err := range o.Journal(ctx, from) {
			if err != nil {
				return err
			}
			decisions, err := jetstream.DecodeRecord(r.Data)
			if err == nil {
				err = each(r.Sequence, decisions)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// streams are those of the gateway's account of a shard.
func (c *clustered) streams(t *testing.T, shard int) natsjs.JetStream {
	t.Helper()
	all, err := cluster.Connect(t.Context(), c.access(shard))
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	conn, err := all.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// The journals of two shards are cut behind backups, and go on in a cluster that was
// emptied, twice: what was spent is spent, what was pushed before is not charged again,
// gateways need nothing in their folders, and checkpoints go on. All backups together are
// the whole journal, which a checker that knows nothing of the writer agrees with; the
// newest alone is a mesh.
//
// covers P4.3, P4.5, P11.1, P11.2
func TestTruncateBackup(t *testing.T) {
	t.Parallel()
	def := meshOf(t, shardedPairs(2, 100))
	c := startCluster(t, def, "one")
	var g *mesh.Gateway
	pushed := 0
	push := func(from int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for k := range 2 {
			conn := c.connect(t, bcp.AgentName(fmt.Sprint("mailer", k)), bcp.RoleReader, 0)
			for n := range 10 {
				if _, err := agents.NewReader(conn).Push(ctx, bcp.AgentName(fmt.Sprint("main", k)), "alerts", map[string]bool{"urgent": true},
					agents.PushOptions{PushID: bcp.ClientID(fmt.Sprint("p", from+n))}); err != nil {
					t.Fatalf("shard %d: %v", k, err)
				}
			}
			conn.Close()
		}
		pushed = max(pushed, from+10)
	}
	exact := func() {
		t.Helper()
		until(t, fmt.Sprint(pushed, " bits spent on each shard"), func() bool {
			exact := 0
			for _, seat := range g.ShardServers() {
				_ = seat.Inspect(t.Context(), func(s *state.State) {
					if pools := s.Pools(); len(pools) == 1 && pools[0].Balance.Settled == bcp.Bits(pushed)*bcp.Bit {
						exact++
					}
				})
			}
			return exact == 2
		})
	}
	signed := [2][]byte{}
	sign := func() {
		t.Helper()
		for k := range signed {
			newest, err := c.sign(t, k)
			if err != nil || bytes.Equal(newest, signed[k]) {
				t.Errorf("shard %d: the checkpoint %q, %v", k, newest, err)
			}
			signed[k] = newest
		}
	}

	g = c.gateway(t, def, "one")
	push(0)
	exact()
	sign()
	wholes := [2][]string{}
	for round := range 2 {
		c.stop(t, g)
		var cuts [2]string
		for k := range cuts {
			whole := c.backup(t, k, fmt.Sprintf("office-%d-%d.tar.gz", k, round))
			wholes[k] = append(wholes[k], whole)
			var err error
			if cuts[k], err = c.cut(t, def, whole); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.restore(t, def, 0, cuts[0]); !errors.Is(err, mesh.ErrNotEmpty) {
			t.Errorf("into a cluster that has a journal: %v", err)
		}
		c.empty(t)
		if err := c.restore(t, def, 1, cuts[0]); !errors.Is(err, mesh.ErrOtherShard) {
			t.Errorf("into another shard: %v", err)
		}
		for range 2 { // the second as if the first had been interrupted at its end
			for k := range cuts {
				if err := c.restore(t, def, k, cuts[k]); err != nil {
					t.Fatal(err)
				}
			}
		}
		for k := range cuts {
			begin, err := jetstream.Begin(t.Context(), c.streams(t, k))
			if err != nil || begin.Truncation.File != filepath.Base(wholes[k][round]) {
				t.Errorf("shard %d begins behind %+v: %v", k, begin, err)
			}
		}
		g = c.gateway(t, def, "one") // with an empty folder
		exact()
		push(pushed - 10) // again
		exact()
		push(pushed)
		exact()
		sign()
	}
	for k := range 2 {
		if err := c.restore(t, def, k, wholes[k][0]); !errors.Is(err, mesh.ErrNotEmpty) {
			t.Errorf("an older backup: %v", err)
		}
	}
	c.stop(t, g)

	for k := range 2 {
		last := c.backup(t, k, "last.tar.gz")
		for name, files := range map[string][]string{"the newest": {last}, "all": append(wholes[k], last)} {
			state, _, err := restored(t, files...)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			js, end := meshtest.OpenStreams(t, state, def)
			if name == "all" {
				var records [][]byte
				for _, msg := range meshtest.ReadStream(t, js, jetstream.CommitStream) {
					records = append(records, msg.Data)
				}
				if _, err := meshtest.CheckJournal(records, meshtest.ReadKeys(t, js), map[string]int64{fmt.Sprintf("main%d mailer%d", k, k): int64(100 * bcp.Bit)}); err != nil {
					t.Errorf("the whole journal of shard %d: %v", k, err)
				}
			}
			end()
		}
	}
}

// A backup is not truncated that is damaged, of another mesh's shards, or of one process;
// a cluster does not take one whose agents are on another shard now, and gateways do not
// begin behind a base that was altered, and say which backup has it.
//
// covers P4.5, P11.2, A-CHAIN
func TestTruncatedClusterRefuses(t *testing.T) {
	t.Parallel()
	def := meshOf(t, shardedPairs(2, 100))
	c := startCluster(t, def, "one")
	g := c.gateway(t, def, "one")
	until(t, "a gateway that serves both", func() bool { return serving(g) == "0 1" })
	c.stop(t, g)
	whole := c.backup(t, 1, "office.tar.gz")
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(t.TempDir(), "half.tar.gz")
	if err := os.WriteFile(half, content[:len(content)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.cut(t, def, half); !errors.Is(err, jetstream.ErrBackup) {
		t.Errorf("a half: %v", err)
	}
	if _, err := c.cut(t, meshOf(t, pair(100)), whole); !errors.Is(err, mesh.ErrOtherShard) {
		t.Errorf("of a mesh with one shard: %v", err)
	}
	m := busy(t)
	m.Stop(t)
	single, _ := backupTo(t, m, "single.tar.gz")
	if _, err := c.cut(t, m.Definition, single); err == nil {
		t.Error("of one process")
	}

	cut, err := c.cut(t, def, whole)
	if err != nil {
		t.Fatal(err)
	}
	c.empty(t)
	if err := c.restore(t, meshOf(t, swapped(shardedPairs(2, 100))), 1, cut); !errors.Is(err, state.ErrDefinitions) {
		t.Errorf("whose agents are on another shard: %v", err)
	}
	if err := c.restore(t, def, 1, cut); err != nil {
		t.Fatal(err)
	}
	js := c.streams(t, 1)
	base, err := js.Stream(t.Context(), jetstream.BaseStream)
	if err != nil {
		t.Fatal(err)
	}
	begin, err := jetstream.Begin(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	part, err := base.GetLastMsgForSubject(t.Context(), subjects.Base(begin.Sequence))
	if err != nil {
		t.Fatal(err)
	}
	if err := base.SecureDeleteMsg(t.Context(), part.Sequence); err != nil {
		t.Fatal(err)
	}
	part.Data[100] ^= 1
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: part.Subject, Header: part.Header, Data: part.Data}); err != nil {
		t.Fatal(err)
	}
	if g, err = mesh.StartGateway(t.Context(), c.config(t, def, "one")); err != nil {
		t.Fatal(err)
	}
	until(t, "a gateway that serves the other shard", func() bool { return serving(g) == "0" })
	var b bytes.Buffer
	_, err = mesh.BackupCluster(t.Context(), c.access(1), "", &b, mesh.BackupOptions{WithoutKeys: true})
	if !errors.Is(err, jetstream.ErrBase) || !bytes.Contains([]byte(err.Error()), []byte("office.tar.gz")) {
		t.Errorf("an altered base: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := g.Stop(ctx); !errors.Is(err, jetstream.ErrBase) {
		t.Errorf("a gateway behind an altered base: %v", err)
	}
}

// A gateway on a cluster asks the cluster for the base of a truncated journal, also if each
// stream has only one copy.
//
// covers P1.3, P4.3, P11.2
func TestTruncatedJournalWithOneCopyIsServed(t *testing.T) {
	t.Parallel()
	def := meshOf(t, pair(100))
	def.Replicas = 1
	c := startCluster(t, def, "one")
	g := c.gateway(t, def, "one")
	until(t, "a gateway that serves", g.ShardServers()[0].Active)
	push := func(id bcp.ClientID) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		reader := agents.NewReader(c.connect(t, "mailer", bcp.RoleReader, 0))
		if _, err := reader.Push(ctx, "main", "alerts", map[string]bool{"urgent": true}, agents.PushOptions{PushID: id}); err != nil {
			t.Fatal(err)
		}
	}
	push("first")
	c.stop(t, g)
	whole := c.backup(t, 0, "office.tar.gz")
	cut, err := c.cut(t, def, whole)
	if err != nil {
		t.Fatal(err)
	}
	c.empty(t)
	if err := c.restore(t, def, 0, cut); err != nil {
		t.Fatal(err)
	}
	g = c.gateway(t, def, "one") // with an empty folder
	push("first")                // again
	push("second")
	until(t, "two bits spent", func() bool {
		var spent bcp.Bits
		err := g.ShardServers()[0].Inspect(t.Context(), func(s *state.State) {
			for _, p := range s.Pools() {
				spent += p.Balance.Settled
			}
		})
		return err == nil && spent == 2*bcp.Bit
	})
}

// swapped has each pair of two shards on the other one.
func swapped(files map[string]string) map[string]string {
	changed := map[string]string{}
	for name, text := range files {
		text = strings.Replace(text, "shard: 0", "shard: x", 1)
		text = strings.Replace(text, "shard: 1", "shard: 0", 1)
		changed[name] = strings.Replace(text, "shard: x", "shard: 1", 1)
	}
	return changed
}
