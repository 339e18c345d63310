package tighten_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/tighten"
)

var alphabetWords = []string{"", "any", "ascii", "latin", "cyrillic", "greek"}

// drawWords are some that formats take, some that none does, in several spellings.
func drawText(r *rapid.T, label string) string {
	word := rapid.SampledFrom([]string{"billing", "sales", "Sales", "SUPPORT", "new order", "münchen", "привет", "сору", "ｗｉｄｅ", "x", "12", "-3", "+7", "007", "true", "yes", "14:30", "2026-03-15", "15 March 2026",
		"5 May", "a@b.example", "ab-cd", "a, b", "日本", "K", "e\u0301", "1,000", "σας", "ignore previous instructions"})
	return rapid.Custom(func(r *rapid.T) string {
		return strings.Join(rapid.SliceOfN(word, 1, 3).Draw(r, "words"), " ")
	}).Draw(r, label)
}

func drawBounds(r *rapid.T, least, most int64) (low, high *int64) {
	a, b := rapid.Int64Range(least, most).Draw(r, "a"), rapid.Int64Range(least, most).Draw(r, "b")
	a, b = min(a, b), max(a, b)
	return &a, &b
}

// drawSpec draws what may be a spec.
func drawSpec(r *rapid.T) bcp.Spec {
	spec := bcp.Spec{Category: bcp.Category(rapid.IntRange(1, 2).Draw(r, "category"))}
	values := []string{"billing", "sales", "new order", "support", "x", "12"}
	for i := range rapid.IntRange(1, 3).Draw(r, "items") {
		name := fmt.Sprint("q", i)
		if spec.Category == 1 {
			f := bcp.Field{Name: name, Type: bcp.Type(rapid.IntRange(1, 3).Draw(r, "type"))}
			switch f.Type {
			case bcp.TypeEnum:
				f.Values = values[:rapid.IntRange(1, len(values)).Draw(r, "values")]
			case bcp.TypeInteger:
				f.Min, f.Max = drawBounds(r, -20, 20)
			}
			spec.Fields = append(spec.Fields, f)
			continue
		}
		q := bcp.Question{ID: name, Question: "What?", MaxWords: rapid.IntRange(1, 8).Draw(r, "words"), ExpectedFormat: bcp.Format(rapid.IntRange(1, 10).Draw(r, "format"))}
		switch q.ExpectedFormat {
		case bcp.FormatEnum:
			q.Values, q.MaxWords = values[:rapid.IntRange(1, len(values)).Draw(r, "values")], 2
		case bcp.FormatInteger:
			if rapid.Bool().Draw(r, "bounds") {
				q.Min, q.Max = drawBounds(r, -20, 20)
			}
		case bcp.FormatDate:
			if rapid.Bool().Draw(r, "bounds") {
				q.Min, q.Max = drawBounds(r, 1990, 2040)
			}
		case bcp.FormatVocabulary:
			q.Vocabulary = "list"
		case bcp.FormatEmail:
			q.MaxChars = rapid.SampledFrom([]int{0, 8, 20}).Draw(r, "chars")
		case bcp.FormatPersonName, bcp.FormatShortText, bcp.FormatShortList:
			q.MaxChars, q.Alphabet = rapid.SampledFrom([]int{0, 5, 20}).Draw(r, "chars"), rapid.SampledFrom(alphabetWords).Draw(r, "alphabet")
		}
		spec.Questions = append(spec.Questions, q)
	}
	return spec
}

func drawAnswer(r *rapid.T, spec bcp.Spec) []byte {
	answer := map[string]any{}
	for _, f := range spec.Fields {
		switch f.Type {
		case bcp.TypeBoolean:
			answer[f.Name] = rapid.Bool().Draw(r, f.Name)
		case bcp.TypeInteger:
			answer[f.Name] = rapid.Int64Range(-25, 25).Draw(r, f.Name)
		default:
			answer[f.Name] = rapid.SampledFrom([]string{"billing", "sales", "new order", "support", "x", "12", "\u212a", "Sales"}).Draw(r, f.Name)
		}
	}
	for _, q := range spec.Questions {
		answer[q.ID] = drawText(r, q.ID)
	}
	raw := must(json.Marshal(answer, json.Deterministic(true)))
	return raw
}

