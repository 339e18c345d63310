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
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func (c *clustered) access() server.ClusterConfig {
	return server.ClusterConfig{URL: c.URL(), Creds: filepath.Join(c.folder, "one"), Name: "backup"}
}

// backup writes one to a file.
func (c *clustered) backup(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	f, err := os.Create(file)
	if err == nil {
		_, err = backUpCluster(t.Context(), c.access(), c.state, f, mesh.BackupOptions{Version: "test"})
	}
	noError(t, errors.Join(err, f.Close()))
	return file
}

// cut truncates a backup, as the operator does: in a folder that is made from it. It returns
// what is cut off and what is left.
func (c *clustered) cut(t *testing.T, def *bcp.Mesh, whole string) (off, left string, err error) {
	t.Helper()
	folder, _, err := restored(t, whole)
	if err != nil {
		return "", "", err
	}
	off, left = filepath.Join(t.TempDir(), "off-"+filepath.Base(whole)), filepath.Join(t.TempDir(), "left.tar.gz")
	must(truncate(t.Context(), folder, def, off, nil))
	f := must(os.Create(left))
	_, err = backUp(t.Context(), folder, def, f, mesh.BackupOptions{Version: "test"})
	noError(t, errors.Join(err, f.Close(), os.RemoveAll(filepath.Join(c.state, "tree")), os.CopyFS(filepath.Join(c.state, "tree"), os.DirFS(filepath.Join(folder, "tree")))))
	return off, left, nil
}

