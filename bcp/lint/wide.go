package lint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Wide is something that a channel lets through without need.
type Wide struct {
	Key   string // of the channel's entry, such as subscriptions[0].questions[1]
	Text  string // what, and how many bits
	Write string // instead
}

// Wide returns what a channel lets through without need: to a Controller that acts on the
// world, times that nobody counts and answers that no proven bound limits; and texts of one
// word. settings are those of its specs.
func (f *Flow) Wide(c *bcp.Channel, settings bcp.Settings) (wide []Wide) {
	acts := f.Legs(c.Controller).Out // a kernel's calls have a gate of their own
	if bits := dayBits(c, settings); len(acts) > 0 && c.MaxCategory > 1 && c.CapacityBudget == 0 && f.tainted(c.Reader) {
		w := Wide{Key: "budget_bits", Text: fmt.Sprintf("%s acts (%s) on what %s says, which can carry %s a day by the proven bound", c.Controller, strings.Join(acts, ", "), c.Reader, bits), Write: "capacity_budget_bits: " + min(4*min(c.Budget, bcp.MaxBits*bcp.Bit), bcp.MaxBits*bcp.Bit).Rounded()}
		if c.ReleaseInterval == 0 {
			w.Text, w.Write = w.Text+", and more by when it says it", "release_interval: 10s, and with it "+w.Write
		}
		wide = append(wide, w)
	}
	for i, s := range c.Subscriptions {
		for j, q := range s.Spec.Questions {
			if max(q.MaxWords, s.Spec.MaxWords) != 1 || q.ExpectedFormat != bcp.FormatShortText || q.MaxChars != 0 {
				continue
			}
			v, err := bcp.Compile(bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: q.ID, Question: q.Question, MaxWords: 1, ExpectedFormat: q.ExpectedFormat, Alphabet: q.Alphabet}}}, settings.OfSubscription(bcp.Subscription{}, 1))
			if err == nil {
				wide = append(wide, Wide{Key: fmt.Sprintf("subscriptions[%d].questions[%d]", i, j), Text: fmt.Sprintf("one word of any letters can carry %s", v.Prices().Capacity.Words()), Write: "expected_format: enum, with values, or vocabulary"})
			}
		}
	}
	return wide
}

func (f *Flow) tainted(name bcp.AgentName) bool {
	i := slices.IndexFunc(f.Agents, func(a AgentFlow) bool { return a.Name == name })
	return i >= 0 && f.Agents[i].Answers > bcp.TaintLow
}

// dayBits is what the nominal budgets of a day let through, as the widest answer carries it:
// that of a subscription, or a word of any letters that is asked for.
func dayBits(c *bcp.Channel, settings bcp.Settings) string {
	if c.WindowBudget == 0 || c.BudgetWindow == 0 {
		return "any number of bits"
	}
	widest := bcp.Bits(1)
	word := bcp.Subscription{Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "q", Question: "q", MaxWords: 1, ExpectedFormat: bcp.FormatShortText}}}}
	for _, s := range append([]bcp.Subscription{word}, c.Subscriptions...) {
		if v, err := bcp.Compile(s.Spec, settings.OfSubscription(s, len(c.Subscriptions)+1)); err == nil {
			widest = max(widest, v.Prices().Capacity/v.Prices().Nominal+1)
		}
	}
	day := int64(c.WindowBudget/bcp.Bit) * int64(24*time.Hour/time.Minute) / max(1, int64(c.BudgetWindow/time.Minute))
	if day > bcp.MaxBits/int64(widest) {
		return "any number of bits"
	}
	return (bcp.Bits(day*int64(widest)) * bcp.Bit).Words()
}