func drawChannel(r *rapid.T) (bcp.Channel, bcp.Settings) {
	c := bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: "c", Reader: "r"}, MaxCategory: 3, BaseCategory: 1, Budget: 1000 * bcp.Bit, PushBudget: 1000 * bcp.Bit, MaxCat2Queries: -1,
		PreserveCase: rapid.Bool().Draw(r, "case"), OnAnomaly: bcp.OnAnomaly(rapid.IntRange(0, 3).Draw(r, "on anomaly"))}
	if rapid.Bool().Draw(r, "slots") {
		c.ReleaseInterval, c.QueryTTL = time.Second, time.Minute
	}
	settings := c.Settings(&bcp.Mesh{Vocabularies: map[string][]string{"list": {"a", "b", "billing", "sales", "x"}}}, constraint.Compile)
	c.Subscriptions = []bcp.Subscription{{ID: "s", Spec: drawSpec(r)}}
	return c, settings
}

// narrower fails where an answer that a proposal accepts is not accepted before, or is
// another one.
func narrower(r *rapid.T, before, after bcp.Channel, settings bcp.Settings, answers [][]byte) {
	was := must(bcp.Compile(before.Subscriptions[0].Spec, settings.OfSubscription(before.Subscriptions[0], 1)))
	would := must(bcp.Compile(after.Subscriptions[0].Spec, settings.OfSubscription(after.Subscriptions[0], 1)))
	if would.Prices().Capacity > was.Prices().Capacity || would.Prices().Nominal > was.Prices().Nominal {
		r.Fatalf("it costs more: %+v, was %+v", would.Prices(), was.Prices())
	}
	before.MaxCategory, before.Budget, before.CapacityBudget = min(before.MaxCategory, after.MaxCategory), min(before.Budget, after.Budget), after.CapacityBudget
	before.Subscriptions = after.Subscriptions
	if diff := cmp.Diff(before, after); diff != "" {
		r.Fatalf("something else would change: %s", diff)
	}
	for _, answer := range answers {
		a, b := was.Validate(answer, bcp.JSON), would.Validate(answer, bcp.JSON)
		if b.Outcome != bcp.Reject && (a.Outcome != b.Outcome || !bytes.Equal(a.Answer.JSON(), b.Answer.JSON())) {
			r.Fatalf("%s\nis %v %s by %+v\nand was %v %s %v by %+v", answer, b.Outcome, b.Answer.JSON(), would.Spec(), a.Outcome, a.Answer.JSON(), a.Anomalies, was.Spec())
		}
	}
}

// A proposal only narrows, whatever the history is: what it accepts was accepted, with the
// same canonical bytes.
//
// covers P3.4, P4.1
func TestProposalsOnlyNarrow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		c, settings := drawChannel(r)
		v, err := bcp.Compile(c.Subscriptions[0].Spec, settings.OfSubscription(c.Subscriptions[0], 1))
		if err != nil {
			return
		}
		h := &tighten.History{Epochs: map[uint64]tighten.Use{1: {}}}
		answers := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) []byte { return drawAnswer(r, v.Spec()) }), 1, 12).Draw(r, "answers")
		for i := range 240 {
			if verdict := v.Validate(answers[i%len(answers)], bcp.JSON); verdict.Outcome == bcp.Accept {
				h.Messages = append(h.Messages, tighten.Message{Time: int64(i) * 1e12, Subscription: "s", Epoch: 1, Answer: verdict.Answer.JSON()})
			}
		}
		p := tighten.Propose(c, settings, h)
		p.Rates()
		p.Decided(make([]tighten.Decision, len(h.Messages)))
		if len(h.Messages) < tighten.MinMessages && len(p.Changes) > 0 {
			r.Fatalf("%d messages give %+v", len(h.Messages), p.Changes)
		}
		more := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) []byte { return drawAnswer(r, v.Spec()) }), 0, 12).Draw(r, "more")
		narrower(r, c, p.Channel, settings, append(answers, more...))
	})
}

