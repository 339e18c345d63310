package definition

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// checkShards refuses a channel between two shards, and a shard without agents.
func (b *builder) checkShards(m *bcp.Mesh) {
	if b.incomplete || b.unplaced {
		return
	}
	shards := m.Shards()
	if shards == 1 {
		return
	}
	for i := range m.Channels {
		key := m.Channels[i].ChannelKey
		controller, _ := m.Agent(key.Controller)
		reader, _ := m.Agent(key.Reader)
		if controller.Shard != reader.Shard {
			b.controllers[key].errorf("peer", CodeShard, "%s is on shard %d and %s on shard %d: both ends of a channel are on one", controller.Name, controller.Shard, reader.Name, reader.Shard)
		}
	}
	taken := make([]bool, shards)
	for i := range m.Agents {
		taken[m.Agents[i].Shard] = true
	}
	empty := slices.Index(taken, false)
	if empty < 0 {
		return
	}
	for _, a := range b.agents {
		if shard := a.object.get("shard").number; shard > int64(empty) {
			a.source.errorf(a.object.at("shard"), CodeShard, "shard", "there is no agent on shard %d, and this one is on shard %d: shards have the numbers from 0 on", empty, shard)
			return
		}
	}
}

// checkWitness refuses require_witness on a cluster, whose gateways have no key that signs
// checkpoints. One that runs on one shard with one copy is refused at the gateway's start.
func (b *builder) checkWitness(m *bcp.Mesh) {
	if m.RequireWitness > 0 && (m.Replicas > 1 || m.Shards() > 1) {
		b.meshSource.errorf(b.mesh.at("require_witness"), CodeWitness, "require_witness", "require_witness is for a mesh of one process, and replicas or shard say that this one is a cluster's: leave it out, and have bcpmesh audit checkpoint --witness cosign")
	}
}
