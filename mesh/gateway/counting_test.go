package gateway_test

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// Violations that were told while nothing could be recorded are recorded later,
// each once.
//
// covers P4.7, P11.1
func TestCountsOutliveAFailedRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.start(t)
	main := b.agent(t, "main")
	g.wait(t, 1, of(bcp.KindConnect))
	g.Denied("mailer", bcp.RoleReader, "publish", "a", 2)
	b.full(t, jetstream.CommitStream, true)
	g.Denied("mailer", bcp.RoleReader, "publish", "a", 3)
	if r := main.Ask(t, "mailer", askUrgent); r.Text("error") != "unavailable" {
		t.Error(r.JSON)
	}
	g.Denied("mailer", bcp.RoleReader, "publish", "a", 7)
	if r := main.Ask(t, "mailer", askUrgent); r.Text("error") != "unavailable" {
		t.Error(r.JSON)
	}
	b.full(t, jetstream.CommitStream, false)
	for main.Ask(t, "mailer", askUrgent).Fields["query_id"] == nil {
	}
	publishes := func() (told int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, d := range g.decisions {
			if d.Kind == bcp.KindViolation && d.Event == "publish" {
				told += d.Count
			}
		}
		return told
	}
	// The counts of a subject may wait for the next second, behind those of another.
	for deadline := time.Now().Add(meshtest.Patience); publishes() < 12 && time.Now().Before(deadline); {
		main.Ask(t, "mailer", `{"category":9}`)
	}
	g.Denied("mailer", bcp.RoleReader, "subscribe", "b", 1)
	g.wait(t, 1, func(d *bcp.Decision) bool { return d.Kind == bcp.KindViolation && d.Event == "subscribe" })
	if told := publishes(); told != 12 {
		t.Errorf("%d violations are recorded, of 12", told)
	}
}
