// Package state_test searches the commit protocol for a way to break its
// guarantees.
//
// The search is breadth first over a small world: two gateways with a lease, one
// journal that appends by expected sequence, a Controller with two requests, a
// Reader with two pushes, two approvers, one clock. At each step anything may
// happen that can: a message comes, once or again; a record is stored and
// acknowledged, or no acknowledgement comes and the record is stored later or
// never; the lease passes on although its holder still serves; a gateway crashes
// and starts; time passes.
//
// The real code decides: [state.State] makes every decision, which is sealed,
// encoded as a record, decoded and applied, and every state of a gateway is
// compared with a replay of the journal. Only the order of the gateway's
// commit step and recovery is a copy (explore_gateway_test.go), since the originals,
// step and recover of package mesh/gateway, need a server.
//
// For each guarantee there are reverts: gateways that break one rule on
// purpose, which the search must find.
package state_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// The forms of the tests: that of -short, that of CI, and the long one.
const (
	fast = iota
	full
	long
)

// longEdges is how many edges of everybody's world make the long form.
const longEdges = 1_000_000

// asked is the one that was asked for.
func asked() int {
	switch {
	case *edges >= longEdges:
		return long
	case bcptest.Fast():
		return fast
	}
	return full
}

var edges = flag.Int("edges", 0, "how many edges of everybody's world are looked at, over all moments of its day (default: 100,000; 1,000,000 or more is the long form)")

// whole is a world that is searched whole: whatever happens, as often as it likes.
type whole[C any] struct {
	name   string
	cast   C
	effort int
}

var small = []whole[cast]{
	{"a request, and time", cast{requests: []int8{0}, clock: true}, fast},
	{"a request, and two gateways", cast{requests: []int8{0}, standby: true}, full},
	{"a push, two gateways, and time", cast{pushes: []int8{0}, standby: true, clock: true}, full},
	{"two pushes in any records", cast{pushes: []int8{0, 1}, batches: true}, full},
	{"a request and a push", cast{requests: []int8{0}, pushes: []int8{0}}, long},
	{"an item", cast{requests: []int8{1}, approvers: 2}, long},
	{"a request, two gateways, and time", cast{requests: []int8{0}, standby: true, clock: true}, long},
	{"an item, and time", cast{requests: []int8{1}, approvers: 2, clock: true}, long},
}

// Small worlds keep every promise in all states that they can come to, and come to rest
// from each.
//
// covers P2.6, P3.10, P4.5, P7.3, P11.1
func TestSmallWorldsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	searchWhole(t, small, long, func(c cast) game[*world, action] { return newArchive(revert{}, c) })
}

// searchWhole searches worlds; those of more effort than most may be too large to be searched whole.
func searchWhole[C, W any, A fmt.Stringer](t *testing.T, worlds []whole[C], most int, play func(C) game[W, A]) {
	for _, c := range worlds {
		if c.effort > asked() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := newSearch(play(c.cast), "", max(2_000_000, *edges))
			keeps(t, s, nil)
			failIf(t, !s.whole && c.effort <= most, "it was not searched whole")
		})
	}
}

// Everybody keeps every promise, whatever happens near each moment of a day.
//
// covers P2.6, P3.10, P4.3, P4.5, P7.3, P11.1
func TestEverybodyKeepsTheirPromises(t *testing.T) {
	t.Parallel()
	most := *edges
	if most == 0 {
		most = bcptest.Rounds(100_000, 10_000)
	}
	ways := moments(everybody)
	looked, worlds, least := 0, 0, most
	for _, way := range ways {
		s := newSearch(newArchive(revert{}, everybody), "", most/len(ways))
		keeps(t, s, way)
		looked, worlds, least = looked+s.edges, worlds+len(s.nodes), min(least, s.depth)
	}
	t.Logf("%d edges to %d worlds from %d moments, each at least to depth %d", looked, worlds, len(ways), least)
	failIf(t, looked < most*9/10, "%d edges were looked at, of %d", looked, most)
}

