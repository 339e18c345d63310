package bcp_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// meshOfPairs is a mesh of agents a0, a1 and so on with channels between pairs of them.
func meshOfPairs(agents int, pairs [][2]int) *bcp.Mesh {
	m := &bcp.Mesh{}
	name := func(i int) bcp.AgentName { return bcp.AgentName(fmt.Sprintf("a%03d", i)) }
	for i := range agents {
		m.Agents = append(m.Agents, bcp.Agent{Name: name(i)})
	}
	for _, p := range pairs {
		if p[0] != p[1] {
			m.Channels = append(m.Channels, bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: name(p[0]), Reader: name(p[1])}})
		}
	}
	slices.SortFunc(m.Channels, func(a, b bcp.Channel) int {
		return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Reader, b.Reader))
	})
	m.Channels = slices.CompactFunc(m.Channels, func(a, b bcp.Channel) bool { return a.ChannelKey == b.ChannelKey })
	return m
}

// Every agent is in exactly one island and every channel inside one; an island is
// connected; the order is that of the first agents.
//
// covers P4.5
func TestIslands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		agents := rapid.IntRange(1, 30).Draw(t, "agents")
		end := rapid.IntRange(0, agents-1)
		m := meshOfPairs(agents, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]int { return [2]int{end.Draw(t, "from"), end.Draw(t, "to")} }), 0, 40).Draw(t, "pairs"))
		all := m.Islands()
		if diff := gocmp.Diff(all, m.Islands()); diff != "" {
			t.Fatalf("another time it is another: %s", diff)
		}
		home := map[bcp.AgentName]int{}
		channels := 0
		for i, island := range all {
			if len(island.Agents) == 0 || !slices.IsSorted(island.Agents) || i > 0 && all[i-1].Agents[0] >= island.Agents[0] {
				t.Fatalf("not in order: %v", all)
			}
			for _, name := range island.Agents {
				if _, twice := home[name]; twice {
					t.Fatalf("%s is in two islands", name)
				}
				home[name] = i
			}
			channels += len(island.Channels)
			reached := map[bcp.AgentName]bool{island.Agents[0]: true}
			for range island.Agents {
				for _, key := range island.Channels {
					if reached[key.Controller] || reached[key.Reader] {
						reached[key.Controller], reached[key.Reader] = true, true
					}
				}
			}
			if len(reached) != len(island.Agents) {
				t.Fatalf("%v is not connected", island)
			}
		}
		if len(home) != agents || channels != len(m.Channels) {
			t.Fatalf("%d of %d agents and %d of %d channels are in islands", len(home), agents, channels, len(m.Channels))
		}
		for _, c := range m.Channels {
			if home[c.Controller] != home[c.Reader] {
				t.Fatalf("%v is between two islands", c.ChannelKey)
			}
		}
	})
}

// What joins an island is told, and what would be left without it.
//
// covers P4.5
func TestIslandsBusiest(t *testing.T) {
	t.Parallel()
	star := meshOfPairs(5, [][2]int{{2, 0}, {2, 1}, {3, 2}, {0, 1}})
	island := star.Islands()[0]
	name, channels := island.Busiest()
	if name != "a002" || channels != 3 || len(island.Channels) != 4 {
		t.Errorf("%s has %d channels of %v", name, channels, island.Channels)
	}
	parts := island.Without(name)
	if len(parts) != 2 || len(parts[0].Agents) != 2 || len(parts[0].Channels) != 1 || len(parts[1].Channels) != 0 {
		t.Errorf("without it there are %v", parts)
	}
	alone := star.Islands()[1]
	if name, channels := alone.Busiest(); name != "a004" || channels != 0 || len(alone.Without(name)) != 0 {
		t.Errorf("alone: %s with %d", name, channels)
	}
}

// Rates count only where all of an island are declared.
//
// covers P4.5, SUB-145
func TestIslandsMaxPushes(t *testing.T) {
	t.Parallel()
	m := meshOfPairs(3, [][2]int{{0, 1}, {0, 2}})
	rated := func(rates ...bcp.Rate) (list []bcp.Subscription) {
		for _, r := range rates {
			list = append(list, bcp.Subscription{MaxRate: r})
		}
		return list
	}
	m.Channels[0].Subscriptions = rated(bcp.Rate{Count: 2, Span: time.Hour}, bcp.Rate{Count: 1, Span: 24 * time.Hour})
	if _, ok := m.MaxPushes(m.Islands()[0]); ok {
		t.Error("a channel without subscriptions has a rate")
	}
	m.Channels[1].Subscriptions = rated(bcp.Rate{Count: 1, Span: time.Second})
	if n, ok := m.MaxPushes(m.Islands()[0]); !ok || n != 2*24+1+86400 {
		t.Errorf("%d pushes a day, %v", n, ok)
	}
	m.Channels[1].Subscriptions = append(m.Channels[1].Subscriptions, bcp.Subscription{})
	if _, ok := m.MaxPushes(m.Islands()[0]); ok {
		t.Error("a subscription without max_rate has a rate")
	}
}

// Homes are kept, every island gets a shard, no shard is empty where there are islands
// for it, and loads are as even as islands allow.
//
// covers P4.5
func TestSpread(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(1, 8).Draw(t, "shards")
		weights := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 40).Draw(t, "weights")
		homes := rapid.SliceOfN(rapid.IntRange(-3, shards-1), len(weights), len(weights)).Draw(t, "homes")
		at := bcp.Spread(weights, homes, shards)
		if !slices.Equal(at, bcp.Spread(weights, homes, shards)) {
			t.Fatal("another time it is another")
		}
		free, taken := 0, map[int]bool{}
		for i, home := range homes {
			if home >= 0 && at[i] != home || at[i] < 0 || at[i] >= shards {
				t.Fatalf("island %d of shard %d is put on %d", i, home, at[i])
			}
			if home < 0 {
				free++
			} else {
				taken[home] = true
			}
		}
		used := map[int]bool{}
		for _, on := range at {
			used[on] = true
		}
		if len(used) < min(shards, len(taken)+free) {
			t.Fatalf("%d shards have islands, and %d could", len(used), min(shards, len(taken)+free))
		}
		if len(taken) > 0 {
			return
		}
		load := make([]int64, shards)
		for i, on := range at {
			load[on] += weights[i]
		}
		if slices.Max(load)-slices.Min(load) > slices.Max(weights) {
			t.Fatalf("uneven: %v of %v", load, weights)
		}
	})
}

// What has a shard stays there when another island comes, however heavy it is.
//
// covers P4.5
func TestSpreadMovesNothing(t *testing.T) {
	t.Parallel()
	weights := []int64{5, 3, 1, 9}
	at := bcp.Spread(weights, []int{-1, -1, -1, -1}, 2)
	if !slices.Equal(at, []int{1, 1, 1, 0}) {
		t.Errorf("spread as %v", at)
	}
	later := bcp.Spread(append(weights, 1000, 1), append(slices.Clone(at), -1, -1), 2)
	if !slices.Equal(later, []int{1, 1, 1, 0, 0, 1}) {
		t.Errorf("later as %v", later)
	}
}
