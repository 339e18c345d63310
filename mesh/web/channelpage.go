package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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
	epoch := "none yet"
	if c.line != nil {
		epoch = strconv.FormatUint(c.line.Epoch, 10)
	}
	of := channelData{Forecast: c.forecast, Subscriptions: f.subscriptions(c), Rates: rates(f.now, c)}
	if c.forecast != nil {
		of.Budgets, of.Fits = budgets(c.forecast), slices.Concat(c.forecast.Queries.Fits, c.forecast.Pushes.Fits)
	}
	s.show(w, r, http.StatusOK, "channel", page{facts: f, Title: c.Name(), Of: of, Story: events(newest(c.entries, 0, newestOfChannel, anyEntry)), Nothing: "Nothing was decided on it yet.",
		Facts: append([]fact{{Name: "Nominal bits", Value: c.Nominal()}, {Name: "Capacity bits", Value: c.Capacity()}, {Name: "Delivered taint", Value: c.Taint.String()}, {Name: "Epoch", Value: epoch},
			{Name: "Accepted", Value: strconv.Itoa(c.Accepted())}, {Name: "Held", Value: strconv.Itoa(c.Held())}, {Name: "Refused", Value: strconv.Itoa(c.Refused())}}, f.effort(c)...)})
}

// effort is what deciding about what is held on a channel has cost people, of late.
func (f *facts) effort(c *channel) (list []fact) {
	people := status.NewPeople()
	for _, e := range c.entries {
		people.Add(&e.Decision)
	}
	for _, h := range people.Held(f.definition, c.key) {
		if decided := h.Approved + h.Edited + h.Rejected; h.Rule == "" && decided > 0 {
			list = append(list, fact{Name: "Decided by people", Value: strconv.Itoa(decided) + ", after " + tell.Span(int64(h.Seconds)) + " on average"})
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
	Forecast      *bcp.Forecast // nil if it is not known
	Budgets       []budget
	Fits          []bcp.Fit
	Subscriptions []subscription
	Rates         []spending
}

// budget is one limit, for queries or for pushes, and what is left of it.
type budget struct {
	Key, Of           string
	Used, Limit, Left bcp.Bits
	Share             int // used, of a gauge's width
}

const gaugeWidth = 120

func budgets(f *bcp.Forecast) (list []budget) {
	for _, part := range []struct {
		of   string
		room *bcp.Room
	}{{"queries", &f.Queries}, {"pushes", &f.Pushes}} {
		if len(part.room.Fits) == 0 {
			continue
		}
		for _, b := range part.room.Budgets {
			share := gaugeWidth
			if b.Limit > 0 {
				share = int(min(gaugeWidth, max(0, (b.Limit-b.Left)/max(1, b.Limit/gaugeWidth))))
			}
			list = append(list, budget{b.Key, part.of, b.Limit - b.Left, b.Limit, b.Left, share})
		}
	}
	return list
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
	for _, d := range f.declared() {
		if d.ChannelKey != c.key {
			continue
		}
		for _, sub := range d.Subscriptions {
			rate := "not limited"
			if sub.MaxRate.Count > 0 {
				rate = sub.MaxRate.String()
			}
			list = append(list, subscription{sub.ID, sub.Spec.Category, rate, pushes[sub.ID]})
		}
	}
	return list
}

// spending is what a channel is charged at a rate, and when its budget is spent so.
type spending struct {
	Name    string
	Charged bcp.Bits
	End     string
}

// rates are those of the last hour and day; none if the budget is not known.
func rates(now time.Time, c *channel) (list []spending) {
	budget, ok := c.budget(bcp.CheckBudget)
	if !ok {
		return nil
	}
	for _, last := range []struct {
		name string
		span time.Duration
	}{{"hour", time.Hour}, {"day", 24 * time.Hour}} {
		charged, spent := rate(now, c, last.span, budget.Left)
		one := spending{last.name, charged, "not at this rate"}
		if charged >= bcp.Bit {
			one.End = "in about " + tell.Within(spent)
		}
		list = append(list, one)
	}
	return list
}

// rate returns what was charged to a channel in the last span, and when its budget
// will be spent at that rate.
func rate(now time.Time, c *channel, span time.Duration, left bcp.Bits) (charged bcp.Bits, spent time.Duration) {
	for _, e := range slices.Backward(c.entries) {
		if now.Sub(e.At()) > span {
			break
		}
		if _, ok := e.Line(); ok && e.Kind != bcp.KindAsk && !e.Prepaid {
			charged += e.Nominal
		}
	}
	if perSpan := charged / bcp.Bit; perSpan > 0 {
		spent = time.Duration(left/bcp.Bit) * (span / time.Duration(perSpan))
	}
	return charged, spent
}

// Name and Path are how pages call a channel, and where its own is.
func (c *channel) Name() string { return tell.Channel(c.key.Controller, c.key.Reader) }

func (c *channel) Path() string { return channelPath(c.key) }

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
