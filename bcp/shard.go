package bcp

import (
	"errors"
	"slices"
)

// MaxShard is the greatest number of a shard.
const MaxShard = 63

// A shard is a part of a mesh with a journal of its own, on a cluster. What is one for
// an agent is in one journal: its sessions, its taint and its rates. So an agent is on
// one shard, and no channel leads from one shard to another. People are on all.

// ErrMoved says that an agent of one shard would be on another: its creds name an
// account of the first, and what was recorded of it is in the journal of that one.
var ErrMoved = errors.New("an agent keeps its shard")

// Shards is how many shards the mesh has: one more than the greatest number of an
// agent's.
func (m *Mesh) Shards() int {
	n := 1
	for i := range m.Agents {
		n = max(n, m.Agents[i].Shard+1)
	}
	return n
}

// OfShard returns the definitions of one shard: those of its agents and of their
// channels, and everything that is the mesh's. Of a shard that the mesh does not have
// there are no agents. Each has an even part of MaxDisk. It may share memory with m.
func (m *Mesh) OfShard(shard int) *Mesh {
	shards := m.Shards()
	if shard == 0 && shards == 1 {
		return m
	}
	part := *m
	part.MaxDisk /= int64(shards)
	part.Shard, part.Elsewhere = shard, make(map[AgentName]int)
	for i := range m.Agents {
		if a := &m.Agents[i]; a.Shard != shard {
			part.Elsewhere[a.Name] = a.Shard
		}
	}
	here := func(name AgentName) bool {
		a, ok := m.Agent(name)
		return ok && a.Shard == shard
	}
	part.Agents = slices.DeleteFunc(slices.Clone(m.Agents), func(a Agent) bool { return a.Shard != shard })
	part.Channels = slices.DeleteFunc(slices.Clone(m.Channels), func(c Channel) bool { return !here(c.Controller) || !here(c.Reader) })
	return &part
}

// Whole returns the same mesh on one shard, as a server of its own has it.
func (m *Mesh) Whole() *Mesh {
	if m.Shards() == 1 {
		return m
	}
	whole := *m
	whole.Agents = slices.Clone(m.Agents)
	for i := range whole.Agents {
		whole.Agents[i].Shard = 0
	}
	return &whole
}

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

// Without returns the islands that would be left of this one without an agent.
func (i Island) Without(name AgentName) []Island {
	return islands(slices.DeleteFunc(slices.Clone(i.Agents), func(a AgentName) bool { return a == name }), i.Channels)
}
