package mesh

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Whoever serves the most gives back, one at a time, until nobody serves two more than
// another; then nobody does.
//
// covers P4.5
func TestSharesBecomeEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := share{shards: rapid.IntRange(1, 20).Draw(t, "shards"), holders: map[int]string{}}
		for i := range rapid.IntRange(1, 5).Draw(t, "gateways") {
			s.alive = append(s.alive, fmt.Sprint("g", i))
		}
		for k := range s.shards {
			s.holders[k] = rapid.SampledFrom(s.alive).Draw(t, "holder")
		}
		for moves := 0; ; moves++ {
			if moves > s.shards {
				t.Fatalf("shards go round: %v", s.holders)
			}
			var giver string
			var given int
			for _, g := range s.alive {
				if k, ok := s.gives(g); ok {
					if giver != "" {
						t.Fatalf("%s and %s give at once", giver, g)
					}
					giver, given = g, k
				}
			}
			if giver == "" {
				break
			}
			if s.holders[given] != giver {
				t.Fatalf("%s gives shard %d, which %q serves", giver, given, s.holders[given])
			}
			least := s.least()
			for _, g := range s.alive {
				if s.count(g) == least {
					s.holders[given] = g
					break
				}
			}
		}
		for _, g := range s.alive {
			if n := s.count(g); n > s.least()+1 {
				t.Errorf("%s serves %d of %v", g, n, s.holders)
			}
		}
	})
}

// A gateway takes what is free where nobody serves fewer, and otherwise later; what
// somebody serves it does not try; and one that could not serve leaves it to others.
//
// covers P4.5
func TestWhoTakesAShard(t *testing.T) {
	t.Parallel()
	now := time.Now()
	others := func(names ...string) func(*coordinator) {
		return func(f *coordinator) {
			for _, name := range names {
				f.heard[name] = now
			}
		}
	}
	serves := func(name string, shards ...int) func(*coordinator) {
		return func(f *coordinator) {
			for _, k := range shards {
				if name == "me" {
					f.mine[k] = true
				} else {
					f.held[k] = lease{name, now}
				}
			}
		}
	}
	for _, tt := range []struct {
		name  string
		knows []func(*coordinator)
		after time.Duration
		want  bool
	}{
		{"it is alone", nil, 0, true},
		{"it is alone, and serves others", []func(*coordinator){serves("me", 1, 2)}, 0, true},
		{"another serves it", []func(*coordinator){others("a"), serves("a", 0)}, 0, false},
		{"another serves fewer", []func(*coordinator){others("a"), serves("me", 1)}, 0, false},
		{"another serves as many", []func(*coordinator){others("a"), serves("me", 1), serves("a", 2)}, 0, true},
		{"another serves fewer, and does not take it", []func(*coordinator){others("a"), serves("me", 1)}, fleetGrace, true},
		{"just before that", []func(*coordinator){others("a"), serves("me", 1)}, fleetGrace - 1, false},
		{"whoever served it is gone without a word", []func(*coordinator){others("a"), serves("a", 0)}, jetstream.LeaseTime, true},
		{"just before that", []func(*coordinator){others("a"), serves("a", 0)}, jetstream.LeaseTime - 1, false},
		{"it could not serve", []func(*coordinator){others("a"), func(f *coordinator) { f.shardLost(3, errors.New("no")) }}, 0, false},
		{"it could not serve, and is alone", []func(*coordinator){func(f *coordinator) { f.shardLost(3, errors.New("no")) }}, 0, true},
		{"it was given back", []func(*coordinator){others("a"), serves("a", 0), func(f *coordinator) { f.freed(0) }}, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newCoordinator(nil, "me", 4, hclog.NewNullLogger())
			for _, know := range tt.knows {
				know(f)
			}
			f.share(now)
			alive := now.Add(tt.after)
			for name := range f.heard { // they go on
				f.heard[name] = alive
			}
			if got := f.takes(0, alive); got != tt.want || f.mine[0] != tt.want {
				t.Errorf("takes it: %v", got)
			}
		})
	}
	var one *coordinator
	if !one.takes(0, now) {
		t.Error("with one shard there is nothing to share")
	}
}

