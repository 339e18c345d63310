package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// marked is a mesh of which agents keep marks beside their creds: main asks the mailer,
// other asks the clerk, and ann is an approver.
type marked struct {
	*meshtest.Mesh
	folder string // of the creds
}

func startMarked(t *testing.T, change ...func(*mesh.Config)) marked {
	t.Helper()
	files := pair(1000)
	files["other.md"] = agentFile("other", "", controls("clerk", 1000, alerts))
	files["clerk.md"] = agentFile("clerk", "", reads("other"))
	files["mesh.yaml"] = "approvers: [ann]\n"
	m := marked{meshtest.Start(t, files, change...), t.TempDir()}
	for name, role := range map[bcp.AgentName]bcp.Role{"main": bcp.RoleController, "mailer": bcp.RoleReader, "other": bcp.RoleController, "clerk": bcp.RoleReader, "ann": bcp.RoleApprover} {
		noError(t, os.WriteFile(m.creds(name), m.Creds(t, name, role), 0o600))
	}
	return m
}

func (m marked) creds(name bcp.AgentName) string {
	return filepath.Join(m.folder, string(name)+".creds")
}

func (m marked) connect(t *testing.T, name bcp.AgentName) *agents.Connection {
	t.Helper()
	c := must(agents.Connect(t.Context(), m.URL(), agents.CredsFile(m.creds(name)), agents.Options{Name: name}))
	t.Cleanup(c.Close)
	return c
}

// exchange has an answer asked for and given. Both agents leave afterwards.
func (m marked) exchange(t *testing.T, controller, reader bcp.AgentName) {
	t.Helper()
	from := m.connect(t, reader)
	defer from.Close()
	r := agents.NewReader(from)
	r.OnQuery(func(context.Context, agents.Query) (any, error) { return map[string]bool{"urgent": true}, nil })
	noError(t, r.Start(t.Context()))
	to := m.connect(t, controller)
	defer to.Close()
	c := agents.NewController(to)
	noError(t, c.Start(t.Context()))
	ctx := within(t, meshtest.Patience)
	_, err := c.AskAndWait(ctx, reader, bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "urgent", Type: bcp.TypeBoolean}}}, agents.AskOptions{})
	stopIf(t, err != nil, "%s asks %s: %v", controller, reader, err)
}

// refused has an ask refused with unavailable.
func (m marked) refused(t *testing.T, controller, reader bcp.AgentName) {
	t.Helper()
	to := m.connect(t, controller)
	defer to.Close()
	content, err := os.ReadFile(m.creds(controller) + ".mark")
	stopIf(t, err != nil && !errors.Is(err, fs.ErrNotExist), "%v", err)
	ask := &nats.Msg{Subject: subjects.Ask(controller, reader), Data: []byte(askUrgent), Header: nats.Header{bcp.MarkHeader: {strings.TrimSpace(string(content))}}}
	reply := must(to.NATS().RequestMsg(ask, meshtest.Patience))
	var refusal bcp.Refusal
	if err := bcp.Decode(reply.Data, bcp.JSON, &refusal); err != nil || refusal.Error != bcp.Unavailable {
		t.Errorf("%s asks %s: %s", controller, reader, reply.Data)
	}
}

func (m marked) backup(t *testing.T) []byte {
	t.Helper()
	var file bytes.Buffer
	must(backUp(t.Context(), m.State, m.Definition, &file, mesh.BackupOptions{}))
	return file.Bytes()
}

func (m marked) restore(t *testing.T, backup []byte) {
	t.Helper()
	m.State = restoredOf(t, backup)
}

func (m marked) alerts(kind bcp.AlertKind, about bcp.AgentName) int {
	return m.Count(func(d *bcp.Decision) bool {
		return d.Kind == bcp.KindAlert && d.Event == string(kind) && d.Agent == about
	})
}

