package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// archive truncates the journal of a mesh that rests, and returns the backup.
func archive(t *testing.T, m *meshtest.Mesh, name string) (string, jetstream.Manifest) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	made := must(truncate(t.Context(), m.State, m.Definition, file, nil))
	return file, made
}

func truncate(ctx context.Context, state string, def *bcp.Mesh, file string, step func(string) error) (jetstream.Manifest, error) {
	f, err := os.Create(file)
	if err != nil {
		return jetstream.Manifest{}, err
	}
	var m jetstream.Manifest
	err = mesh.Use(ctx, state, def, func(s *mesh.Source) (err error) {
		m, err = s.Truncate(ctx, f, mesh.TruncateOptions{BackupOptions: mesh.BackupOptions{Version: "test"},
			Keep: func() (string, error) { return file, errors.Join(f.Sync(), f.Close()) }, Step: step})
		return err
	})
	return m, err
}

func backupTo(t *testing.T, m *meshtest.Mesh, name string) (string, jetstream.Manifest) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	f := must(os.Create(file))
	made, err := backUp(t.Context(), m.State, m.Definition, f, mesh.BackupOptions{Version: "test"})
	noError(t, errors.Join(err, f.Close()))
	return file, made
}

// restored makes a state folder of some backups.
func restored(t *testing.T, files ...string) (string, jetstream.Manifest, error) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "new")
	var from []io.ReadSeeker
	for _, name := range files {
		f := must(os.Open(name))
		defer f.Close()
		from = append(from, f)
	}
	m, err := mesh.Restore(t.Context(), from, state, mesh.BackupOptions{Version: "test"})
	return state, m, err
}

// more has some more decided.
func more(t *testing.T, m *meshtest.Mesh) {
	t.Helper()
	main, mailer := controller(t, m, "main"), reader(t, m, "mailer")
	for range 3 {
		main.Accepted(t, "mailer", askUrgent) // and left open
		mailer.Push(t, "main", "alerts", `{"urgent":true}`, "")
	}
}

// beginning is where the journal of a mesh that rests begins.
func beginning(t *testing.T, m *meshtest.Mesh) jetstream.Beginning {
	t.Helper()
	js, end := m.Streams(t)
	defer end()
	return must(jetstream.Begin(t.Context(), js))
}

// The journal of a mesh that rests is truncated, twice, and makes the same mesh: from a
// snapshot, from its base and under another program. Audits have all of it.
//
// covers P4.5, P11.1, P11.2
func TestTruncate(t *testing.T) {
	t.Parallel()
	version := "test"
	m := busy(t, func(c *mesh.Config) { c.Version = version })
	want := picture(t, m)
	m.Stop(t)
	noError(t, os.RemoveAll(streamFolder(t, m.State, jetstream.AuditStream))) // a projection that is far behind
	for n := range 2 {
		file, made := archive(t, m, fmt.Sprintf("office-%d.tar.gz", n))
		begin := beginning(t, m)
		failIf(t, begin.Sequence != made.Records || begin.Decision != made.Decisions || begin.Head != made.Head || begin.Truncation.File != filepath.Base(file),
			"it begins behind %+v, and the backup ends with %+v", begin, made)
		for _, without := range []string{"nothing", "snapshots"} {
			noError(t, os.RemoveAll(filepath.Join(m.State, without)))
			for _, version = range []string{"test", "newer", "test"} {
				m.Start(t)
				shows(t, m, want, version, without)
				m.Stop(t)
			}
		}
		m.Start(t)
		more(t, m)
		want = picture(t, m)
		m.Stop(t)
	}
	js, end := m.Streams(t)
	first := meshtest.ReadStream(t, js, jetstream.AuditStream)[0]
	failIf(t, first.Header.Get("Bcp-Decision") != "1", "the audit begins with decision %s", first.Header.Get("Bcp-Decision"))
	end()
	bases, err := os.ReadDir(filepath.Join(m.State, "base"))
	failIf(t, err != nil || len(bases) != 1, "bases: %v %v", bases, err)
}

// A truncation of a mesh that rests decides nothing else: a run goes on at the next start.
//
// covers P4.5, KER-1
func TestTruncateDecidesNothingElse(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, kernelMesh())
	planner := agents.NewPlanner(client(t, m, "ann", bcp.RolePlanner, agents.Options{}))
	planner.OnPlan(func(context.Context, agents.PlanRequest) (any, error) { return jsontext.Value(moodPlan), nil })
	noError(t, planner.Start(t.Context()))
	_, err := agents.NewRequester(client(t, m, "main", bcp.RoleController, agents.Options{})).Run(t.Context(), "desk", "all", agents.RunTask{Task: "Is the writer angry?"})
	noError(t, err)
	m.Wait(t, meshtest.Of(bcp.KindPlan)) // nobody serves the tool
	m.Stop(t)
	last := func() uint64 {
		js, end := m.Streams(t)
		defer end()
		return must(jetstream.LastDecision(t.Context(), js))
	}
	before := last()
	archive(t, m, "office.tar.gz")
	if after := last(); after != before+2 {
		t.Errorf("%d decisions, want two", after-before)
	}
	m.Start(t)
	kernelSeats(t, m, moodPlan)
	m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindOutcome && d.Code == "" })
}

