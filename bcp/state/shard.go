package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// MovedAgents finds the agents that are in the journal of one shard and on another in
// the definitions, where they would begin with budgets that they have spent. Agents that
// the definitions do not have at all are none of them.
type MovedAgents struct {
	shard     int
	elsewhere map[bcp.AgentName]int
	found     map[bcp.AgentName]uint64 // the first decision of each
}

// NewMovedAgents finds them for definitions that [bcp.Mesh.OfShard] has made,
// and none for others.
func NewMovedAgents(m *bcp.Mesh) MovedAgents {
	return MovedAgents{shard: m.Shard, elsewhere: m.Elsewhere, found: make(map[bcp.AgentName]uint64)}
}

// Add looks at the next decision of the journal. An agent is in it that did something, a
// refused message too, that had a session, also one that a delivery or a schedule began,
// that was an end of a channel when something was reserved or charged there, or whose
// taint was reported. Only to be named does not count: changes of credentials are on
// shard 0 for all agents, people may erase channels that a shard never had, and there may
// be a person of the same name.
func (v *MovedAgents) Add(d *bcp.Decision) {
	if len(v.elsewhere) == 0 || d.Kind == bcp.KindCredential {
		return
	}
	if d.Role.IsAgent() || d.Role == bcp.RoleKeeper {
		v.add(d.Agent, d.Seq)
	}
	if d.Session != "" {
		v.add(d.Controller, d.Seq)
	}
	if !d.Accepted() {
		return
	}
	switch d.Kind {
	case bcp.KindAsk, bcp.KindPush:
		v.add(d.Controller, d.Seq)
		v.add(d.Reader, d.Seq)
	case bcp.KindTaint:
		v.add(d.Target, d.Seq)
	}
}

func (v *MovedAgents) add(agent bcp.AgentName, seq uint64) {
	if _, ok := v.elsewhere[agent]; ok && v.found[agent] == 0 {
		v.found[agent] = seq
	}
}

// Err is [bcp.ErrMoved] if there are any: it names the first of them, both shards, and
// what to do.
func (v *MovedAgents) Err() error {
	if len(v.found) == 0 {
		return nil
	}
	agent := slices.Min(slices.Collect(maps.Keys(v.found)))
	more := ""
	if n := len(v.found) - 1; n > 0 {
		more = fmt.Sprintf(", and so with %d more", n)
	}
	return fmt.Errorf("%w: %s is on shard %d, and in the journal of shard %d since decision %d%s; leave it on shard %d (shard: %d in its definition), or give the agent on shard %d another name",
		bcp.ErrMoved, agent, v.elsewhere[agent], v.shard, v.found[agent], more, v.shard, v.shard, v.elsewhere[agent])
}

// Moved is [bcp.ErrMoved] where the journal that made the state has agents that the
// definitions have on another shard: nobody serves it under them then.
func (s *State) Moved() error { return s.moves.Err() }
