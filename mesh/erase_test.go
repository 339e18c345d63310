package mesh_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// clock goes like the machine's, from a time that a test sets.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) set(t time.Time)         { c.offset.Store(int64(time.Until(t))) }
func (c *clock) forward(d time.Duration) { c.offset.Add(int64(d)) }

// startClocked runs pair(100000) from a noon on.
func startClocked(t *testing.T) (*meshtest.Mesh, *clock) {
	t.Helper()
	c := &clock{}
	c.set(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
	return meshtest.Start(t, pair(100000), func(config *mesh.Config) { config.Now = c.now }), c
}

// talk has main and mailer say a word everywhere that they can.
func talk(t *testing.T, m *meshtest.Mesh, word string) {
	t.Helper()
	main, mailer := connect(t, m)
	defer main.Close()
	defer mailer.Close()
	main.Accepted(t, "mailer", withID(strings.Replace(askWho, "Who wrote?", "Was it "+word+"?", 1), "request_id", word+"1"))
	mailer.Answer(t, mailer.queries.Next(t), `"response":{"`+word+`":1}`)
	mailer.result(t)
	mailer.Answer(t, mailer.queries.Next(t), `"response":{"who":"`+word+`","when":"March 15, 2026"}`)
	mailer.result(t)
	main.delivery(t)
	succeeded(t, mailer.Push(t, "main", "notes", `{"note":"`+word+`"}`, `,"push_id":"`+word+`2"`))
	main.delivery(t)
	main.Say(t, subjects.Session("main"), `{"verb":"close","request_id":"`+word+`3"}`)
	m.Settle(t)
}

// filesWith lists the files of a folder that contain a text.
func filesWith(t *testing.T, dir string, text []byte) (found []string) {
	t.Helper()
	noError(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if bytes.Contains(b, text) {
			found = append(found, name)
		}
		return err
	}))
	return found
}

// secretsOf returns the keys of a mesh that rests.
func secretsOf(t *testing.T, m *meshtest.Mesh) map[string][]byte {
	t.Helper()
	js, end := m.Streams(t)
	defer end()
	secrets := meshtest.ReadKeys(t, js)
	delete(secrets, subjects.Expiry(subjects.SealedRaw)) // which is none
	return secrets
}

func erase(t *testing.T, m *meshtest.Mesh, before string, raw bool) meshtest.Message {
	t.Helper()
	operator := m.Connect(t, bcp.Operator, bcp.RoleOperator)
	defer operator.Close()
	return operator.Request(t, subjects.Control(bcp.ControlErase),
		fmt.Sprintf(`{"erase":{"controller":"main","reader":"mailer","before":%q,"raw":%t}}`, before, raw))
}

// What was said before a day is nowhere in the state folder once it is erased, nor
// the keys of it; everything else is: the chain, the balances, what was said
// since. The mesh goes on, starts again from the journal alone, shows itself anew
// from it, and can be backed up and restored.
//
// covers BCP-94, P4.5, P11.1, P11.3, P11.4, P11.5
func TestErase(t *testing.T) {
	t.Parallel()
	m, clock := startClocked(t)
	talk(t, m, "kanarienvogel")
	m.Stop(t)
	secrets := secretsOf(t, m)
	snapshots := filepath.Join(m.State, "snapshots")
	found := filesWith(t, m.State, []byte("kanarienvogel"))
	stopIf(t, len(found) > 0, "before, it is in %v", found)
	m.Start(t)
	clock.forward(48 * time.Hour)
	talk(t, m, "nachtigall")
	want := picture(t, m)

	r := erase(t, m, "2026-03-12", true)
	stopIf(t, r.Fields["reasons"] == nil || m.Count(meshtest.Of(bcp.KindErase)) > 0,
		"a day that is not over for a day: %s", r.JSON)
	r = erase(t, m, "2026-03-11", true)
	stopIf(t, fmt.Sprint(r.Fields["keys"], r.Fields["raw_keys"], r.Fields["failed"]) != "1 1 <nil>", "erased: %s", r.JSON)
	found = filesWith(t, snapshots, []byte("kanarienvogel"))
	failIf(t, len(found) > 0, "snapshots: %v", found)
	d := m.Wait(t, meshtest.Of(bcp.KindErase))
	failIf(t, d.Agent != bcp.Operator || d.Role != bcp.RoleOperator || d.Event != bcp.EraseAll || d.Before != time.Date(2026, 3, 11, 0, 0, 0, 0, time.UTC).UnixNano(),
		"recorded: %+v", d)
	if r = erase(t, m, "2026-03-11", true); fmt.Sprint(r.Fields["keys"], r.Fields["raw_keys"], r.Fields["failed"]) != "0 0 <nil>" {
		t.Errorf("erased again: %s", r.JSON)
	}
	check := func(when string) {
		t.Helper()
		m.Stop(t)
		for _, text := range []string{"kanarienvogel", "Kanarienvogel"} {
			found := filesWith(t, m.State, []byte(text))
			failIf(t, len(found) > 0, "%s: %s is in %v", when, text, found)
		}
		for subject, secret := range secrets {
			s := must(subjects.Parse(subject))
			old := s.Day < "2026-03-11" && s.Controller == "main"
			found := filesWith(t, m.State, secret)
			failIf(t, (len(found) == 0) != old, "%s: the key %s is in %v", when, subject, found)
		}
		checkErased(t, m, when)
	}
	check("once erased")
	m.Start(t)
	got := picture(t, m)
	failIf(t, !sameBalances(got, want), "started again\n%s\nwant\n%s", got, want)
	m.Stop(t)
	noError(t, os.RemoveAll(snapshots))
	m.Start(t)
	got = picture(t, m)
	failIf(t, !sameBalances(got, want), "started from the journal\n%s\nwant\n%s", got, want)
	check("without a snapshot")
	m.Start(t)
	talk(t, m, "zaunkoenig")
	m.Stop(t)

	var file bytes.Buffer
	must(backUp(t.Context(), m.State, m.Definition, &file, mesh.BackupOptions{Version: "test"}))
	m.State = restoredOf(t, file.Bytes())
	m.Start(t)
	project(t, m, 1)
	check("restored")
}

