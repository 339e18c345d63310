package mesh_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// truncateRunning truncates the journal of a mesh that runs, as its operator.
func truncateRunning(ctx context.Context, folder string, def *bcp.Mesh, o *agents.Operator, file string, step func(string) error) (jetstream.Manifest, error) {
	f, err := os.Create(file)
	if err != nil {
		return jetstream.Manifest{}, err
	}
	return mesh.Dial(folder, def, operatorOf(o)).Truncate(ctx, f, mesh.TruncateOptions{BackupOptions: mesh.BackupOptions{Version: "test"},
		Keep: func() (string, error) { return file, errors.Join(f.Sync(), f.Close()) }, Step: step})
}

// A journal is cut while the mesh decides: what is decided meanwhile is behind the place,
// what is in front of it is in the backup, and together they are the whole journal. From
// its base the mesh is what it was.
//
// covers P4.5, P11.1, P11.2
func TestTruncateRunning(t *testing.T) {
	t.Parallel()
	m := busyFor(t, 1_000_000)
	whole := []string{}
	for n := range 2 {
		m.Settle(t)
		file := filepath.Join(t.TempDir(), fmt.Sprintf("office-%d.tar.gz", n))
		made := pushWhileTruncating(t, m, file)
		whole = append(whole, file)
		begin, err := jetstream.Begin(t.Context(), m.JetStream())
		failIf(t, err != nil || begin.Sequence != made.Records || begin.Decision != made.Decisions || begin.Head != made.Head || begin.Truncation.File != filepath.Base(file),
			"it begins behind %+v (%v), and the backup ends with %+v", begin, err, made)
		r, err := operator(t, m).Reconcile(t.Context())
		failIf(t, err != nil || len(r.Differences) > 0, "reconciled: %+v %v", r, err)
		c := redecideRunning(t, m, m.Definition)
		failIf(t, len(c.differs) > 0 || c.count[state.ComparedSame] == 0, "decided again %v, differs %v", c.count, c.differs)
		want := picture(t, m)
		m.Stop(t)
		noError(t, os.RemoveAll(filepath.Join(m.State, "snapshots")))
		m.Start(t)
		shows(t, m, want)
	}
	want := picture(t, m)
	m.Stop(t)
	last, _ := backupTo(t, m, "last.tar.gz")
	for name, files := range map[string][]string{"the newest": {last}, "all": append(whole, last), "the last two": {whole[1], last}} {
		folder, _, err := restored(t, files...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m.State = folder
		if name == "all" {
			js, end := m.Streams(t)
			expect(t, errorOf(meshtest.CheckStream(t, js, map[string]int64{"main mailer": int64(1_000_000 * bcp.Bit)})), nil,
				"the whole journal")
			end()
		}
		m.Start(t)
		shows(t, m, want, name)
		more(t, m)
		m.Stop(t)
	}
	for name, files := range map[string][]string{"with one missing": {whole[0], last}, "in another order": {whole[1], whole[0]}} {
		_, _, err := restored(t, files...)
		failIf(t, !errors.Is(err, jetstream.ErrBackup), "%s: %v", name, err)
	}
}

// What is asked for and not right cuts nothing: a place that nobody announced, another base,
// a base that is no file, and what is not an operator's message.
//
// covers P4.5, P11.2
func TestTruncateRunningRefuses(t *testing.T) {
	t.Parallel()
	m := busy(t)
	o := operator(t, m)
	ask := operatorOf(o).Truncate
	place, err := ask(t.Context(), bcp.Truncation{})
	stopIf(t, err != nil || place.Sequence == 0, "%v %v", place, err)
	for name, about := range map[string]bcp.Truncation{
		"no such base":      {Sequence: place.Sequence, Base: bcp.Digest{1}, Backup: bcp.Digest{2}, File: "x"},
		"no digest":         {Sequence: place.Sequence, File: "x"},
		"not announced":     {Sequence: place.Sequence - 1, Base: bcp.Digest{1}, Backup: bcp.Digest{2}, File: "x"},
		"behind the end":    {Sequence: place.Sequence + 1000, Base: bcp.Digest{1}, Backup: bcp.Digest{2}, File: "x"},
		"the whole journal": {Base: bcp.Digest{1}, Backup: bcp.Digest{2}, File: "x"},
	} {
		got, err := ask(t.Context(), about)
		failIf(t, err == nil, "%s: %+v", name, got)
	}
	// A base of the right place, and with a state that is not the journal's form.
	base, err := jetstream.NewBases(filepath.Join(m.State, jetstream.BaseFolder)).Write(jetstream.Snapshot{Position: place, Checkpoint: []byte("no state")})
	noError(t, err)
	got, err := ask(t.Context(), bcp.Truncation{Sequence: place.Sequence, Base: sha256.Sum256(base.Content), File: "x"})
	failIf(t, err == nil, "a base that restores to nothing: %+v", got)
	begin, err := jetstream.Begin(t.Context(), m.JetStream())
	failIf(t, err != nil || begin.Truncated(), "it begins at %+v, %v", begin, err)
	// Nothing of it is in the way.
	must(truncateRunning(t.Context(), m.State, m.Definition, o, filepath.Join(t.TempDir(), "a.tar.gz"), nil))
	m.Stop(t)
	m.Start(t)
}

// killTruncation has another process run a mesh and truncate its journal, and kills it at a step.
func killTruncation(t *testing.T, state string, at int) {
	t.Helper()
	ctx := within(t, time.Minute)
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), killRunningAt+"="+strconv.Itoa(at), "BCPMESH_TEST_STATE="+state, "BCPMESH_TEST_FILE="+filepath.Join(t.TempDir(), "killed.tar.gz"))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	noError(t, err)
	line := make([]byte, len("there\n"))
	_, err = io.ReadFull(out, line)
	failIf(t, err != nil || string(line) != "there\n", "it did not get there: %q %v", line, err)
	noError(t, child.Process.Kill())
	_ = child.Wait() // it was killed
}

