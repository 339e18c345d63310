package bcp_test

import (
	"slices"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Every agent and every channel is on one shard, with all that is the mesh's; a mesh on
// one shard is as it was, and a mesh of a server of its own has one.
//
// covers P4.5, P8.1
func TestShards(t *testing.T) {
	t.Parallel()
	m := &bcp.Mesh{
		Name: "office", MaxDisk: 300, Approvers: []bcp.AgentName{"kim"},
		Agents: []bcp.Agent{{Name: "a"}, {Name: "b", Shard: 2}, {Name: "c"}, {Name: "d", Shard: 2}, {Name: "e", Shard: 1}},
		Channels: []bcp.Channel{
			{ChannelKey: bcp.ChannelKey{Controller: "a", Reader: "c"}},
			{ChannelKey: bcp.ChannelKey{Controller: "b", Reader: "d"}},
		},
	}
	if n := m.Shards(); n != 3 {
		t.Errorf("%d shards", n)
	}
	for shard, want := range map[int]struct {
		agents   []bcp.AgentName
		channels int
	}{0: {[]bcp.AgentName{"a", "c"}, 1}, 1: {[]bcp.AgentName{"e"}, 0}, 2: {[]bcp.AgentName{"b", "d"}, 1}, 3: {nil, 0}} {
		part := m.OfShard(shard)
		var names []bcp.AgentName
		for _, a := range part.Agents {
			names = append(names, a.Name)
		}
		if part.Shard != shard || len(part.Agents)+len(part.Elsewhere) != len(m.Agents) || shard != 1 && part.Elsewhere["e"] != 1 {
			t.Errorf("shard %d is %d, and elsewhere are %v", shard, part.Shard, part.Elsewhere)
		}
		if !slices.Equal(names, want.agents) || len(part.Channels) != want.channels || part.Name != "office" || part.MaxDisk != 100 || len(part.Approvers) != 1 {
			t.Errorf("shard %d has %v and %d channels of %q", shard, names, len(part.Channels), part.Name)
		}
	}
	whole := m.Whole()
	if whole.Shards() != 1 || len(whole.Agents) != 5 || len(whole.Channels) != 2 || m.Shards() != 3 {
		t.Errorf("as a whole it has %d shards, and before %d", whole.Shards(), m.Shards())
	}
	if whole.OfShard(0) != whole || whole.Whole() != whole {
		t.Error("a mesh on one shard is copied")
	}
}