// sameBalances compares the lines of two pictures that the erasure leaves.
func sameBalances(a, b string) bool {
	lines := func(s string) []string {
		return slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return !strings.HasPrefix(l, "{main mailer}") })
	}
	return slices.Equal(lines(a), lines(b)) && len(lines(a)) > 0
}

// eachDecision reads the journal of a mesh that rests, with each decision's raw message or why it cannot be read.
func eachDecision(t *testing.T, js natsjs.JetStream, each func(d *bcp.Decision, raw []byte, err error)) {
	t.Helper()
	journal, keys := must(jetstream.OpenJournal(t.Context(), js)), jetstream.NewSealingKeys(js)
	noError(t, journal.Replay(t.Context(), func(record []byte) error {
		d, err := keys.Decode(t.Context(), record)
		if err == nil {
			raw, unread := keys.OpenRaw(t.Context(), &d)
			each(&d, raw, unread)
		}
		return err
	}))
}

// checkErased reads the streams of a mesh that rests.
func checkErased(t *testing.T, m *meshtest.Mesh, when string) {
	t.Helper()
	js, end := m.Streams(t)
	defer end()
	expect(t, errorOf(meshtest.CheckStream(t, js, nil)), nil, "%s", when)
	erased, kept := 0, 0
	eachDecision(t, js, func(d *bcp.Decision, raw []byte, err error) {
		channel, _ := d.Channel()
		old := d.At().Day() == 10 && channel.Reader != ""
		if d.Erased != (old && len(d.Sealed) > 0) || errors.Is(err, jetstream.ErrErased) != (old && len(d.SealedRaw) > 0) || err != nil && raw != nil {
			t.Errorf("%s: decision %d of %s is erased: %t, %v", when, d.Seq, d.At(), d.Erased, err)
		}
		if d.Erased {
			erased++
		}
		if bytes.Contains(raw, []byte("nachtigall")) {
			kept++
		}
	})
	holds(t, erased >= 4 && kept >= 4, "%s: %d are erased, and %d have what was said since", when, erased, kept)
}

// A mesh does not start without a key that nobody destroyed.
//
// covers P4.5, P11.5
func TestLostKey(t *testing.T) {
	t.Parallel()
	m, _ := startClocked(t)
	talk(t, m, "kanarienvogel")
	m.Stop(t)
	noError(t, os.RemoveAll(filepath.Join(m.State, "snapshots")))
	noError(t, os.RemoveAll(streamFolder(t, m.State, jetstream.KeyStream)))
	fails(t, m.TryStart(t), jetstream.ErrKeyLost, "it starts")
}

// Raw messages can be read for raw_retention, and not a day longer.
//
// covers P11.4
func TestRawRetention(t *testing.T) {
	t.Parallel()
	m, clock := startClocked(t)
	talk(t, m, "kanarienvogel")
	over := time.Date(2026, 3, 11, 0, 0, 0, 0, time.UTC).Add(m.Definition.RawRetention)
	for _, c := range []struct {
		at   time.Time
		want error
	}{{over.Add(-time.Hour), nil}, {over, jetstream.ErrErased}} {
		m.Stop(t)
		clock.set(c.at)
		m.Start(t)
		m.Settle(t)
		m.Stop(t)
		js, end := m.Streams(t)
		n := 0
		eachDecision(t, js, func(d *bcp.Decision, _ []byte, err error) {
			if !d.Erased && len(d.SealedRaw) > 0 && d.At().Day() == 10 && d.At().Month() == 3 {
				n++
				failIf(t, !errors.Is(err, c.want), "at %s: %v, want %v", c.at, err, c.want)
			}
		})
		failIf(t, n < 4, "%d messages", n)
		end()
	}
}
