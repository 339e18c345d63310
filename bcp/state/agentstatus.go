package state

import "github.com/bcpmesh/bcpmesh/bcp"

// AgentWaits counts for each agent what waits; agents for which nothing does are left
// out.
func (s *State) AgentWaits() map[bcp.AgentName]bcp.AgentWait {
	all := make(map[bcp.AgentName]bcp.AgentWait)
	add := func(agent bcp.AgentName, change func(*bcp.AgentWait)) {
		w := all[agent]
		change(&w)
		all[agent] = w
	}
	for _, q := range s.open {
		if q.waits() {
			add(q.channel.Reader, func(w *bcp.AgentWait) { w.Queries++ })
			add(q.channel.Controller, func(w *bcp.AgentWait) { w.Answers++ })
		}
	}
	for key, ch := range s.channels {
		if n := len(ch.outbox); n > 0 {
			add(key.Controller, func(w *bcp.AgentWait) { w.Deliveries += n })
		}
	}
	for _, it := range s.items {
		add(it.Controller, func(w *bcp.AgentWait) { w.Held++ })
		add(it.Reader, func(w *bcp.AgentWait) { w.Held++ })
	}
	return all
}