// Who could not serve asks for less and less, until it serves: each time a shard has
// nobody while it tries.
//
// covers P4.5
func TestWhoCannotServeAsksForLess(t *testing.T) {
	t.Parallel()
	f := newCoordinator(nil, "me", 2, hclog.NewNullLogger())
	fails := func() time.Duration {
		f.absent = time.Time{} // it is over
		begin := time.Now()
		f.shardLost(0, errors.New("no"))
		f.shardLost(1, errors.New("no")) // is the same failure
		return f.absent.Sub(begin).Round(fleetAbsence)
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 16} {
		if got := fails(); got != want*fleetAbsence {
			t.Errorf("after %d failures it is absent for %v", i+1, got)
		}
	}
	f.absent = time.Time{}
	f.shardLost(0, nil)
	f.shardLost(0, nats.ErrTimeout)
	if !f.absent.IsZero() {
		t.Error("it is absent, and could serve")
	}
	f.serves()
	if got := fails(); got != fleetAbsence {
		t.Errorf("after it has served it is absent for %v", got)
	}
}

// A term that is given back before it has begun is none that failed: this gateway may
// take a shard again at once.
//
// covers P4.5
func TestGivenBackBeforeItBegins(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for _, c := range []struct{ cause, err, want error }{
		{errGiven, context.Canceled, nil}, {nil, no, no}, {jetstream.ErrLeaseLost, context.Canceled, jetstream.ErrLeaseLost},
	} {
		if got := notBegun(c.cause, c.err); !errors.Is(got, c.want) {
			t.Errorf("%v and %v: %v", c.cause, c.err, got)
		}
	}
}

// A shard is given back when all is quiet: nobody came or went a moment ago, and none is
// free that somebody else may take.
//
// covers P4.5
func TestShardsAreGivenBackInQuiet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		free        bool
		since, came time.Duration
		want        bool
	}{
		{"quiet", false, 0, fleetPause, true},
		{"somebody came", false, 0, fleetPause - 1, false},
		{"one is free", true, fleetGrace - 1, fleetPause, false},
		{"one is free, and nobody takes it", true, fleetGrace, fleetPause, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			f := newCoordinator(nil, "me", 4, hclog.NewNullLogger())
			f.heard["a"], f.changed = now, now.Add(-tt.came)
			for k := range 4 {
				f.mine[k] = true
			}
			if tt.free {
				delete(f.mine, 0)
				f.free[0] = now.Add(-tt.since)
			}
			if shard, ok := f.gives(now); ok != tt.want || ok && shard != 3 {
				t.Errorf("gives shard %d: %v", shard, ok)
			}
			if _, again := f.gives(now); again {
				t.Error("two shards are given back at once")
			}
		})
	}
}

// A reload says where there are shards that a running gateway has no seat at.
//
// covers P1.5
func TestReloadTellsOfShardsWithoutASeat(t *testing.T) {
	t.Parallel()
	s := &ShardServer{gateway: &Gateway{shardServers: make([]*ShardServer, 2)}}
	for shards, want := range map[int]int{1: 1, 2: 0, 3: 1} {
		s.whole.Store(&bcp.Mesh{Agents: []bcp.Agent{{Name: "a", Shard: shards - 1}}})
		if notes := s.notes(); len(notes) != want {
			t.Errorf("%d shards: %q", shards, notes)
		}
	}
}

// entry is what a bucket says under a key.
type entry struct {
	natsjs.KeyValueEntry
	key, value string
	operation  natsjs.KeyValueOp
}

func (e entry) Key() string                  { return e.key }
func (e entry) Value() []byte                { return []byte(e.value) }
func (e entry) Operation() natsjs.KeyValueOp { return e.operation }

// Gateways that know of as many shards share them; one of other definitions, or of
// another version, has no part, nor has one that said goodbye.
//
// covers P4.5, P1.5
func TestWhoShares(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := newCoordinator(nil, "me", 4, hclog.NewNullLogger())
	for _, e := range []entry{
		{key: "gateway.a", value: "4"}, {key: "gateway.me", value: "4"}, {key: "gateway.old", value: "2"}, {key: "gateway.other"},
		{key: "gateway.b", value: "4"}, {key: "gateway.b", operation: natsjs.KeyValueDelete},
		{key: "shard.1", value: `{"gateway":"a"}`}, {key: "shard.2", value: `{"gateway":"old"}`}, {key: "shard.x", value: `{"gateway":"a"}`},
	} {
		f.note(e, now)
	}
	s := f.share(now)
	if got := fmt.Sprint(s.alive, s.holders); got != "[me a] map[1:a 2:old]" {
		t.Errorf("shares: %s", got)
	}
}
