package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// newestOfChannel is how many decisions the page of a channel shows.
const newestOfChannel = 50

func (s *Server) channel(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	i := slices.IndexFunc(f.channels, func(c *channel) bool {
		return string(c.key.Controller) == r.PathValue("controller") && string(c.key.Reader) == r.PathValue("reader")
	})
	if i < 0 {
		s.problem(w, r, "No such channel", "The mesh has no channel of these two names, and none of the newest decisions is of one.", "bcpmesh perms")
		return
	}
	c := f.channels[i]
	of := channelData{channel: c, Subscriptions: f.subscriptions(c)}
	of.Pushes = f.definition == nil || len(of.Subscriptions) > 0
	s.show(w, r, http.StatusOK, "channel", page{facts: f, Title: c.Name(), Of: of, Facts: f.effort(c),
		Story: events(newest(c.entries, 0, newestOfChannel, anyEntry)), Nothing: "Nothing was decided on it yet."})
}

// effort is what deciding about what is held on a channel has cost people, of late.
func (f *facts) effort(c *channel) (list []fact) {
	people := status.NewPeople()
	for _, e := range c.entries {
		people.Add(&e.Decision)
	}
	for _, h := range people.Held(f.definition, c.key) {
		if h.Rule == "" && h.Decided > 0 {
			list = append(list, fact{Name: "Decided by people", Value: strconv.Itoa(h.Decided) + ", after " + tell.Span(int64(h.Seconds)) + " on average"})
		}
		if h.Signs > 0 {
			list = append(list, fact{Name: strings.TrimSpace("False holds " + h.Rule), Value: strconv.Itoa(100*h.False/h.Signs) + " % of " + strconv.Itoa(h.Signs)})
		}
		if h.Advice != "" {
			list = append(list, fact{Name: "Too many: change", Value: h.Advice})
		}
	}
	return list
}

// channelData is what only the page of a channel has.
type channelData struct {
	*channel
	Pushes        bool // its Reader may push
	Subscriptions []subscription
}

// budget is one limit, for queries or for pushes, and what is left of it.
type budget struct {
	Of string
	bcp.BudgetRoom
}

// Used is what is not left of it, and Share how much of a gauge's width that is.
func (b budget) Used() bcp.Bits { return b.Limit - b.Left }

func (b budget) Share() int {
	const gaugeWidth = 120
	if b.Limit <= 0 {
		return gaugeWidth
	}
	return int(min(gaugeWidth, max(0, b.Used()/max(1, b.Limit/gaugeWidth))))
}

// subscription is what a Reader may push.
type subscription struct {
	ID       bcp.SubscriptionID
	Category bcp.Category
	Rate     string
	Accepted int
}

func (f *facts) subscriptions(c *channel) (list []subscription) {
	pushes := map[bcp.SubscriptionID]int{}
	for _, e := range c.entries {
		if e.Kind == bcp.KindPush && e.Verdict == bcp.Accept {
			pushes[e.Subscription]++
		}
	}
	if f.definition == nil {
		return nil
	}
	declared, _ := f.definition.Channel(c.key)
	for _, sub := range declared.Subscriptions {
		rate := "not limited"
		if sub.MaxRate.Count > 0 {
			rate = sub.MaxRate.String()
		}
		list = append(list, subscription{sub.ID, sub.Spec.Category, rate, pushes[sub.ID]})
	}
	return list
}

// Name and Path are how pages call a channel, and where its own is.
func (c *channel) Name() string { return tell.Channel(c.key.Controller, c.key.Reader) }

func (c *channel) Path() string {
	return "/channels/" + url.PathEscape(string(c.key.Controller)) + "/" + url.PathEscape(string(c.key.Reader))
}

// Accepted, Held and Refused count verdicts.
func (c *channel) Accepted() int { return c.verdicts[bcp.Accept] }

func (c *channel) Held() int { return c.verdicts[bcp.Hold] }

func (c *channel) Refused() int { return c.verdicts[bcp.Reject] }

// Nominal and Capacity describe the use of the two limits in the newest epoch, including reserved bits.
func (c *channel) Nominal() string { return c.use(bcp.CheckBudget, c.balance().Spent()) }

func (c *channel) Capacity() string {
	return c.use(bcp.CheckCapacityBudget, c.balance().SpentCapacity())
}

// use describes the use of a budget, which may not be declared.
func (c *channel) use(check bcp.Check, used bcp.Bits) string {
	b, ok := c.budget(check)
	if !ok {
		return used.Rounded()
	}
	return (b.Limit - b.Left).Rounded() + " of " + b.Limit.Rounded()
}
