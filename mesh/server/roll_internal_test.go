//go:build unix

package server

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// A gateway leaves a server that does not answer itself, or where too few answer to
// store anything, and no other: also not where nobody says how many there are. What
// a server that is gone says of the others is nothing.
//
// covers P11.1, A-RECONN
func TestCutOff(t *testing.T) {
	t.Parallel()
	here, elsewhere := map[string]bool{"here": true}, map[string]bool{"there": true}
	for _, tt := range []struct {
		answered      map[string]bool
		keepers, size int
		want          bool
	}{
		{here, 0, 0, false},
		{here, 1, 1, false},
		{here, 1, 2, true},
		{here, 2, 2, false},
		{here, 1, 3, true},
		{here, 2, 3, false},
		{here, 3, 3, false},
		{here, 2, 4, true},
		{here, 3, 4, false},
		{here, 2, 5, true},
		{here, 3, 5, false},
		{nil, 0, 0, true},
		{elsewhere, 2, 3, true},
	} {
		t.Run(fmt.Sprintf("%d of %d, %v", tt.keepers, tt.size, tt.answered), func(t *testing.T) {
			t.Parallel()
			got := (roll{at: "here", answered: tt.answered, keepers: tt.keepers, size: tt.size}).cutOff()
			failIf(t, got != tt.want, "got %v", got)
		})
	}
}

// A server is gone once it has missed two calls, is back as soon as it answers one,
// and is forgotten in the end.
//
// covers P11.1, A-RECONN
func TestAttendance(t *testing.T) {
	t.Parallel()
	a := missedCalls{}
	call := func(ids ...string) {
		r := roll{answered: map[string]bool{}}
		for _, id := range ids {
			r.answered[id] = true
		}
		a.note(r)
	}
	expect := func(present, gone []string) {
		t.Helper()
		diff := cmp.Diff([][]string{present, gone}, [][]string{slices.Sorted(maps.Keys(a.present())), slices.Sorted(maps.Keys(a.silent()))})
		failIf(t, diff != "", "%v", diff)
	}
	call("a", "b", "c")
	expect([]string{"a", "b", "c"}, nil)
	call("a", "b")
	expect([]string{"a", "b"}, nil)
	call("a", "b", "d")
	expect([]string{"a", "b", "d"}, []string{"c"})
	call("a", "c", "d")
	expect([]string{"a", "c", "d"}, nil)
	for range forgetCalls - 1 {
		call("a", "c", "d")
	}
	expect([]string{"a", "c", "d"}, []string{"b"})
	call("a", "c", "d")
	bcptest.FailIf(t, len(a) != 3, "%d servers are remembered", len(a))
}

// A new connection tries the server first where another is well, if it is one of
// those that the operator named.
//
// covers P11.1
func TestInOrder(t *testing.T) {
	t.Parallel()
	urls := []string{"nats://a", "b:4222", "tls://user@c:4333"}
	for home, want := range map[string][]string{
		"":                  nil,
		"nats://d:4222":     nil,
		"nats://a:4333":     nil,
		"nats://a:4222":     {"nats://a", "b:4222", "tls://user@c:4333"},
		"nats://b:4222":     {"b:4222", "nats://a", "tls://user@c:4333"},
		"tls://user@c:4333": {"tls://user@c:4333", "nats://a", "b:4222"},
	} {
		got, ordered := inOrder(urls, home)
		bcptest.FailIf(t, ordered != (want != nil), "%q is first: %v", home, ordered)
		if want == nil {
			want = urls
		}
		diff := cmp.Diff(want, got)
		failIf(t, diff != "", "%q: %s", home, diff)
	}
}

// The fullest store is that of which most is used, and not that with the most in it.
// One without a limit is none.
//
// covers P11.4
func TestFullest(t *testing.T) {
	t.Parallel()
	small, large, full := Store{80, 100}, Store{500, 1000}, Store{100, 100}
	for _, tt := range []struct {
		stores []Store
		want   Store
	}{
		{nil, Store{}},
		{[]Store{{}}, Store{}},
		{[]Store{{Used: 5}}, Store{}},
		{[]Store{large, small}, small},
		{[]Store{small, large}, small},
		{[]Store{{Used: 500}, large, {}}, large},
		{[]Store{large, full, small}, full},
		{[]Store{{Used: 200, Limit: 100}, full}, Store{200, 100}},
	} {
		var got Store
		for _, s := range tt.stores {
			got = got.maxUse(s)
		}
		bcptest.FailIf(t, got != tt.want, "of %v it is %v, not %v", tt.stores, got, tt.want)
	}
}

// A server that was started anew has another id, and nobody waits for the old one,
// whose connections have ended. The servers themselves count it for minutes.
//
// covers P11.1, A-RECONN
func TestRestartedServerIsNotAwaited(t *testing.T) {
	t.Parallel()
	nodes := clustertest.Start(t, clustertest.Config{Text: func(int, string) string {
		return "accounts: {SYS: {users: [{user: sys, password: sys}]}}\nsystem_account: SYS\n"
	}})
	monitor := bcptest.Must(nats.Connect(nodes.URL(), append(clustertest.Attentive(), nats.UserInfo("sys", "sys"), nats.DontRandomize())...))
	c := &Cluster{log: hclog.NewNullLogger(), monitor: monitor, again: make(chan struct{}, 1), quit: make(chan struct{}), called: make(chan struct{}), attended: missedCalls{}}
	c.running.Go(func() { c.leaveCutOff(c.quit) })
	t.Cleanup(c.Close)
	await := func(what string, done func(present, gone map[string]bool) bool) map[string]bool {
		t.Helper()
		for deadline := time.Now().Add(clustertest.Patience); ; time.Sleep(50 * time.Millisecond) {
			c.mu.Lock()
			present, gone := c.attended.present(), c.attended.silent()
			c.mu.Unlock()
			if done(present, gone) {
				return present
			}
			stopIf(t, time.Now().After(deadline), "it does not come to %s: %d answer, %d are gone", what, len(present), len(gone))
		}
	}
	before := await("three servers", func(present, _ map[string]bool) bool { return len(present) == 3 })
	last := nodes.Size() - 1 // the monitor is at the first
	nodes.Kill(t, last)
	await("a server that is gone", func(present, gone map[string]bool) bool { return len(present) == 2 && len(gone) == 1 })
	nodes.Restart(t, last)
	after := await("three servers again", func(present, gone map[string]bool) bool { return len(present) == 3 && len(gone) == 1 })
	old := 0
	for id := range before {
		if !after[id] {
			old++
		}
	}
	bcptest.FailIf(t, old != 1, "%d of three ids are old", old)
	// On a busy machine a server may be late with its answer.
	for deadline := time.Now().Add(clustertest.Patience); ; {
		open, err := c.open()
		unknown := maps.Clone(before)
		maps.DeleteFunc(unknown, func(id string, _ bool) bool { return open.Of[id] })
		if err == nil && len(unknown) == 0 {
			break
		}
		bcptest.StopIf(t, time.Now().After(deadline), "what is open at %d of three servers is not known: %v", len(unknown), err)
	}
}
