package define

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// meshOf is a mesh of agents a to e with these channels, which are sorted.
func meshOf(channels ...string) *bcp.Mesh {
	m := &bcp.Mesh{Agents: []bcp.Agent{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}}
	for _, ends := range channels {
		controller, reader, _ := strings.Cut(ends, " ")
		m.Channels = append(m.Channels, bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: bcp.AgentName(controller), Reader: bcp.AgentName(reader)}})
	}
	return m
}

// What joins an island is told.
//
// covers P4.5
func TestBusiest(t *testing.T) {
	t.Parallel()
	islands := meshOf("a b", "c a", "c b", "d c").Islands()
	if name, channels := busiest(islands[0]); name != "c" || channels != 3 {
		t.Errorf("%s has %d channels", name, channels)
	}
	if name, channels := busiest(islands[1]); name != "e" || channels != 0 {
		t.Errorf("alone: %s with %d", name, channels)
	}
}

// Rates count only where all of an island are declared.
//
// covers P4.5, SUB-145
func TestMaxPushes(t *testing.T) {
	t.Parallel()
	m := meshOf("a b", "a c")
	rated := func(rates ...bcp.Rate) (list []bcp.Subscription) {
		for _, r := range rates {
			list = append(list, bcp.Subscription{MaxRate: r})
		}
		return list
	}
	m.Channels[0].Subscriptions = rated(bcp.Rate{Count: 2, Span: time.Hour}, bcp.Rate{Count: 1, Span: 24 * time.Hour})
	if _, ok := maxPushes(m, m.Islands()[0]); ok {
		t.Error("a channel without subscriptions has a rate")
	}
	m.Channels[1].Subscriptions = rated(bcp.Rate{Count: 1, Span: time.Second})
	if n, ok := maxPushes(m, m.Islands()[0]); !ok || n != 2*24+1+86400 {
		t.Errorf("%d pushes a day, %v", n, ok)
	}
	m.Channels[1].Subscriptions = append(m.Channels[1].Subscriptions, bcp.Subscription{})
	if _, ok := maxPushes(m, m.Islands()[0]); ok {
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
		at := spread(weights, homes, shards)
		if !slices.Equal(at, spread(weights, homes, shards)) {
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
	at := spread(weights, []int{-1, -1, -1, -1}, 2)
	if !slices.Equal(at, []int{1, 1, 1, 0}) {
		t.Errorf("spread as %v", at)
	}
	later := spread(append(weights, 1000, 1), append(slices.Clone(at), -1, -1), 2)
	if !slices.Equal(later, []int{1, 1, 1, 0, 0, 1}) {
		t.Errorf("later as %v", later)
	}
}
