package state

import (
	"maps"
	"reflect"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Under moves what s remembers into a state that [New] made, which has remembered nothing:
// what [Restore] makes of a checkpoint of s under those definitions, in less time. s must
// not be used any more.
func (s *State) Under(next *State) (*State, error) {
	if err := next.openRuns(s.runs.Save()); err != nil {
		return nil, err
	}
	next.memory, next.open, next.openWith, next.waiting, next.noticed = s.memory, s.open, s.openWith, s.waiting, s.noticed
	for name, a := range s.allAgents {
		next.addAgent(name).remember(a)
	}
	same := (s.constraints == nil) == (next.constraints == nil) && maps.EqualFunc(s.mesh.Vocabularies, next.mesh.Vocabularies, slices.Equal[[]string])
	kept := make(map[bcp.ChannelKey]bool) // whose queries cost what they did
	for key, from := range s.allChannels {
		ch := next.addChannel(key)
		if ch.remember(from); next.channels[key] == nil {
			continue
		}
		next.noteThreshold(ch)
		kept[key] = same && s.channels[key] != nil && len(s.openWith[key.Reader]) > 0 && reflect.DeepEqual(&from.definition, &ch.definition)
	}
	for _, t := range s.deadline {
		if t.cron == 0 && !t.void && !s.obsolete(t) {
			next.addTimer(t)
		}
	}
	next.scheduleAll()
	for id, q := range next.open {
		if !kept[q.channel] && !q.unfunded {
			q.validator, q.prices, _ = next.asked(q.spec, q.nominal, q.capacity, q.category, next.allChannels[q.channel])
		}
		next.wakeForVoid(id, q)
	}
	return next, nil
}

// remember takes over all that is not of the definitions.
func (a *agentState) remember(from *agentState) {
	definition, asks, answers, pastAsks, askTotal, policy := a.definition, a.asks, a.answers, a.pastAsks, a.askTotal, a.egress.policy
	*a = *from
	a.definition, a.asks, a.answers, a.pastAsks, a.askTotal, a.egress.policy = definition, asks, answers, pastAsks, askTotal, policy
}

// remember takes over all that is not of the definitions.
func (ch *channelState) remember(from *channelState) {
	definition, subscriptions, settings, controller, pushTotal, pushes, span := ch.definition, ch.subscriptions, ch.settings, ch.controller, ch.pushTotal, ch.pushes, ch.window.span
	*ch = *from
	ch.definition, ch.subscriptions, ch.settings, ch.controller, ch.pushTotal, ch.pushes = definition, subscriptions, settings, controller, pushTotal, pushes
	if !ch.window.recorded && len(ch.window.parts) == 0 && span > 0 {
		ch.window.span = span
	}
	for id, was := range from.pushes {
		if !was.empty() {
			p, kept := ch.findPushes(id), *was
			kept.rate, kept.window = p.rate, p.window
			*p = kept
		}
	}
}
