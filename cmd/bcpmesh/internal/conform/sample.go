package conform

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
)

// sample is a push that says nothing.
type sample struct {
	id     bcp.SubscriptionID
	answer jsontext.Value
	price  bcp.Bits
}

// samples says what is pushed to the Controller under test: against the
// subscriptions that the flags name, or else the one that costs least.
func (t *runningTest) samples(list []bcp.ActiveSubscription) ([]sample, error) {
	wanted := t.flags.subscriptions
	var samples []sample
	var names []string
	for i := range list {
		s := &list[i]
		if s.Controller != t.tested {
			continue
		}
		names = append(names, string(s.SubscriptionID))
		if len(wanted) > 0 && !slices.Contains(wanted, string(s.SubscriptionID)) {
			continue
		}
		switch answer, price, ok := sampleAnswer(s.Spec); {
		case s.Category == 3:
			t.Out.Talkf("%s is left out: people have to let it through", s.SubscriptionID)
		case s.BatchWindow != "":
			t.Out.Talkf("%s is left out: it is delivered at the end of its window", s.SubscriptionID)
		case !ok:
			t.Out.Talkf("%s is left out: there is no sample for it", s.SubscriptionID)
		default:
			samples = append(samples, sample{s.SubscriptionID, answer, price})
		}
	}
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return nil, cli.Usagef("conformance controller: --subscriptions: %s has no subscription %s", t.tested, cli.Quoted(name)).WithHint("there is %s", cli.JoinOr(names))
		}
	}
	if len(samples) == 0 {
		return nil, cli.Failf("there is nothing to push to %s", t.tested).WithHint("a subscription of category 1 that has no batch_window will do")
	}
	if len(wanted) == 0 {
		slices.SortStableFunc(samples, func(a, b sample) int { return cmp.Compare(a.price, b.price) })
		samples = samples[:1]
	}
	return samples, nil
}

// sampleAnswer returns an answer that matches a spec of category 1 or 2, the least of
// its kind, and what it costs. It has none for word lists, and for limits that its
// texts do not keep.
func sampleAnswer(spec bcp.Spec) (jsontext.Value, bcp.Bits, bool) {
	values := map[string]any{}
	for _, f := range spec.Fields {
		switch f.Type {
		case bcp.TypeEnum:
			values[f.Name] = slices.Concat(f.Values, []string{""})[0]
		case bcp.TypeInteger:
			values[f.Name] = nearZero(f.Min, f.Max)
		default:
			values[f.Name] = false
		}
	}
	for _, q := range spec.Questions {
		values[q.ID] = sampleText(q)
	}
	// Expressions are the gateway's to judge: they change no price.
	spec.Constraints = nil
	v, err := bcp.Compile(spec, bcp.Settings{Subscriptions: 1})
	if err != nil {
		return nil, 0, false
	}
	b, err := json.Marshal(values, json.Deterministic(true))
	if err != nil || v.Validate(b, bcp.JSON).Outcome != bcp.Accept {
		return nil, 0, false
	}
	return b, v.Prices().Nominal, true
}

func sampleText(q bcp.Question) any {
	switch q.ExpectedFormat {
	case bcp.FormatInteger:
		return nearZero(q.Min, q.Max)
	case bcp.FormatBoolean:
		return false
	case bcp.FormatEnum:
		return slices.Concat(q.Values, []string{""})[0]
	case bcp.FormatDate:
		year := 2000
		if q.Min != nil {
			year = int(*q.Min)
		}
		return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	case bcp.FormatTime:
		return "00:00"
	case bcp.FormatEmail:
		return "a@example.com"
	}
	return "test"
}

// nearZero is 0, or the bound next to it.
func nearZero(least, most *int64) int64 {
	switch {
	case least != nil && *least > 0:
		return *least
	case most != nil && *most < 0:
		return *most
	}
	return 0
}