// Lines come of 50 messages, and of 49 none; what cannot be written is advice.
//
// covers P4.1
func TestProposalOfFewMessages(t *testing.T) {
	t.Parallel()
	spec := bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "day", Question: "When?", MaxWords: 9, ExpectedFormat: bcp.FormatShortText}, {ID: "kind", Question: "What?", MaxWords: 9, ExpectedFormat: bcp.FormatShortText},
		{ID: "again", Question: "What?", MaxWords: 9, ExpectedFormat: bcp.FormatShortText}, {ID: "same", Question: "Is it?", MaxWords: 1, ExpectedFormat: bcp.FormatBoolean}}}
	c := bcp.Channel{MaxCategory: 3, BaseCategory: 2, Budget: 1e6 * bcp.Bit, PushBudget: 1e6 * bcp.Bit, Subscriptions: []bcp.Subscription{{ID: "s", Spec: spec}}}
	settings := bcp.Settings{}
	h := &tighten.History{Epochs: map[uint64]tighten.Use{1: {Nominal: 1e5 * bcp.Bit}}, Pushes: map[bcp.SubscriptionID][]int64{}}
	for i := range tighten.MinMessages {
		p := tighten.Propose(c, settings, h)
		if p.Rates(); len(p.Changes) > 0 || len(p.Advice) != 1 || !strings.Contains(p.Advice[0], "of at least 50 messages") {
			t.Fatalf("%d messages: %+v", i, p)
		}
		kind := []string{"billing", "sales"}[i%2]
		h.Pushes["s"] = append(h.Pushes["s"], int64(i)*int64(4*time.Hour))
		h.Messages = append(h.Messages, tighten.Message{Time: int64(i) * int64(4*time.Hour), Subscription: "s", Epoch: 1, Answer: fmt.Appendf(nil, `{"day":"%d may 2026","kind":%q,"again":%q,"same":"true"}`, 1+i%28, kind, kind)})
	}
	p := tighten.Propose(c, settings, h)
	p.Rates()
	p.Decided(make([]tighten.Decision, len(h.Messages)))
	lines := fmt.Sprintf("%+v", p.Changes)
	for _, want := range []string{"max_chars: 13, alphabet: ascii", "max_category: 2", "max_rate: 8/d", "budget_bits: "} {
		failIf(t, !strings.Contains(lines, want), "no %q in %s", want, lines)
	}
	if advice := strings.Join(p.Advice, "\n"); !strings.Contains(advice, "capacity_budget_bits needs a release_interval") {
		t.Errorf("advice %q", advice)
	}
}

// Of a hundredth of the messages all that saves something is left out, once that saves a tenth.
func TestTailIsLeftOut(t *testing.T) {
	t.Parallel()
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "n", Type: bcp.TypeInteger, Min: new(int64(0)), Max: new(int64(1 << 40))}}}
	h := &tighten.History{Epochs: map[uint64]tighten.Use{1: {}}}
	for i := range 1000 {
		n := i % 2 * 1023
		if i%250 == 3 {
			n = 1100
		} else if i%500 == 7 {
			n = 1 << 20
		}
		h.Messages = append(h.Messages, tighten.Message{Time: int64(i) * 1e12, Subscription: "s", Epoch: 1, Answer: fmt.Appendf(nil, `{"n":%d}`, n)})
	}
	p := tighten.Propose(bcp.Channel{Subscriptions: []bcp.Subscription{{ID: "s", Spec: spec}}}, bcp.Settings{}, h)
	if most := *p.Channel.Subscriptions[0].Spec.Fields[0].Max; most >= 1200 { // 1023 with an eighth more, not 1100
		t.Errorf("at most %d: %+v", most, p.Changes)
	}
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

var failIf = bcptest.FailIf
