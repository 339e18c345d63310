package gateway_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// An agent that is refused again and again, without fault of its own, hears the same each
// time, and its refusals are counted once there were a few. So are those of an agent that
// opens and closes sessions, but it hears rate_limited.
//
// covers P4.7, P11.1
func TestFloodsAreCounted(t *testing.T) {
	t.Parallel()
	b := benchOf(t, map[string]string{"main.md": strings.Replace(mainFile, "10000000", "0", 1), "mailer.md": mailerFile})
	b.createStreams(t)
	g := b.start(t)
	main, mailer := b.agent(t, "main"), b.agent(t, "mailer")
	g.wait(t, 2, of(bcp.KindConnect))
	const floods = 200
	for range floods {
		coded(t, main.Ask(t, "mailer", askUrgent), "budget_exhausted")
		r := mailer.Push(t, "main", "alerts", `{"urgent":true}`, "")
		stopIf(t, r.Text("code") != "budget_exhausted" || r.Text("status") != "refused", "%v", r.JSON)
	}
	refused := 0
	for range floods {
		if r := main.Request(t, subjects.Session("main"), `{"verb":"open"}`+strings.Repeat(" ", bcp.MaxFreeBytes)); r.Text("error") == "rate_limited" {
			refused++
		}
	}
	g.wait(t, 1, func(d *bcp.Decision) bool { return d.Kind == bcp.KindRefusals && d.Agent == "main" })
	g.mu.Lock()
	defer g.mu.Unlock()
	records := map[bcp.DecisionKind]int{}
	for _, d := range g.decisions {
		records[d.Kind]++
		failIf(t, len(d.SealedRaw) > bcp.MaxFreeBytes+512, "%s keeps %d bytes", d.Kind, len(d.SealedRaw))
	}
	// One more minute may have begun.
	if limit := b.definition.MaxRefusals; records[bcp.KindAsk] > 2*limit+1 || records[bcp.KindPush] > 2*limit+1 || records[bcp.KindSession] > 2*60 || refused < floods-2*60 {
		t.Errorf("records: %v, %d refused", records, refused)
	}
}
