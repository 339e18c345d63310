package bcp

import (
	"errors"
	"fmt"
	"maps"
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

// Moves finds the agents that are in the journal of one shard and that the definitions
// have on another, where they would begin with budgets that they have spent. Agents that
// the definitions do not have at all are none of them.
type Moves struct {
	shard     int
	elsewhere map[AgentName]int
	found     map[AgentName]uint64 // the first decision of each
}

// Moves returns what finds them for definitions that [Mesh.OfShard] has made, and finds
// none for others.
func (m *Mesh) Moves() Moves {
	return Moves{shard: m.Shard, elsewhere: m.Elsewhere, found: make(map[AgentName]uint64)}
}

// Add looks at the next decision of the journal. An agent is in it that did something, a
// refused message too, that had a session, also one that a delivery or a schedule began,
// that was an end of a channel when something was reserved or charged there, or whose
// taint was reported. Only to be named does not count: changes of credentials are on
// shard 0 for all agents, people may erase channels that a shard never had, and there may
// be a person of the same name.
func (v *Moves) Add(d *Decision) {
	if len(v.elsewhere) == 0 || d.Kind == KindCredential {
		return
	}
	if d.Role.agent() || d.Role == RoleKeeper {
		v.add(d.Agent, d.Seq)
	}
	if d.Session != "" {
		v.add(d.Controller, d.Seq)
	}
	if !d.accepted() {
		return
	}
	switch d.Kind {
	case KindAsk, KindPush:
		v.add(d.Controller, d.Seq)
		v.add(d.Reader, d.Seq)
	case KindTaint:
		v.add(d.Target, d.Seq)
	}
}

func (v *Moves) add(agent AgentName, seq uint64) {
	if _, ok := v.elsewhere[agent]; ok && v.found[agent] == 0 {
		v.found[agent] = seq
	}
}

// Err is [ErrMoved] where there are any: it names the first of them, both shards, and
// what to do.
func (v *Moves) Err() error {
	if len(v.found) == 0 {
		return nil
	}
	agent := slices.Min(slices.Collect(maps.Keys(v.found)))
	more := ""
	if n := len(v.found) - 1; n > 0 {
		more = fmt.Sprintf(", and so with %d more", n)
	}
	return fmt.Errorf("%w: %s is on shard %d, and in the journal of shard %d since decision %d%s; leave it on shard %d (shard: %d in its definition), or give the agent on shard %d another name",
		ErrMoved, agent, v.elsewhere[agent], v.shard, v.found[agent], more, v.shard, v.shard, v.elsewhere[agent])
}

// Moved is [ErrMoved] where the journal that made the state has agents that the
// definitions have on another shard: nobody serves it under them then.
func (s *State) Moved() error { return s.moves.Err() }