// killRunningAt names, in the environment of a process of this test, the step of a
// truncation at which it waits to be killed. The process runs the mesh, and truncates its
// journal.
const killRunningAt = "BCPMESH_TEST_TRUNCATE_RUNNING_AT"

// truncateRunningAndWait is that process.
func truncateRunningAndWait(at string) error {
	texts := map[string][]byte{}
	for name, text := range pair(1000) {
		texts[name] = []byte(text)
	}
	def, report := definition.Parse(texts)
	if def == nil {
		return fmt.Errorf("the definitions are wrong: %v", report.Errors)
	}
	ctx, folder := context.Background(), os.Getenv("BCPMESH_TEST_STATE")
	m, err := mesh.Start(ctx, mesh.Config{Definition: def, State: folder, Version: "test"})
	if err != nil {
		return err
	}
	var n atomic.Int64 // the mesh takes some of the steps
	step := func(string) error {
		if strconv.FormatInt(n.Add(1)-1, 10) == at {
			fmt.Println("there")
			select {} // until it is killed
		}
		return nil
	}
	m.Truncating(step, 1<<11) // in many parts
	creds, err := m.Issue(bcp.Operator, bcp.RoleOperator, 0)
	if err != nil {
		return err
	}
	conn, err := agents.Connect(ctx, m.URL(), agents.CredsText(creds.Text()), agents.Options{Name: bcp.Operator, Attempt: time.Minute})
	if err != nil {
		return err
	}
	_, err = truncateRunning(ctx, folder, def, agents.NewOperator(conn), os.Getenv("BCPMESH_TEST_FILE"), step)
	return errors.Join(errors.New("the truncation ended"), err)
}

// Wherever a mesh that cuts its journal is killed: it starts and is what it was, with all
// of its journal or with its base, and can be truncated.
//
// covers P4.5, P11.2, A-CRASH
func TestKilledWhileTruncating(t *testing.T) {
	t.Parallel()
	steps := make([]int, 14) // of a truncation, and between two parts
	for n := range steps {
		steps[n] = n
	}
	for _, n := range bcptest.Sample(steps, 3) {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			m := busy(t)
			m.Stop(t)
			archive(t, m, "first.tar.gz")
			m.Start(t)
			more(t, m)
			want := picture(t, m)
			m.Stop(t)
			killTruncation(t, m.State, n)
			for _, without := range [][]string{nil, {"snapshots"}} {
				for _, folder := range without {
					noError(t, os.RemoveAll(filepath.Join(m.State, folder)))
				}
				m.Start(t)
				shows(t, m, want, without)
				m.Stop(t)
			}
			m.Start(t)
			must(truncateRunning(t.Context(), m.State, m.Definition, operator(t, m), filepath.Join(t.TempDir(), "again.tar.gz"), nil))
			shows(t, m, want)
			m.Stop(t)
		})
	}
}

// pushOne pushes, and the delivery arrives and is acknowledged.
func pushOne(t *testing.T, main, mailer side) {
	t.Helper()
	got := mailer.Push(t, "main", "alerts", `{"urgent":true}`, "")
	stopIf(t, got.Text("status") != "delivered", "%v", got.JSON)
	main.Acknowledge(t, main.told.Next(t))
}

// pushWhileTruncating has the journal of a running mesh truncated.
func pushWhileTruncating(t *testing.T, m *meshtest.Mesh, file string) (made jetstream.Manifest) {
	t.Helper()
	main, mailer := connect(t, m)
	o := operator(t, m)
	done := make(chan error, 1)
	go func() {
		r, err := o.Reconcile(t.Context()) // meanwhile
		if len(r.Differences) > 0 {
			err = fmt.Errorf("%+v", r)
		}
		if err == nil {
			made, err = truncateRunning(t.Context(), m.State, m.Definition, o, file, nil)
		}
		done <- err
	}()
	for {
		pushOne(t, main, mailer)
		select {
		case err := <-done:
			noError(t, err)
			return made
		default:
		}
	}
}