func keeps[W any, A fmt.Stringer](t *testing.T, s *search[W, A], way []A) {
	t.Helper()
	s.run(way)
	t.Log(s)
	stopIf(t, s.found.promise != "", "a promise is broken:\n%s", s.story)
}

// reverted is a revert that breaks a promise.
type reverted[R, C any] struct {
	name    string
	revert  R
	cast    C
	promise string
}

var reverts = []reverted[revert, cast]{
	{"release before the record is stored", revert{early: true}, cast{requests: []int8{0}}, recordedFirst},
	{"renew the budget at each start", revert{generous: true}, cast{requests: []int8{1}, pushes: []int8{0, 1}, batches: true}, withinBudget},
	{"decide again without reading what was stored", revert{blind: true}, cast{requests: []int8{0}}, chargedOnce},
	{"remember no client id", revert{forgetful: true}, cast{requests: []int8{0}}, oneOutcome},
	{"decide an answer again without reading what was stored", revert{blind: true}, cast{requests: []int8{0}}, oneAnswer},
	{"keep the state after a record that was not acknowledged", revert{stubborn: true}, cast{requests: []int8{0}}, replays},
	{"append whatever sequence was expected", revert{unguarded: true}, cast{requests: []int8{0}, standby: true}, staleIsMute},
	{"record nothing of what approvers decide", revert{unrecorded: true}, cast{requests: []int8{1}, approvers: 2}, decidedOnce},
	{"send nothing again after a start", revert{silent: true}, cast{requests: []int8{0}}, comesToRest},
}

// The search finds whoever breaks a rule, for each promise.
//
// covers P4.5, P11.1
func TestFindsReverts(t *testing.T) {
	t.Parallel()
	findReverts(t, promises, reverts, func(r revert, c cast) game[*world, action] { return newArchive(r, c) })
}

func findReverts[R, C, W any, A fmt.Stringer](t *testing.T, promises []string, reverts []reverted[R, C], play func(R, C) game[W, A]) {
	for _, promise := range promises {
		failIf(t, !slices.ContainsFunc(reverts, func(r reverted[R, C]) bool { return r.promise == promise }),
			"no revert breaks this: %s", promise)
	}
	for _, c := range reverts {
		t.Run(c.name, func(t *testing.T) {
			s := newSearch(play(c.revert, c.cast), c.promise, 300_000)
			s.run(nil)
			t.Logf("%s\n%s", s, s.story)
			failIf(t, s.found.promise != c.promise, "this was not found to be broken: %s", c.promise)
		})
	}
}

// Worlds that differ in names alone are one, and no others.
func TestFormForgetsNamesAlone(t *testing.T) {
	t.Parallel()
	a := newArchive(revert{}, everybody)
	after := func(r *record, writer string, messages ...message) *record {
		t.Helper()
		for _, m := range messages {
			next := a.next(r, step{writer: writer, first: m, start: m.kind == nothing})
			stopIf(t, next == nil || next.wrong != nil, "%v", m)
			r = next
		}
		return r
	}
	start, request := message{}, message{kind: ask}
	one := after(a.root, "A001", start, request)
	two := after(after(a.root, "A001", start), "B002", start, request)
	failIf(t, one.form.shape != two.form.shape || len(one.form.ids) != len(two.form.ids),
		"a start more, and another id, is another state")
	reply := message{kind: answer, id: one.queries[0]}
	again := reply
	again.n = 1
	different := []*record{one, after(one, "A001", request), after(one, "A001", reply), after(one, "A001", again), after(one, "A001", message{kind: push}),
		after(one, "A001", message{kind: push, n: 1}), after(one, "A001", message{kind: ask, n: 1}), after(one, "A001", reply, again)}
	for i, r := range different {
		for _, other := range different[:i] {
			failIf(t, r.form.shape == other.form.shape, "%s and %s lead to one state", r.said, other.said)
		}
	}
}
