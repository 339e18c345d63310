package lint

import (
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A Controller that acts hears of a tainted Reader's bits a day, until a proven bound limits
// them; a text of one word is named wherever it is.
//
// covers P4.2, BCP-73
func TestWide(t *testing.T) {
	t.Parallel()
	text := func(words, chars int) bcp.Subscription {
		return bcp.Subscription{ID: "s", Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "q", Question: "What?", MaxWords: words, MaxChars: chars, ExpectedFormat: bcp.FormatShortText, Alphabet: "ascii"}}}}
	}
	const acting, reading = "a low Bash\nr high\na < r 2 100", "a low Read\nr high\na < r 2 100"
	for name, tt := range map[string]struct {
		mesh   string
		change func(*bcp.Channel)
		want   []string
	}{
		"acts":           {acting, func(*bcp.Channel) {}, []string{"a acts (Bash) on what r says, which can carry 37000 bits a day by the proven bound, and more by when it says it; write release_interval: 10s, and with it capacity_budget_bits: 400"}},
		"in slots":       {acting, func(c *bcp.Channel) { c.ReleaseInterval = time.Second }, []string{"a acts (Bash) on what r says, which can carry 37000 bits a day by the proven bound; write capacity_budget_bits: 400"}},
		"no window":      {acting, func(c *bcp.Channel) { c.WindowBudget, c.ReleaseInterval = 0, time.Second }, []string{"a acts (Bash) on what r says, which can carry any number of bits a day by the proven bound; write capacity_budget_bits: 400"}},
		"bounded":        {acting, func(c *bcp.Channel) { c.ReleaseInterval, c.CapacityBudget = time.Second, bcp.Bit }, nil},
		"category 1":     {acting, func(c *bcp.Channel) { c.MaxCategory = 1 }, nil},
		"a clean reader": {"a low Bash\nr low\na < r 2 100", func(*bcp.Channel) {}, nil},
		"only reads":     {reading, func(*bcp.Channel) {}, nil},
		"one word":       {reading, func(c *bcp.Channel) { c.Subscriptions = []bcp.Subscription{text(1, 0)} }, []string{"one word of any letters can carry 133.6 bits; write expected_format: enum, with values, or vocabulary"}},
		"few characters": {reading, func(c *bcp.Channel) { c.Subscriptions = []bcp.Subscription{text(1, 9)} }, nil},
		"two words":      {reading, func(c *bcp.Channel) { c.Subscriptions = []bcp.Subscription{text(2, 0)} }, nil},
	} {
		m := flowMesh(t, tt.mesh)
		c := &m.Channels[0]
		c.WindowBudget, c.BudgetWindow = 10*c.Budget, 24*time.Hour
		tt.change(c)
		var got []string
		for _, w := range FlowOf(m).Wide(c, c.Settings(m, nil, nil)) {
			got = append(got, w.Text+"; write "+w.Write)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