// A backup in which bits are unspent that somebody was given since: the Controller who got
// them shows it with its first ask, and its channel waits for the operator, also after a
// restart. Other channels go on. What was accepted is no news, and another restore is: the
// Reader shows it when it comes.
//
// covers P11.7, A-ROLLBACK
func TestMarksShowARollback(t *testing.T) {
	t.Parallel()
	accept := false
	m := startMarked(t, func(c *mesh.Config) { c.AcceptRollback = accept })
	m.exchange(t, "main", "mailer")
	m.exchange(t, "other", "clerk")
	m.Stop(t)
	old := m.backup(t)
	m.Start(t)
	m.exchange(t, "main", "mailer")
	m.Stop(t)

	m.restore(t, old)
	m.Start(t)
	m.refused(t, "main", "mailer")
	m.exchange(t, "other", "clerk")
	m.WaitCount(t, 1, func(d *bcp.Decision) bool { return d.Event == string(bcp.AlertRollbackSeen) })
	expect(t, m.alerts(bcp.AlertRollbackSeen, "main"), 1, "alerts about main")
	m.Stop(t)
	m.Start(t)
	if err := os.Remove(m.creds("main") + ".mark"); err != nil { // it is known without
		t.Fatal(err)
	}
	m.refused(t, "main", "mailer")
	m.Stop(t)

	accept = true
	m.Start(t)
	counts(t, m.Mesh, 1, func(d *bcp.Decision) bool { return d.Event == string(bcp.AlertRollbackAccepted) })
	m.exchange(t, "main", "mailer")
	m.Stop(t)
	accept = false
	m.Start(t)
	m.exchange(t, "main", "mailer")
	m.Stop(t)

	m.restore(t, old)
	m.Start(t)
	noError(t, os.Remove(m.creds("main")+".mark")) // its Reader alone has seen it
	noError(t, agents.NewReader(m.connect(t, "mailer")).Start(t.Context()))
	m.WaitCount(t, 1, func(d *bcp.Decision) bool {
		return d.Event == string(bcp.AlertRollbackSeen) && d.Role == bcp.RoleReader
	})
	m.refused(t, "main", "mailer")
}

// A person alone has seen it: every channel is closed, since nobody knows which of them
// people decided about.
//
// covers P11.7, A-ROLLBACK
func TestPersonShowsARollback(t *testing.T) {
	t.Parallel()
	accept := false
	m := startMarked(t, func(c *mesh.Config) { c.AcceptRollback = accept })
	look := func() {
		t.Helper()
		c := m.connect(t, "ann")
		defer c.Close()
		ctx := within(t, meshtest.Patience)
		for range 2 { // the second list comes with a mark, since the first has said that there is none
			must(agents.NewApprover(c).List(ctx))
		}
	}
	m.Stop(t)
	old := m.backup(t)
	m.Start(t)
	m.exchange(t, "main", "mailer")
	look()
	m.Stop(t)

	m.restore(t, old)
	m.Start(t)
	look()
	m.WaitCount(t, 1, func(d *bcp.Decision) bool {
		return d.Event == string(bcp.AlertRollbackSeen) && d.Agent == "ann" && d.Role == bcp.RoleApprover
	})
	for _, name := range []bcp.AgentName{"main", "other"} {
		err := os.Remove(m.creds(name) + ".mark")
		stopIf(t, err != nil && !errors.Is(err, fs.ErrNotExist), "%v", err)
	}
	m.refused(t, "main", "mailer")
	m.refused(t, "other", "clerk")
	m.Stop(t)
	accept = true
	m.Start(t)
	look()
	m.exchange(t, "main", "mailer")
	m.exchange(t, "other", "clerk")
}

// A Reader that shows the mark of another, or bytes of its own, closes nothing, also where
// the journal was set back. It is an alert, once.
//
// covers P11.7, A-ROLLBACK
func TestStrangeMarks(t *testing.T) {
	t.Parallel()
	m := startMarked(t)
	m.exchange(t, "main", "mailer")
	m.Stop(t)
	old := m.backup(t)
	m.Start(t)
	m.exchange(t, "main", "mailer")
	m.Stop(t)
	m.restore(t, old)
	m.Start(t)
	stolen := must(os.ReadFile(m.creds("main") + ".mark"))
	noError(t, os.WriteFile(m.creds("clerk")+".mark", stolen, 0o600))
	m.exchange(t, "other", "clerk")
	noError(t, os.WriteFile(m.creds("clerk")+".mark", []byte("AAAA\n"), 0o600))
	m.exchange(t, "other", "clerk")
	m.WaitCount(t, 1, func(d *bcp.Decision) bool { return d.Event == string(bcp.AlertMarkStrange) })
	expect(t, m.alerts(bcp.AlertMarkStrange, "clerk"), 1, "alerts")
	counts(t, m.Mesh, 0, func(d *bcp.Decision) bool { return d.Event == string(bcp.AlertRollbackSeen) })
}
