package state

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Forecasts returns the forecast of every channel, sorted by controller, then
// reader.
func (s *State) Forecasts(now time.Time) []bcp.Forecast {
	all := []bcp.Forecast{}
	for i := range s.mesh.Channels {
		all = append(all, s.forecast(bcp.Moment{Now: now}, s.channels[s.mesh.Channels[i].ChannelKey]))
	}
	return all
}

func (s *State) forecast(m bcp.Moment, ch *channelState) bcp.Forecast {
	c := &ch.definition
	ask, push := s.next(m, bcp.KindAsk), s.next(m, bcp.KindPush)
	ask.Controller, push.Controller = c.Controller, c.Controller
	s.setSession(&ask, m, c.Controller, false)
	return bcp.Forecast{Controller: c.Controller, Reader: c.Reader, Queries: s.roomFor(&ask, ch), Pushes: s.roomFor(&push, ch)}
}

// roomFor is what a charge of this decision finds; it sets the decision's epoch.
func (s *State) roomFor(d *bcp.Decision, ch *channelState) bcp.Room {
	if d.Epoch = ch.decisionEpoch(d); d.Kind == bcp.KindPush {
		d.Epoch, _ = ch.pushEpoch(d.Time)
	}
	r := bcp.Room{Epoch: d.Epoch, Opens: d.Epoch > ch.newest(), Budgets: []bcp.BudgetRoom{}}
	for _, l := range s.limits(d, ch) {
		r.Budgets = append(r.Budgets, bcp.BudgetRoom{Key: l.check.Info().Key, Limit: l.limit, Left: max(0, l.left)})
	}
	return r
}