func (c *clustered) restore(t *testing.T, def *bcp.Mesh, files ...string) error {
	t.Helper()
	var from []io.ReadSeeker
	for _, name := range files {
		content := must(os.ReadFile(name))
		from = append(from, bytes.NewReader(content))
	}
	_, err := mesh.RestoreCluster(t.Context(), from, c.access(), def, mesh.BackupOptions{})
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

// sign signs a checkpoint as the operator reads it.
func (c *clustered) sign(t *testing.T) ([]byte, error) {
	t.Helper()
	conn := c.connect(t, bcp.Operator, bcp.RoleOperator, 0)
	defer conn.Close()
	return mesh.SignCheckpoint(t.Context(), c.state, journalOf(agents.NewOperator(conn)))
}

// streams are those of the gateway's account.
func (c *clustered) streams(t *testing.T) natsjs.JetStream {
	t.Helper()
	all := must(server.ConnectCluster(t.Context(), c.access()))
	defer all.Close()
	conn := must(all.Gateway())
	t.Cleanup(conn.Close)
	return must(natsjs.New(conn))
}

// A journal that is backed up while it is written to goes on at a cluster that was emptied,
// also where an attempt before was interrupted; so does one that is cut behind backups, twice:
// what was spent is spent, what was pushed before is not charged again, gateways need nothing
// in their folders, and checkpoints go on. It is put behind no other journal. All backups
// together are the whole journal, which a checker that knows nothing of the writer agrees with;
// the newest alone is a mesh.
//
// covers P4.3, P11.1, P11.2
func TestTruncateCluster(t *testing.T) {
	t.Parallel()
	def := meshOf(t, pair(100))
	c := startCluster(t, def, "one")
	var g *mesh.Gateway
	pushed := 0
	push := func(from int) {
		t.Helper()
		ctx := within(t, patience)
		conn := c.connect(t, "mailer", bcp.RoleReader, 0)
		defer conn.Close()
		for n := range 10 {
			_, err := agents.NewReader(conn).Push(ctx, "main", "alerts", map[string]bool{"urgent": true}, agents.PushOptions{PushID: bcp.ClientID(fmt.Sprint("p", from+n))})
			noError(t, err)
		}
		pushed = max(pushed, from+10)
	}
	exact := func() {
		t.Helper()
		until(t, fmt.Sprint(pushed, " bits spent"), func() (exact bool) {
			_ = g.Inspect(t.Context(), func(s *state.State) {
				pools := s.Pools()
				exact = len(pools) == 1 && pools[0].Balance.Settled == bcp.Bits(pushed)*bcp.Bit
			})
			return exact
		})
	}
	var signed []byte
	sign := func() {
		t.Helper()
		newest, err := c.sign(t)
		failIf(t, err != nil || bytes.Equal(newest, signed), "the checkpoint %q, %v", newest, err)
		signed = newest
	}

	g = c.gateway(t, def, "one")
	push(0)
	exact()
	sign()
	backup := func() []byte {
		t.Helper()
		var b bytes.Buffer
		m, err := backUpCluster(t.Context(), c.access(), "", &b, mesh.BackupOptions{WithoutKeys: true})
		stopIf(t, err != nil || m.Decisions == 0, "%d decisions: %v", m.Decisions, err)
		return b.Bytes()
	}
	restore := func(content []byte) error {
		_, err := mesh.RestoreCluster(t.Context(), []io.ReadSeeker{bytes.NewReader(content)}, c.access(), def, mesh.BackupOptions{})
		return err
	}
	early := backup()
	push(pushed)
	late := backup()
	c.stop(t, g)
	c.empty(t)
	for name, content := range map[string][]byte{"a part": late[:len(late)/2], "nothing": nil} {
		fails(t, restore(content), jetstream.ErrBackup, "%s of a backup", name)
	}
	for _, content := range [][]byte{early, late, late} { // the first as if it had been interrupted there
		noError(t, restore(content))
	}
	fails(t, restore(early), mesh.ErrNotEmpty, "an older backup into a longer journal")
	g = c.gateway(t, def, "one") // with an empty folder
	exact()
	fails(t, restore(late), mesh.ErrNotEmpty, "a backup into a journal that went on")
	var wholes []string
	for round := range 2 {
		c.stop(t, g)
		off, cut, err := c.cut(t, def, c.backup(t, fmt.Sprintf("office-%d.tar.gz", round)))
		noError(t, err)
		wholes = append(wholes, off)
		fails(t, c.restore(t, def, cut), mesh.ErrNotEmpty, "into a cluster that has a journal")
		c.empty(t)
		for range 2 { // the second as if the first had been interrupted at its end
			noError(t, c.restore(t, def, cut))
		}
		begin, err := jetstream.Begin(t.Context(), c.streams(t))
		failIf(t, err != nil || begin.Truncation.File != filepath.Base(wholes[round]), "it begins behind %+v: %v", begin, err)
		g = c.gateway(t, def, "one") // with an empty folder
		exact()
		push(pushed - 10) // again
		exact()
		push(pushed)
		exact()
		sign()
	}
	fails(t, c.restore(t, def, wholes[0]), mesh.ErrNotEmpty, "an older backup")
	c.stop(t, g)

	last := c.backup(t, "last.tar.gz")
	for name, files := range map[string][]string{"the newest": {last}, "all": append(wholes, last)} {
		state, _, err := restored(t, files...)
		stopIf(t, err != nil, "%s: %v", name, err)
		js, end := meshtest.OpenStreams(t, state, def)
		if name == "all" {
			expect(t, errorOf(meshtest.CheckStream(t, js, map[string]int64{"main mailer": int64(100 * bcp.Bit)})), nil,
				"the whole journal")
		}
		end()
	}
}

// A gateway asks the cluster for the base of a truncated journal, also if each stream has
// only one copy. A backup is not truncated that is damaged, and gateways do not begin
// behind a base that was altered, and say which backup has it.
//
// covers P1.3, P4.3, P11.2, A-CHAIN
func TestTruncatedClusterRefuses(t *testing.T) {
	t.Parallel()
	def := meshOf(t, pair(100))
	def.Replicas = 1
	c := startCluster(t, def, "one")
	g := c.gateway(t, def, "one")
	until(t, "a gateway that serves", g.Active)
	c.stop(t, g)
	whole := c.backup(t, "office.tar.gz")
	content := must(os.ReadFile(whole))
	half := filepath.Join(t.TempDir(), "half.tar.gz")
	noError(t, os.WriteFile(half, content[:len(content)/2], 0o600))
	if _, _, err := c.cut(t, def, half); !errors.Is(err, jetstream.ErrBackup) {
		t.Errorf("a half: %v", err)
	}

	_, cut, err := c.cut(t, def, whole)
	noError(t, err)
	c.empty(t)
	noError(t, c.restore(t, def, cut))
	g = c.gateway(t, def, "one") // with an empty folder
	until(t, "a gateway that serves", g.Active)
	c.stop(t, g)
	js := c.streams(t)
	base := must(js.Stream(t.Context(), jetstream.BaseStream))
	begin := must(jetstream.Begin(t.Context(), js))
	part := must(base.GetLastMsgForSubject(t.Context(), subjects.Base(begin.Sequence)))
	noError(t, base.SecureDeleteMsg(t.Context(), part.Sequence))
	part.Data[100] ^= 1
	must(js.PublishMsg(t.Context(), &nats.Msg{Subject: part.Subject, Header: part.Header, Data: part.Data}))
	g = must(mesh.StartGateway(t.Context(), c.config(t, def, "one")))
	<-g.Done()
	var b bytes.Buffer
	_, err = backUpCluster(t.Context(), c.access(), "", &b, mesh.BackupOptions{WithoutKeys: true})
	failIf(t, !errors.Is(err, jetstream.ErrBase) || !bytes.Contains([]byte(err.Error()), []byte("off-office.tar.gz")),
		"an altered base: %v", err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	fails(t, g.Stop(ctx), jetstream.ErrBase, "a gateway behind an altered base")
}
