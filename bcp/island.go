package bcp

import (
	"cmp"
	"slices"
	"time"
)

// Island is a group of agents that channels connect, directly or through others, with
// those channels. Both ends of a channel are on one shard, so an island is too.
type Island struct {
	Agents   []AgentName  // sorted; at least one
	Channels []ChannelKey // sorted by controller, then reader
}

// Islands returns the islands of the mesh, sorted by their first agents. Each agent is
// in exactly one, alone where it has no channel.
func (m *Mesh) Islands() []Island {
	names := make([]AgentName, len(m.Agents))
	for i := range m.Agents {
		names[i] = m.Agents[i].Name
	}
	keys := make([]ChannelKey, len(m.Channels))
	for i := range m.Channels {
		keys[i] = m.Channels[i].ChannelKey
	}
	return islands(names, keys)
}

// islands groups agents, which are sorted. Channels with an end that is not among them
// are left out.
func islands(names []AgentName, channels []ChannelKey) []Island {
	index := make(map[AgentName]int, len(names))
	first := make([]int, len(names)) // an earlier agent of the same island, or itself
	for i, name := range names {
		index[name], first[i] = i, i
	}
	root := func(i int) int {
		for first[i] != i {
			first[i] = first[first[i]]
			i = first[i]
		}
		return i
	}
	ends := func(key ChannelKey) (a, b int, ok bool) {
		a, known := index[key.Controller]
		b, ok = index[key.Reader]
		return a, b, ok && known
	}
	for _, key := range channels {
		if a, b, ok := ends(key); ok {
			a, b = root(a), root(b)
			first[max(a, b)] = min(a, b)
		}
	}
	var all []Island
	number := make([]int, len(names)) // of the island, at its first agent
	for i, name := range names {
		if root(i) == i {
			number[i] = len(all)
			all = append(all, Island{})
		}
		island := &all[number[root(i)]]
		island.Agents = append(island.Agents, name)
	}
	for _, key := range channels {
		if a, _, ok := ends(key); ok {
			island := &all[number[root(a)]]
			island.Channels = append(island.Channels, key)
		}
	}
	return all
}

// Busiest returns the agent with the most channels, of several the first by name, and
// how many it has.
func (i Island) Busiest() (name AgentName, channels int) {
	count := make(map[AgentName]int, len(i.Agents))
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

// Without returns the islands that would be left of this one without an agent.
func (i Island) Without(name AgentName) []Island {
	return islands(slices.DeleteFunc(slices.Clone(i.Agents), func(a AgentName) bool { return a == name }), i.Channels)
}

// MaxPushes returns how many pushes a day the subscriptions of an island accept at
// most. It is false where one of its channels has no subscription, or one without
// max_rate: then nothing is known.
func (m *Mesh) MaxPushes(i Island) (pushes int64, ok bool) {
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

// Spread gives a shard, below shards, to each island that has none: the heaviest first,
// to the shard with the least weight, of several to the one with the fewest islands.
// homes has the shards of the islands that weights is about, and a negative number for
// one without; homes are kept. So what has a shard does not move when another island
// comes, and with no homes no two shards differ by more than the heaviest island. The
// same input gives the same output.
func Spread(weights []int64, homes []int, shards int) []int {
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
