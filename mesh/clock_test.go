package mesh_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// The machine's clock is set by hours, forward and backward, while the mesh runs
// and while it rests: journal time only goes forward, no window of an hour ever
// holds more than its budget, and whoever asks is answered.
//
// covers P4.4, P4.5, P9.1
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	var set atomic.Int64
	begin := time.Now()
	m := meshtest.Start(t, map[string]string{
		"main.md": agentFile("main", "", controls("mailer", 1000, "window_budget_bits: 5\nbudget_window: 1h", alerts),
			controls("clerk", 1000, "query_ttl: 30m")),
		"mailer.md": agentFile("mailer", "", reads("main")),
		"clerk.md":  agentFile("clerk", "", reads("main")),
		"mesh.yaml": "max_refusals: 1000/m\n", // a minute may take hours
	}, func(c *mesh.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(set.Load())) }
	})
	main, mailer := connect(t, m)
	pushed := func() (accepted int) {
		for range 7 {
			r := mailer.Push(t, "main", "alerts", `{"urgent":true}`, "")
			switch {
			case r.Fields["success"] == true:
				accepted++
			case r.Text("code") != "budget_exhausted":
				t.Fatalf("a push: %s", r.JSON)
			}
		}
		return accepted
	}
	for _, step := range []struct {
		hours   int
		restart bool
		window  int // pushes that it has room for
		expires bool
	}{
		{0, false, 5, false},
		{2, false, 5, true},
		{0, false, 0, false},
		{-1, false, 0, false},
		{-30, true, 0, false},
		{2, false, 0, false},
		{4, false, 5, true},
		{2, true, 0, false},
		{6, true, 5, true},
	} {
		query := main.Accepted(t, "clerk", askUrgent) // clerk is away
		set.Store(int64(time.Duration(step.hours) * time.Hour))
		if step.restart {
			m.Restart(t)
			main, mailer = connect(t, m)
		}
		expect(t, pushed(), step.window, "set to %+dh how many pushes are accepted", step.hours)
		expired := func(d *bcp.Decision) bool { return d.Query == query && d.Outcome == bcp.Expired }
		if step.expires {
			m.Wait(t, expired)
		} else if m.Count(expired) > 0 {
			t.Errorf("set to %+dh: a query expired before its time", step.hours)
		}
	}
	window, last := []bcp.Decision(nil), int64(0)
	for _, d := range m.Decisions() {
		if d.Time < last || d.Time > begin.Add(7*time.Hour).UnixNano() {
			t.Errorf("decision %d is of %s, behind %s", d.Seq, d.At(), time.Unix(0, last))
		}
		if last = d.Time; d.Kind != bcp.KindPush || d.Verdict != bcp.Accept {
			continue
		}
		window = append(window, d)
		for window[0].Time <= d.Time-int64(time.Hour) {
			window = window[1:]
		}
		holds(t, len(window) <= 5, "decision %d is number %d of the hour", d.Seq, len(window))
	}
	checkStreams(t, m)
}
