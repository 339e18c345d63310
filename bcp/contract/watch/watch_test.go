package watch_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract/watch"
)

var begin = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// Each rule raises an alert at its threshold, not one event before it, and then
// counts again.
func TestThresholds(t *testing.T) {
	t.Parallel()
	want := map[watch.Rule]int{
		watch.SubjectDenied: 3, watch.OtherRole: 1, watch.UngrantedTools: 3, watch.Unusual: 1, watch.LabelChanged: 1, watch.TaintHidden: 1,
		watch.TaskTainted: 1, watch.CallDenied: 5, watch.AnswerRejected: 10, watch.ForgedReply: 1, watch.BadOutcome: 3,
	}
	if len(watch.Rules()) != len(want) {
		t.Fatalf("%d rules", len(watch.Rules()))
	}
	for _, rule := range watch.Rules() {
		w := watch.New(nil, false)
		for i := 1; i <= 3*want[rule]; i++ {
			at := begin.Add(time.Duration(i) * time.Second)
			alert, raised := w.See(watch.Event{At: at, Agent: "eve", Rule: rule})
			if raised != (i%want[rule] == 0) {
				t.Errorf("%s, event %d: raised %t", rule, i, raised)
			}
			if raised && alert != (watch.Alert{At: at, Agent: "eve", Rule: rule, Count: want[rule]}) {
				t.Errorf("%s: %+v", rule, alert)
			}
			if _, raised := w.See(watch.Event{At: at, Agent: "eve", Rule: "charm"}); raised {
				t.Error("a rule that is none raises an alert")
			}
		}
	}
}

// Events count within the time of their threshold, each agent and each rule by itself.
func TestWindows(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	for name, c := range map[string]struct {
		events []watch.Event
		want   bool // whether the last raises
	}{
		"in nearly ten minutes": {[]watch.Event{{at(0), "eve", watch.SubjectDenied}, {at(1), "eve", watch.SubjectDenied}, {at(10*time.Minute - 1), "eve", watch.SubjectDenied}}, true},
		"in ten minutes":        {[]watch.Event{{at(0), "eve", watch.SubjectDenied}, {at(1), "eve", watch.SubjectDenied}, {at(10 * time.Minute), "eve", watch.SubjectDenied}}, false},
		"two agents":            {[]watch.Event{{at(0), "eve", watch.SubjectDenied}, {at(1), "eve", watch.SubjectDenied}, {at(2), "kim", watch.SubjectDenied}}, false},
		"two rules":             {[]watch.Event{{at(0), "eve", watch.SubjectDenied}, {at(1), "eve", watch.SubjectDenied}, {at(2), "eve", watch.CallDenied}}, false},
		"a clock that goes back": {[]watch.Event{{at(0), "eve", watch.SubjectDenied}, {at(time.Hour), "eve", watch.SubjectDenied},
			{at(time.Minute), "eve", watch.SubjectDenied}, {at(2 * time.Minute), "eve", watch.SubjectDenied}}, true},
	} {
		w := watch.New(nil, false)
		raised := false
		for _, e := range c.events {
			_, raised = w.See(e)
		}
		if raised != c.want {
			t.Errorf("%s: raised %t", name, raised)
		}
	}
}

// A threshold can be set within its range; nothing switches a rule off.
func TestThresholdsAreBounded(t *testing.T) {
	t.Parallel()
	for set, want := range map[watch.Threshold]int{
		{2, time.Hour}: 2, {watch.MaxCount, time.Hour}: watch.MaxCount, {watch.MaxCount + 1, time.Hour}: 3, {0, time.Hour}: 3, {-1, time.Hour}: 3, {2, 0}: 3,
	} {
		w := watch.New(map[watch.Rule]watch.Threshold{watch.SubjectDenied: set, "charm": {1, time.Hour}}, false)
		n := 0
		for raised := false; !raised; n++ {
			_, raised = w.See(watch.Event{At: begin, Agent: "eve", Rule: watch.SubjectDenied})
		}
		if n != want {
			t.Errorf("%+v: an alert after %d events, want %d", set, n, want)
		}
	}
}

// A run is unusual from ten times the median of the 31 before it on.
func TestUnusualRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runs, usual, size int
		want              bool
	}{{31, 4, 40, true}, {31, 4, 39, false}, {30, 4, 4000, false}, {31, 0, 10, true}, {31, 0, 9, false}} {
		w := watch.New(nil, false)
		for i := range c.runs {
			size := c.usual
			if i < 10 {
				size = 1000 // rare large runs do not change what is usual
			}
			if c.runs < 31 || c.usual == 0 {
				size = c.usual
			}
			if _, raised := w.SeeRun(begin, "kim", size); raised {
				t.Fatal("an alert before 31 runs")
			}
		}
		if _, raised := w.SeeRun(begin, "kim", c.size); raised != c.want {
			t.Errorf("%+v: raised %t", c, raised)
		}
		if _, raised := w.SeeRun(begin, "eve", 1000); raised {
			t.Error("an alert about another agent's first run")
		}
	}
}

// Only a watch that suspends does so, only the agent of an alert, and only a person
// ends it.
func TestSuspension(t *testing.T) {
	t.Parallel()
	forged := watch.Event{At: begin, Agent: "eve", Rule: watch.ForgedReply}
	w := watch.New(nil, false)
	if w.See(forged); w.Suspended("eve") {
		t.Error("a watch that only alerts suspends")
	}
	w = watch.New(nil, true)
	if w.Suspended("eve") {
		t.Error("suspended without an alert")
	}
	w.See(forged)
	w.See(watch.Event{At: begin.Add(1000 * time.Hour), Agent: "kim", Rule: watch.CallDenied})
	if !w.Suspended("eve") || w.Suspended("kim") {
		t.Errorf("eve %t, kim %t", w.Suspended("eve"), w.Suspended("kim"))
	}
	if w.Lift("eve"); w.Suspended("eve") {
		t.Error("suspended after it was lifted")
	}
}

// A replay raises the same alerts, and an alert counts no fewer events than its
// threshold and no event twice.
func TestReplayRaisesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var events []watch.Event
		at := begin
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			at = at.Add(time.Duration(rapid.IntRange(-60, 400).Draw(t, "seconds")) * time.Second)
			events = append(events, watch.Event{
				At: at, Agent: rapid.SampledFrom([]bcp.AgentName{"eve", "kim"}).Draw(t, "agent"), Rule: rapid.SampledFrom(watch.Rules()).Draw(t, "rule"),
			})
		}
		play := func() (alerts []watch.Alert) {
			w := watch.New(nil, true)
			for _, e := range events {
				if a, raised := w.See(e); raised {
					alerts = append(alerts, a)
				}
			}
			return alerts
		}
		first := play()
		if diff := cmp.Diff(first, play()); diff != "" {
			t.Fatalf("a replay differs: %s", diff)
		}
		counted := map[string]int{}
		for _, a := range first {
			if a.Count < watch.DefaultThresholds()[a.Rule].Count {
				t.Fatalf("%+v", a)
			}
			counted[string(a.Agent)+string(a.Rule)] += a.Count
		}
		for _, e := range events {
			counted[string(e.Agent)+string(e.Rule)]--
		}
		for key, n := range counted {
			if n > 0 {
				t.Fatalf("%s: %d events were counted twice", key, n)
			}
		}
	})
}
