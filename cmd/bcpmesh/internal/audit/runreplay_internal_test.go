package audit

import (
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	people "github.com/bcpmesh/bcpmesh/bcp/state"
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
	approvers, err := people.New(people.Config{Mesh: &bcp.Mesh{}})
	noError(t, err)
	by, other := bcp.Digest{1}, bcp.Digest{2}
	message := []byte(`{"task":"Do it."}`)
	for name, c := range map[string]struct {
		context bcp.Digest
		forge   func(*kernel.Change)
		raw     rawMessage
		want    string
	}{
		"the same":          {by, func(*kernel.Change) {}, rawMessage{Base64: message, Bytes: len(message)}, "same"},
		"a deadline":        {by, func(c *kernel.Change) { c.Deadline++ }, rawMessage{Base64: message, Bytes: len(message)}, "incident"},
		"what was said":     {by, func(c *kernel.Change) { c.Private.Task = "Do more." }, rawMessage{Base64: message, Bytes: len(message)}, "incident"},
		"other definitions": {other, func(c *kernel.Change) { c.Deadline++ }, rawMessage{Base64: message, Bytes: len(message)}, "differs"},
		"a part of it":      {by, func(*kernel.Change) {}, rawMessage{Base64: message[:5], Bytes: len(message)}, "cut"},
		"nothing of it":     {by, func(*kernel.Change) {}, rawMessage{Bytes: len(message), Erased: true}, "erased"},
	} {
		state := kernel.NewState(k)
		change := state.DecideRun(bcp.Moment{Now: time.Unix(1, 0), Fresh: "AAAAAAAAAAAAAAAAAAAAAAAA"}, "desk", kernel.Requester{Name: "kim"}, "all", kernel.Trusted(), message)
		c.forge(&change)
		one := &replayed{Decision: bcp.Decision{Seq: 1, Time: change.Time, Context: c.context}, Raw: &c.raw}
		state.Record(&one.Decision, &change, "kim")
		r := rerun{Run: change.Run, By: by, people: approvers}
		err := r.redecide(state, one)
		stopIf(t, err != nil, "%s: %v", name, err)
		if got := r.Results[0]; got.Result != c.want || (c.want == "incident") != (r.Incidents == 1) || name == "a deadline" && !slices.Equal(got.Parts, []string{"deadline"}) {
			t.Errorf("%s: %+v, %+v", name, got, r)
		}
	}
}
