package state

import "github.com/bcpmesh/bcpmesh/bcp"

// Agents and channels that the records name and the definitions do not have are kept as
// the others are: nothing is decided about their messages, and what comes back goes on
// where it was.

// addAgent returns an agent that a record or a checkpoint names.
func (s *State) addAgent(name bcp.AgentName) *agentState {
	a := s.allAgents[name]
	if a == nil {
		a = newAgentState(bcp.Agent{Name: name})
		s.allAgents[name] = a
	}
	return a
}

// addChannel returns a channel that a record or a checkpoint names.
func (s *State) addChannel(key bcp.ChannelKey) *channelState {
	ch := s.allChannels[key]
	if ch == nil {
		controller := s.addAgent(key.Controller)
		s.addAgent(key.Reader)
		ch = newChannelState(bcp.Channel{ChannelKey: key}, controller)
		s.allChannels[key] = ch
		controller.pastAsks = append(controller.pastAsks, ch)
	}
	return ch
}

// meet has the state know whom a decision names, as those who decided it did: not what a
// sender names that is refused for that, nor people.
func (s *State) meet(d *bcp.Decision) {
	switch {
	case d.Role.IsAgent(), d.Role == bcp.RoleKeeper, d.Kind == bcp.KindProcess:
		s.addAgent(d.Agent)
	}
	if d.Kind == bcp.KindTaint && d.Verdict == bcp.Accept {
		s.addAgent(d.Target)
	}
	key, ok := d.Channel()
	switch d.Kind {
	case bcp.KindAsk, bcp.KindPush, bcp.KindAlert, bcp.KindPropose, bcp.KindHand, bcp.KindEndorse:
		if ok && (d.Verdict != bcp.Reject || d.Code == bcp.BudgetExhausted || d.Code == bcp.EscalationLimitReached) {
			s.addChannel(key)
		}
	}
}
