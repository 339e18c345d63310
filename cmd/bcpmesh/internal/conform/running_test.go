package conform

import (
	"slices"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/conformance"
)

// What a Reader is asked stays within the channel, and its cost is that of all of
// it; category 2 is asked before category 1, and not as an escalation.
//
// covers P6.1, P4.3
func TestConformancePlan(t *testing.T) {
	t.Parallel()
	price := func(category bcp.Category) bcp.Bits {
		v, err := bcp.Compile(conformance.SpecOf(category), bcp.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		return v.Prices().Nominal
	}
	all := []bcp.Category{1, 2, 3}
	for name, c := range map[string]struct {
		channel    bcp.ChannelView
		categories []bcp.Category
		asked      []bcp.Category
	}{
		"all":                {bcp.ChannelView{MaxCategory: 3}, all, []bcp.Category{2, 1, 3}},
		"up to the channel":  {bcp.ChannelView{MaxCategory: 1}, all, []bcp.Category{1}},
		"as wanted":          {bcp.ChannelView{MaxCategory: 3}, []bcp.Category{2}, []bcp.Category{2}},
		"no escalation":      {bcp.ChannelView{MaxCategory: 2, Costs: []bcp.Cost{{Category: 2, Escalation: true}}}, all, []bcp.Category{1}},
		"summaries escalate": {bcp.ChannelView{MaxCategory: 3, Costs: []bcp.Cost{{Category: 3, Escalation: true}}}, all, []bcp.Category{2, 1, 3}},
	} {
		questions, cost := plan(&c.channel, c.categories)
		var asked []bcp.Category
		var want bcp.Bits
		for _, q := range questions {
			if q.Why == "" {
				asked, want = append(asked, q.Category), want+price(q.Category)
			}
		}
		if !slices.Equal(asked, c.asked) || cost != want || len(questions) != 3 {
			t.Errorf("%s: %v for %d, not %v for %d", name, asked, cost, c.asked, want)
		}
	}
}

// A sample is one that the gateway takes, or there is none.
func TestConformanceSamples(t *testing.T) {
	t.Parallel()
	at := func(n int64) *int64 { return &n }
	question := func(q bcp.Question) bcp.Spec {
		q.ID, q.Question = "q", "What?"
		return bcp.Spec{Category: 2, Questions: []bcp.Question{q}}
	}
	for _, c := range []struct {
		spec bcp.Spec
		want string
	}{
		{bcp.Spec{Category: 1, Fields: []bcp.Field{
			{Name: "a", Type: bcp.TypeBoolean}, {Name: "b", Type: bcp.TypeEnum, Values: []string{"x", "y"}}, {Name: "c", Type: bcp.TypeInteger, Min: at(3), Max: at(9)},
			{Name: "d", Type: bcp.TypeInteger, Min: at(-9), Max: at(-3)}, {Name: "e", Type: bcp.TypeInteger, Min: at(-9), Max: at(9)},
		}}, `{"a":false,"b":"x","c":3,"d":-3,"e":0}`},
		{question(bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 1}), `{"q":"test"}`},
		{question(bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 1, MaxChars: 3}), ""},
		{question(bcp.Question{ExpectedFormat: bcp.FormatPersonName, MaxWords: 3}), `{"q":"test"}`},
		{question(bcp.Question{ExpectedFormat: bcp.FormatDate, MaxWords: 1, Min: at(2030), Max: at(2031)}), `{"q":"2030-01-01"}`},
		{question(bcp.Question{ExpectedFormat: bcp.FormatTime, MaxWords: 1}), `{"q":"00:00"}`},
		{question(bcp.Question{ExpectedFormat: bcp.FormatEmail, MaxWords: 1}), `{"q":"a@example.com"}`},
		{question(bcp.Question{ExpectedFormat: bcp.FormatInteger, MaxWords: 1, Min: at(5), Max: at(6)}), `{"q":5}`},
		{question(bcp.Question{ExpectedFormat: bcp.FormatVocabulary, MaxWords: 1, Vocabulary: "animals"}), ""},
		{bcp.Spec{Category: 1}, ""},
		{bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "b", Type: bcp.TypeEnum}}}, ""},
	} {
		got, price, ok := sampleAnswer(c.spec)
		if string(got) != c.want || ok != (c.want != "") || ok && price <= 0 {
			t.Errorf("%+v: %s for %d, %t, not %s", c.spec, got, price, ok, c.want)
		}
	}
}
