package state

import (
	"fmt"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// RestoreBase is [Restore] of a checkpoint that a truncated journal begins
// after: there is no history to read instead. So it makes a state also under
// definitions, rules and programs that read history otherwise, and the change
// holds from there on: what was decided stays decided, open queries that would
// cost something else now are cancelled, and schedules begin again.
//
// It fails with [ErrDefinitions] where history would have to tell what the
// checkpoint does not know: an agent or a channel is back that was gone when it
// was made, or a budget_window is longer than what
// was counted.
func RestoreBase(c Config, checkpoint []byte) (*State, error) {
	s, saved, err := restoring(c, checkpoint)
	if err != nil {
		return nil, err
	}
	context := s.context
	if saved.Mesh != s.marks.mesh || len(saved.Crons) != len(s.crons) {
		saved.Mesh, saved.Crons = s.marks.mesh, make([]savedCron, len(s.crons))
		saved.Deadlines = slices.DeleteFunc(saved.Deadlines, func(t savedTimer) bool { return t.Cron != 0 })
		context = bcp.Digest{}
	}
	s.carryAgents(saved)
	changed, err := s.carryChannels(saved)
	if err != nil {
		return nil, err
	}
	if changed {
		context = bcp.Digest{}
	}
	if err := s.sameHistory(saved); err != nil {
		return nil, err
	}
	if err := s.restore(saved, context); err != nil {
		return nil, err
	}
	return s, nil
}

// carryAgents leaves out those that are gone, as a journal that names them does.
func (s *State) carryAgents(saved *savedState) {
	saved.Agents = slices.DeleteFunc(saved.Agents, func(a savedAgent) bool {
		if s.agents[a.Name] == nil {
			s.foreign.agents[a.Name] = true
			return true
		}
		return false
	})
}

// carryChannels is carryAgents of channels, and of what belongs to them.
func (s *State) carryChannels(saved *savedState) (changed bool, err error) {
	for i := range saved.Channels {
		if k := saved.Channels[i].Key; k < 0 || k >= len(saved.Keys) {
			return false, errSaved
		}
	}
	gone := make(map[int]bool)
	saved.Channels = slices.DeleteFunc(saved.Channels, func(c savedChannel) bool {
		key := saved.key(c.Key)
		if gone[c.Key] = s.channels[key] == nil; gone[c.Key] {
			s.foreign.channels[key] = true
		}
		return gone[c.Key]
	})
	ended := make(map[savedTimer]bool)
	goneQuery := func(q savedQuery) bool {
		ended[savedTimer{Query: q.ID}] = gone[q.Key]
		return gone[q.Key]
	}
	saved.Open = slices.DeleteFunc(saved.Open, goneQuery)
	saved.Ended = slices.DeleteFunc(saved.Ended, goneQuery)
	saved.Items = slices.DeleteFunc(saved.Items, func(it savedItem) bool {
		ended[savedTimer{Item: it.ID}] = gone[it.Key]
		return gone[it.Key]
	})
	saved.Deadlines = slices.DeleteFunc(saved.Deadlines, func(t savedTimer) bool { t.At = 0; return ended[t] })
	saved.Alerts = slices.DeleteFunc(saved.Alerts, func(a savedAlert) bool { return gone[a.Key] })
	for i := range saved.Channels {
		c := &saved.Channels[i]
		key := saved.key(c.Key)
		if c.Mark == s.marks.channels[key] {
			continue
		}
		changed, c.Mark = true, s.marks.channels[key]
		if err := c.carryWindow(s.channels[key].window.span); err != nil {
			return false, fmt.Errorf("%w of %s and %s", err, key.Controller, key.Reader)
		}
	}
	return changed, nil
}

// carryWindow has charges counted over another span. What a part holds was
// charged at its end at the latest; what a longer span would still count is
// forgotten.
func (c *savedChannel) carryWindow(span int64) error {
	if span > c.Span {
		return fmt.Errorf("%w: budget_window", ErrDefinitions)
	}
	if span == c.Span {
		return nil
	}
	before := slidingWindow{span: c.Span}
	for i := 0; i+1 < len(c.Window); i += 2 {
		c.Window[i] += before.width()
	}
	c.Span = span
	return nil
}
