package tighten

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Narrows returns nil if the second channel lets nothing through that the first one, which
// has these settings, does not: each subscription is the same or narrower, and each limit
// is. It is what every proposal is held to.
func Narrows(before, after bcp.Channel, settings bcp.Settings) error {
	if len(before.Subscriptions) != len(after.Subscriptions) {
		return fmt.Errorf("there are other subscriptions")
	}
	for i, was := range before.Subscriptions {
		if err := narrows(was, after.Subscriptions[i], settings); err != nil {
			return fmt.Errorf("subscription %s: %w", was.ID, err)
		}
	}
	for _, limit := range []struct {
		key        string
		was, would int64
	}{
		{"max_category", int64(before.MaxCategory), int64(after.MaxCategory)},
		{"budget_bits", int64(before.Budget), int64(after.Budget)},
		{"push_budget_bits", int64(before.PushBudget), int64(after.PushBudget)},
		{"window_budget_bits", int64(cmp.Or(before.WindowBudget, anything)), int64(cmp.Or(after.WindowBudget, anything))},
		{"capacity_budget_bits", int64(cmp.Or(before.CapacityBudget, anything)), int64(cmp.Or(after.CapacityBudget, anything))},
	} {
		if limit.would > limit.was {
			return fmt.Errorf("%s would be greater", limit.key)
		}
	}
	rest := before
	rest.Subscriptions, rest.MaxCategory, rest.Budget, rest.PushBudget, rest.WindowBudget = after.Subscriptions, after.MaxCategory, after.Budget, after.PushBudget, after.WindowBudget
	rest.CapacityBudget, rest.AlertBits, rest.BaseCategory = after.CapacityBudget, after.AlertBits, min(before.BaseCategory, after.MaxCategory)
	if !reflect.DeepEqual(rest, after) {
		return fmt.Errorf("something else would change")
	}
	return nil
}

func narrows(was, would bcp.Subscription, settings bcp.Settings) error {
	if was.ID != would.ID || was.PublishWhen != would.PublishWhen || was.BatchWindow != would.BatchWindow {
		return fmt.Errorf("it is another one")
	}
	if was.MaxRate.Count != 0 && (would.MaxRate.Span != was.MaxRate.Span || would.MaxRate.Count == 0 || would.MaxRate.Count > was.MaxRate.Count) {
		return fmt.Errorf("max_rate would be greater")
	}
	v, err := bcp.Compile(was.Spec, settings.OfSubscription(was, 1))
	if err != nil {
		return err
	}
	w, err := bcp.Compile(would.Spec, settings.OfSubscription(would, 1))
	if err != nil {
		return err
	}
	a, b := v.Spec(), w.Spec()
	if a.Category != b.Category || len(a.Fields) != len(b.Fields) || len(a.Questions) != len(b.Questions) || a.Directive != b.Directive || !slices.Equal(a.Constraints, b.Constraints) || b.MaxWords > a.MaxWords {
		return fmt.Errorf("it asks for something else")
	}
	for i, f := range a.Fields {
		g := b.Fields[i]
		if f.Name != g.Name || f.Type != g.Type || !subset(g.Values, f.Values) || f.Min != nil && (*g.Min < *f.Min || *g.Max > *f.Max) {
			return fmt.Errorf("field %s would be wider", f.Name)
		}
	}
	for i, q := range a.Questions {
		if !narrowsQuestion(q, b.Questions[i]) {
			return fmt.Errorf("question %s would be wider", q.ID)
		}
	}
	return nil
}

// subset reports whether values, in the same order, are some of others.
func subset(values, of []string) bool {
	for _, value := range values {
		i := slices.Index(of, value)
		if i < 0 {
			return false
		}
		of = of[i+1:]
	}
	return true
}

func narrowsQuestion(q, r bcp.Question) bool {
	if q.ID != r.ID || q.Question != r.Question || q.SameAs != r.SameAs || q.Vocabulary != r.Vocabulary || q.ExpectedFormat != r.ExpectedFormat || r.MaxWords > q.MaxWords {
		return false
	}
	low, high := span(&q, q.ExpectedFormat) // a stated bound may be beyond the default
	least, most := span(&r, r.ExpectedFormat)
	was, known := alphabets[q.Alphabet]
	would, also := alphabets[r.Alphabet]
	return subset(r.Values, q.Values) && least >= low && most <= high &&
		(q.MaxChars == 0 || r.MaxChars != 0 && r.MaxChars <= q.MaxChars) && (q.Alphabet == r.Alphabet || known && also && would < was)
}
