package state

import (
	"maps"
	"reflect"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Under moves what s remembers into a state that [New] made, which has remembered nothing:
// what [Restore] makes of a checkpoint of s under those definitions, in less time. s must
// not be used any more.
func (s *State) Under(next *State) (*State, error) {
	saved, err := s.saveRuns()
	if err != nil {
		return nil, err
	}
	if err := next.openRuns(saved); err != nil {
		return nil, err
	}
	take(next, s)
	next.queries, next.open, next.endings, next.firsts = s.queries, s.open, s.endings, s.firsts
	for _, name := range s.agentNames() {
		take(next.addAgent(name), s.agent(name))
	}
	same := next.sameTexts(s)
	kept := make(map[bcp.ChannelKey]bool) // whose queries cost what they did
	for _, key := range s.channelKeys() {
		from, ch := s.channel(key), next.addChannel(key)
		ch.remember(from)
		kept[key] = same && s.channels[key] != nil && next.channels[key] != nil && len(s.openWith[key.Reader]) > 0 && reflect.DeepEqual(&from.definition, &ch.definition)
	}
	for _, q := range next.open {
		if !kept[q.channel] {
			q.validator, q.prices = nil, bcp.Prices{}
		}
	}
	return next, next.index()
}

// sameTexts reports whether a spec of an equal channel compiles to the same.
func (s *State) sameTexts(other *State) bool {
	return s.rules.Digest() == other.rules.Digest() && (s.constraints == nil) == (other.constraints == nil) &&
		maps.EqualFunc(s.mesh.Vocabularies, other.mesh.Vocabularies, func(a, b []string) bool { return reflect.DeepEqual(a, b) })
}

// remember takes over all that is not of the definitions.
func (ch *channelState) remember(from *channelState) {
	span := ch.window.span
	if take(ch, from); !ch.window.recorded && len(ch.window.parts) == 0 && span > 0 {
		ch.window.span = span
	}
	for id, was := range from.pushes {
		if !was.empty() {
			take(ch.findPushes(id), was)
		}
	}
}
