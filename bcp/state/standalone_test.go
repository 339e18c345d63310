package state

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A state that the records alone make, under any later definitions, is the live one: what
// was decided is never looked up again. The edits are those of TestOtherDefinitions, several
// at once, over any part of a history.
//
// covers P1.5, P4.5, P11.1
func TestRecordsStandAlone(t *testing.T) {
	t.Parallel()
	all := edits()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return name == "Agent.Name" || name == "Channel.ChannelKey" }) // the others need those
	live := newWorld(t, richMesh())
	made, journals := []string{dumpRecords(live.state)}, [][][]byte{nil}
	for line := range strings.Lines(richHistory) {
		live.play(line)
		made, journals = append(made, dumpRecords(live.state)), append(journals, live.journal)
	}
	rapid.Check(t, func(r *rapid.T) {
		lines := rapid.IntRange(0, len(made)-1).Draw(r, "lines")
		later := live.alike(t)
		later.journal = journals[lines]
		later.config.Mesh = richMesh()
		later.config.Definitions[0]++
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(r, "edits") {
			all[name](later.config.Mesh)
		}
		diff := cmp.Diff(made[lines], dumpRecords(later.replay()))
		failIf(r, diff != "", "the records make another state (-live +replayed):\n%s", diff)
	})
}

// A push keeps its place in a release slot when the subscriptions change places.
//
// covers P1.5, P4.5
func TestWhatWasDecidedStaysDecided(t *testing.T) {
	t.Parallel()
	slots := func(edit func(*bcp.Channel)) *bcp.Mesh {
		return edited(func(c *bcp.Channel) { c.ReleaseInterval = time.Hour; edit(c) })
	}
	w := newWorld(t, slots(func(*bcp.Channel) {})).play(`
		push mail planner alarm {"ok":true} => accept
		push mail planner name {"q":"ada"} => accept`)
	order := func() (ids []bcp.SubscriptionID) {
		for _, out := range w.state.Outbox(plannerMail) {
			ids = append(ids, out.SubscriptionID)
		}
		return ids
	}
	before := order()
	w.reload(slots(func(c *bcp.Channel) { slices.Reverse(c.Subscriptions) }))
	got := order()
	failIf(t, len(got) < 2 || !slices.Equal(got, before), "the outbox has %v, and had %v", got, before)
}

// A refusal that was excused stays so when fewer connections are allowed.
//
// covers P1.5, P4.5, P9.5
func TestWhatWasExcusedStaysExcused(t *testing.T) {
	t.Parallel()
	mesh := testMesh()
	for i := range mesh.Agents {
		mesh.Agents[i].MaxConnections = maxRepeats + 10
	}
	w := newWorld(t, mesh).play(`
		ask planner mail yes => accept
		answer mail 1 {"ok":true} => accept
		` + strings.Repeat("answer mail 1 {\"ok\":true} => already_answered\n", maxRepeats+3))
	w.config.Mesh = testMesh()
	n := w.replay().agents["mail"].refusals.count
	failIf(t, n != 0 || w.state.agents["mail"].refusals.count != 0, "%d answers count as refusals that did not", n)
}
