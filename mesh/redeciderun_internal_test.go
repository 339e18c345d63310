package mesh

import (
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// A record that the same definitions decide otherwise is an incident; one that others made,
// or whose message is not whole, is none.
//
// covers DUAL-19
func TestIncidentsOfARun(t *testing.T) {
	t.Parallel()
	k, defects := kernel.New(kernel.Definition{
		Name: "desk", Planner: "ann", Requesters: map[bcp.AgentName][]string{"kim": {"all"}}, Grants: map[string][]kernel.Capability{"all": nil}, Limits: kernel.DefaultLimits(),
	})
	stopIf(t, len(defects) > 0, "%v", defects)
	approvers, err := state.New(state.Config{Mesh: &bcp.Mesh{}})
	noError(t, err)
	by, other := bcp.Digest{1}, bcp.Digest{2}
	message := []byte(`{"task":"Do it."}`)
	for name, c := range map[string]struct {
		context bcp.Digest
		forge   func(*kernel.Change)
		message []byte
		gone    bool
		want    string
	}{
		"the same":          {by, func(*kernel.Change) {}, message, false, "same"},
		"a deadline":        {by, func(c *kernel.Change) { c.Deadline++ }, message, false, "incident"},
		"what was said":     {by, func(c *kernel.Change) { c.Private.Task = "Do more." }, message, false, "incident"},
		"other definitions": {other, func(c *kernel.Change) { c.Deadline++ }, message, false, "differs"},
		"a part of it":      {by, func(*kernel.Change) {}, message[:5], false, "cut"},
		"nothing of it":     {by, func(*kernel.Change) {}, nil, true, "erased"},
	} {
		runs := kernel.NewState(k)
		change := runs.DecideRun(bcp.Moment{Now: time.Unix(1, 0), Fresh: "AAAAAAAAAAAAAAAAAAAAAAAA"}, "desk", kernel.Requester{Name: "kim"}, "all", kernel.Trusted(), message)
		c.forge(&change)
		rec := state.Recorded{Message: c.message, Gone: c.gone, Decision: bcp.Decision{Seq: 1, Time: change.Time, Context: c.context, SealedRaw: []byte{1}}}
		rec.Decision.RawBytes = len(message)
		runs.Record(&rec.Decision, &change, "kim")
		r := runRedecider{RunRedecision: RunRedecision{Run: change.Run, By: by}, runs: runs, people: approvers}
		err := r.next(&rec)
		stopIf(t, err != nil, "%s: %v", name, err)
		if got := r.Results[0]; got.Result != c.want || (c.want == "incident") != (r.Incidents == 1) || name == "a deadline" && !slices.Equal(got.Parts, []string{"deadline"}) {
			t.Errorf("%s: %+v, %+v", name, got, r)
		}
	}
}