// A server that dies when the limits are written and nothing is cut yet cuts when
// it starts.
//
// covers P4.5, A-CRASH
func TestTruncateEndsInTheMiddle(t *testing.T) {
	t.Parallel()
	m := busy(t)
	want := picture(t, m)
	m.Stop(t)
	before := filepath.Join(t.TempDir(), "before")
	file := filepath.Join(t.TempDir(), "a.tar.gz")
	limits := func() error {
		for _, name := range []string{"meta.inf", "meta.sum"} {
			content, err := os.ReadFile(filepath.Join(streamFolder(t, m.State, jetstream.CommitStream), name))
			if err == nil {
				err = os.WriteFile(filepath.Join(streamFolder(t, before, jetstream.CommitStream), name), content, 0o600)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	must(truncate(t.Context(), m.State, m.Definition, file, func(step string) error {
		switch step {
		case "cutting the journal":
			return exec.CommandContext(t.Context(), "cp", "-a", m.State, before).Run()
		case "lifting the limit":
			return limits()
		}
		return nil
	}))
	begin := beginning(t, m)
	m.State = before
	expect(t, beginning(t, m), begin, "it begins at")
	m.Start(t)
	shows(t, m, want)
}

// What a step of a truncation finds wrong leaves everything as it was. Without its base,
// with another, or with more or less cut off than was recorded, a truncated journal is
// refused, and the message names the backup that has it.
//
// covers P4.5, P11.2, A-CHAIN
func TestDamagedTruncation(t *testing.T) {
	t.Parallel()
	m := busy(t)
	want := picture(t, m)
	m.Stop(t)
	changed := filepath.Join(t.TempDir(), "a.tar.gz")
	fails(t, errorOf(truncate(t.Context(), m.State, m.Definition, changed, func(step string) error {
		if step != "checking the backup" {
			return nil
		}
		f, err := os.OpenFile(changed, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteAt([]byte{0}, 1000)
		}
		return errors.Join(err, f.Close())
	})), nil, "truncated with a backup that was changed")
	begin := beginning(t, m)
	failIf(t, begin.Truncated(), "it begins at %+v", begin)
	m.Start(t)
	shows(t, m, want)
	m.Stop(t)
	file, _ := archive(t, m, "office.tar.gz")
	m.Start(t)
	more(t, m)
	m.Stop(t)
	refused := func(t *testing.T, want error) {
		t.Helper()
		err := m.TryStart(t)
		failIf(t, !errors.Is(err, want) || errors.Is(want, jetstream.ErrBase) && !strings.Contains(err.Error(), "office.tar.gz"),
			"got %v", err)
		m.Mesh = nil
		fails(t, errorOf(backUp(t.Context(), m.State, m.Definition, io.Discard, mesh.BackupOptions{})), want, "a backup")
		_, err = truncate(t.Context(), m.State, m.Definition, filepath.Join(t.TempDir(), "x"), nil)
		failIf(t, !errors.Is(err, want), "a truncation: %v", err)
	}
	found, err := filepath.Glob(filepath.Join(m.State, "base", "*"))
	stopIf(t, err != nil || len(found) != 1, "%v %v", found, err)
	good := must(os.ReadFile(found[0]))
	for name, content := range map[string][]byte{"changed": bytes.Replace(good, []byte("main"), []byte("mian"), 1), "cut": good[:100]} {
		noError(t, os.WriteFile(found[0], content, 0o600))
		t.Run("base "+name, func(t *testing.T) { refused(t, jetstream.ErrBase) })
	}
	noError(t, os.Remove(found[0]))
	t.Run("base missing", func(t *testing.T) { refused(t, jetstream.ErrBase) })
	tar := exec.Command("tar", "-xzf", file, "-C", m.State, "base")
	out, err := tar.CombinedOutput()
	stopIf(t, err != nil, "%v: %s", err, out)
	m.Start(t)
	m.Stop(t)

	js, end := m.Streams(t)
	stream := must(js.Stream(t.Context(), jetstream.CommitStream))
	config := stream.CachedInfo().Config
	config.Discard, config.MaxMsgs = natsjs.DiscardOld, int64(stream.CachedInfo().State.Msgs)-1
	must(js.UpdateStream(t.Context(), config))
	end()
	t.Run("one record more", func(t *testing.T) { refused(t, jetstream.ErrRecord) })
	noError(t, os.RemoveAll(filepath.Join(m.State, "jetstream")))
	noError(t, os.RemoveAll(filepath.Join(m.State, "snapshots")))
	t.Run("everything", func(t *testing.T) {
		fails(t, m.TryStart(t), jetstream.ErrLost, "started")
		m.Mesh = nil
	})
}
