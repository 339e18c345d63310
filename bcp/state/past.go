package state

import "github.com/bcpmesh/bcpmesh/bcp"

// Agents and channels that the records name and the definitions do not have are kept as
// the others are: nothing is decided about their messages, and what comes back goes on
// where it was.

type past struct {
	agents   map[bcp.AgentName]*agentState
	channels map[bcp.ChannelKey]*channelState
}

// agent returns an agent of the definitions, or a past one.
func (s *State) agent(name bcp.AgentName) *agentState {
	if a := s.agents[name]; a != nil {
		return a
	}
	return s.past.agents[name]
}

// channel returns a channel of the definitions, or a past one.
func (s *State) channel(key bcp.ChannelKey) *channelState {
	if ch := s.channels[key]; ch != nil {
		return ch
	}
	return s.past.channels[key]
}

// addAgent returns an agent that a record or a checkpoint names.
func (s *State) addAgent(name bcp.AgentName) *agentState {
	a := s.agent(name)
	if a == nil {
		a = newAgentState(bcp.Agent{Name: name})
		s.past.agents[name] = a
	}
	return a
}

// addChannel returns a channel that a record or a checkpoint names.
func (s *State) addChannel(key bcp.ChannelKey) *channelState {
	ch := s.channel(key)
	if ch == nil {
		controller := s.addAgent(key.Controller)
		s.addAgent(key.Reader)
		ch = newChannelState(bcp.Channel{ChannelKey: key}, controller)
		s.past.channels[key] = ch
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
