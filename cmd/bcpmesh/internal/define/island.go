package define

import (
	"cmp"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// busiest returns the agent with the most channels, the first by name of several, and
// how many it has.
func busiest(i bcp.Island) (name bcp.AgentName, channels int) {
	count := make(map[bcp.AgentName]int, len(i.Agents))
	for _, key := range i.Channels {
		count[key.Controller]++
		count[key.Reader]++
	}
	for _, agent := range i.Agents {
		if name == "" || count[agent] > channels {
			name, channels = agent, count[agent]
		}
	}
	return name, channels
}

// maxPushes returns how many pushes a day the subscriptions of an island accept at
// most. It is false where one of its channels has no subscription, or one without
// max_rate: then nothing is known.
func maxPushes(m *bcp.Mesh, i bcp.Island) (pushes int64, ok bool) {
	for _, key := range i.Channels {
		c, known := m.Channel(key)
		if !known || len(c.Subscriptions) == 0 {
			return 0, false
		}
		for _, s := range c.Subscriptions {
			if s.MaxRate.Span <= 0 {
				return 0, false
			}
			pushes += int64(s.MaxRate.Count) * int64(24*time.Hour/s.MaxRate.Span)
		}
	}
	return pushes, true
}

// spread gives a shard, below shards, to each island that has none: the heaviest first,
// to the shard with the least weight, of several to the one with the fewest islands.
// homes has the shards of the islands that weights is about, and a negative number for
// one without; homes are kept. So what has a shard does not move when another island
// comes, and with no homes no two shards differ by more than the heaviest island. The
// same input gives the same output.
func spread(weights []int64, homes []int, shards int) []int {
	type shard struct {
		weight  int64
		islands int
	}
	at := slices.Clone(homes)
	taken := make([]shard, shards)
	put := func(island, on int) {
		at[island] = on
		taken[on].weight += weights[island]
		taken[on].islands++
	}
	var free []int
	for i, home := range homes {
		if home >= 0 {
			put(i, home)
		} else {
			free = append(free, i)
		}
	}
	slices.SortStableFunc(free, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	for _, island := range free {
		least := 0
		for n, s := range taken {
			if cmp.Or(cmp.Compare(s.weight, taken[least].weight), cmp.Compare(s.islands, taken[least].islands)) < 0 {
				least = n
			}
		}
		put(island, least)
	}
	return at
}
