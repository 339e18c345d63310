package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
)

// newestOfChannel is how many decisions the page of a channel shows.
const newestOfChannel = 50

func (s *Server) channel(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	for _, c := range f.channels {
		if string(c.key.Controller) == r.PathValue("controller") && string(c.key.Reader) == r.PathValue("reader") {
			s.show(w, r, http.StatusOK, tell.Channel(c.key.Controller, c.key.Reader), f.fault, channelParts(f, c)...)
			return
		}
	}
	s.problem(w, r, "No such channel", "The mesh has no channel of these two names, and none of the newest decisions is of one.", "bcpmesh perms")
}

func channelParts(f *facts, c *channel) []m.Node {
	nominal, capacity := counts(c)
	epoch := "none yet"
	if c.line != nil {
		epoch = strconv.FormatUint(c.line.Epoch, 10)
	}
	parts := []m.Node{factList(fact{"Nominal bits", nominal}, fact{"Capacity bits", capacity}, fact{"Delivered taint", c.taint.String()}, fact{"Epoch", epoch},
		fact{"Accepted", strconv.Itoa(c.verdicts[bcp.Accept])}, fact{"Held", strconv.Itoa(c.verdicts[bcp.Hold])}, fact{"Refused", strconv.Itoa(c.verdicts[bcp.Reject])})}
	if c.forecast == nil {
		parts = append(parts, paragraph("Its remaining budgets are not known now."))
	} else {
		parts = append(parts, section("left", "What is left", budgetTable(c), spending(f.now, c)), section("fits", "What fits now", fitTable(c.forecast), frees(c.forecast)))
	}
	if subscriptions := subscriptionTable(f, c); subscriptions != (m.Node{}) {
		parts = append(parts, section("subscriptions", "Subscriptions", subscriptions))
	}
	return append(parts, section("newest", "Newest decisions", story(f, newest(c.entries, 0, newestOfChannel, anyEntry), "Nothing was decided on it yet.")))
}

// budgetTable shows each limit and what is left of it, for queries and for pushes.
func budgetTable(c *channel) m.Node {
	var rows []m.Node
	for _, part := range []struct {
		name string
		room *bcp.Room
	}{{"queries", &c.forecast.Queries}, {"pushes", &c.forecast.Pushes}} {
		if len(part.room.Fits) == 0 {
			continue
		}
		for _, b := range part.room.Budgets {
			rows = append(rows, row(rowHead(m.El(m.Code, nil, bdi(b.Key))), cell(part.name),
				number((b.Limit-b.Left).Rounded()), number(b.Limit.Rounded()), number(b.Left.Rounded()), m.El(m.Td, nil, gauge(b))))
		}
	}
	return table("Each budget, in bits", []m.Node{column("Budget"), column("Of"), numbers("Used"), numbers("Limit"), numbers("Left"), column("Share used")}, rows)
}

// gauge draws how much of a budget is used.
func gauge(b bcp.BudgetRoom) m.Node {
	const width = 120
	used := width
	if b.Limit > 0 {
		used = int(min(width, max(0, (b.Limit-b.Left)/max(1, b.Limit/width))))
	}
	class := "used"
	if used*10 >= width*8 {
		class = "used nearly"
	}
	return m.El(m.SVG, []m.Attr{m.Class("gauge"), m.ViewBox(width, 12), m.Width.Is(width), m.Height.Is(12), m.Unspoken()},
		m.El(m.Rect, []m.Attr{m.Class("free"), m.X.Is(0), m.Y.Is(1), m.Width.Is(width), m.Height.Is(10), m.Radius.Is(5)}),
		m.El(m.Rect, []m.Attr{m.Class(class), m.X.Is(0), m.Y.Is(1), m.Width.Is(used), m.Height.Is(10), m.Radius.Is(5)}))
}

func fitTable(f *bcp.Forecast) m.Node {
	var rows []m.Node
	for _, room := range []*bcp.Room{&f.Queries, &f.Pushes} {
		for _, fit := range room.Fits {
			what := fit.Form
			if fit.Subscription != "" {
				what = "push to " + string(fit.Subscription)
			}
			until := fit.Until.Info().Key
			if until == "" {
				until = "waiting deliveries"
			}
			rows = append(rows, row(rowHead(bdi(what)), number(strconv.Itoa(int(fit.Category))),
				number(fit.Nominal.Rounded()), number(fit.Capacity.Rounded()), number(strconv.Itoa(fit.Times)), cell(until)))
		}
	}
	return table("Accepted now: this many of each", []m.Node{column("Form"), numbers("Category"), numbers("Nominal bits"), numbers("Capacity bits"), numbers("Fit"), column("Then refused by")}, rows)
}

// frees says when the sliding window returns how much.
func frees(f *bcp.Forecast) m.Node {
	if len(f.Frees) == 0 {
		return m.Node{}
	}
	var lines []m.Node
	for _, part := range f.Frees[:min(10, len(f.Frees))] {
		lines = append(lines, m.El(m.Li, nil, timeElement(part.At), m.Text(" "+part.Bits.Words())))
	}
	return m.El(m.Details, nil, m.El(m.Summary, nil, m.Text("When the window returns bits")), m.El(m.Ul, nil, lines...))
}

func subscriptionTable(f *facts, c *channel) m.Node {
	if f.definition == nil {
		return m.Node{}
	}
	pushes := map[bcp.SubscriptionID]int{}
	for _, e := range c.entries {
		if e.Kind == bcp.KindPush && e.Verdict == bcp.Accept {
			pushes[e.Subscription]++
		}
	}
	var rows []m.Node
	for i := range f.definition.Channels {
		d := &f.definition.Channels[i]
		if d.ChannelKey != c.key {
			continue
		}
		for _, sub := range d.Subscriptions {
			rate := "not limited"
			if sub.MaxRate.Count > 0 {
				rate = sub.MaxRate.String()
			}
			rows = append(rows, row(rowHead(bdi(string(sub.ID))), number(strconv.Itoa(int(sub.Spec.Category))), cell(rate), number(strconv.Itoa(pushes[sub.ID]))))
		}
	}
	if rows == nil {
		return m.Node{}
	}
	return table("What its Reader may push", []m.Node{column("Subscription"), numbers("Category"), column("Rate"), numbers("Accepted")}, rows)
}

// rate returns what was charged to a channel in the last span, and when its budget
// will be spent at that rate.
func rate(now time.Time, c *channel, span time.Duration, left bcp.Bits) (charged bcp.Bits, spent time.Duration) {
	for _, e := range newest(c.entries, 0, len(c.entries), anyEntry) {
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
