package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/lint"
)

// adviceOf returns code, key and what to write for each advice on a spec.
func adviceOf(t *testing.T, spec bcp.Spec, settings bcp.Settings) []string {
	t.Helper()
	v, err := bcp.Compile(spec, settings)
	if err != nil {
		t.Fatalf("%+v: %v", spec, err)
	}
	var lines []string
	for _, a := range lint.Advise(v) {
		lines = append(lines, a.Code+" "+a.Key+": "+a.Write)
	}
	return lines
}

func asked(question string, format bcp.Format, words int) bcp.Spec {
	return bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "q", Question: question, MaxWords: words, ExpectedFormat: format}}}
}

var departments = bcp.Settings{Subscriptions: 1, Vocabularies: map[string][]string{"departments": {"billing", "legal", "sales", "support"}}}

// Whatever the table of needs shows is what advice leads to: a question that
// puts a need in free text is led to the category and the format of its row,
// and the row itself needs no advice.
//
// covers BCP-40, BCP-54, BCP-65, BCP-67, BCP-73, BCP-74, BCP-75, BCP-76
func TestEachNeedIsLedToItsLowestCategory(t *testing.T) {
	t.Parallel()
	categories := map[bcp.Category]int{}
	for _, n := range lint.Needs() {
		categories[n.Spec.Category]++
		if lines := adviceOf(t, n.Spec, departments); len(lines) > 0 {
			t.Errorf("%s: the table itself could do with less: %q", n.Name, lines)
		}
		if n.Prices.Nominal <= 0 || n.Prices.Capacity <= 0 || n.Write == "" {
			t.Errorf("%s: %+v", n.Name, n)
		}
		if n.Name == "a few words" || n.Name == "a few items" || n.Spec.Category == 3 {
			continue // what is left when nothing narrower was recognised
		}
		for _, spec := range []bcp.Spec{
			asked(n.Example, bcp.FormatShortText, 8),
			{Category: 3, Directive: n.Example, MaxWords: 50},
		} {
			v, err := bcp.Compile(spec, departments)
			if err != nil {
				t.Fatal(err)
			}
			advice := lint.Advise(v)
			if len(advice) != 1 {
				t.Errorf("%s in category %d: %d pieces of advice", n.Name, spec.Category, len(advice))
				continue
			}
			got := *advice[0].Rewrite
			same := got.Category == n.Spec.Category
			switch {
			case !same:
			case got.Category == 1:
				same = got.Fields[0].Type == n.Spec.Fields[0].Type && cmp.Equal(got.Fields[0].Values, n.Spec.Fields[0].Values)
			default:
				same = got.Questions[0].ExpectedFormat == n.Spec.Questions[0].ExpectedFormat
			}
			if !same {
				t.Errorf("%s in category %d: %s", n.Name, spec.Category, advice[0].Write)
			}
		}
	}
	if categories[1] == 0 || categories[2] == 0 || categories[3] == 0 {
		t.Errorf("needs of each category: %v", categories)
	}
}

// What is wider than it needs to be is named, with what to write instead.
//
// covers BCP-40, BCP-54, BCP-73, BCP-74, BCP-75
func TestAdviceOnQuestions(t *testing.T) {
	t.Parallel()
	const any, name = bcp.FormatShortText, bcp.FormatPersonName
	for question, want := range map[string]string{
		"Is it urgent?":                                            "advice_category_1 : category: 1, fields: [{name: q, type: boolean}]",
		"Does the mail mention an invoice?":                        "advice_category_1 : category: 1, fields: [{name: q, type: boolean}]",
		"The sender is known: true or false?":                      "advice_category_1 : category: 1, fields: [{name: q, type: boolean}]",
		"Is it paid or not?":                                       "advice_category_1 : category: 1, fields: [{name: q, type: boolean}]",
		"Whether a reply is wanted":                                "advice_category_1 : category: 1, fields: [{name: q, type: boolean}]",
		"On a scale of 1 to 5, how relevant is it?":                "advice_category_1 : category: 1, fields: [{name: q, type: integer, min: 1, max: 5}]",
		"How relevant is this? (1-10)":                             "advice_category_1 : category: 1, fields: [{name: q, type: integer, min: 1, max: 10}]",
		"Rate the tone between 0 and 100.":                         "advice_category_1 : category: 1, fields: [{name: q, type: integer, min: 0, max: 100}]",
		"Which of these is it: a complaint, an order or praise?":   "advice_category_1 : category: 1, fields: [{name: q, type: enum, values: [complaint, order, praise]}]",
		"What is the priority (low, medium or high)?":              "advice_category_1 : category: 1, fields: [{name: q, type: enum, values: [low, medium, high]}]",
		"Which priority: low, medium, very high?":                  `advice_category_1 : category: 1, fields: [{name: q, type: enum, values: [low, medium, "very high"]}]`,
		"Is it settled: yes, no or both?":                          "", // not only yes or no, and "both" may be more than one
		"How many people attend?":                                  "advice_category_1 : category: 1, fields: [{name: q, type: integer, min: 0, max: 1000}]",
		"What date is the meeting scheduled for?":                  `advice_format questions[0]: {id: q, question: "What date is the meeting scheduled for?", max_words: 4, expected_format: date}`,
		"What is the due date?":                                    `advice_format questions[0]: {id: q, question: "What is the due date?", max_words: 4, expected_format: date}`,
		"Date of the meeting":                                      `advice_format questions[0]: {id: q, question: "Date of the meeting", max_words: 4, expected_format: date}`,
		"By when must it be paid?":                                 `advice_format questions[0]: {id: q, question: "By when must it be paid?", max_words: 4, expected_format: date}`,
		"At what time?":                                            `advice_format questions[0]: {id: q, question: "At what time?", max_words: 1, expected_format: time}`,
		"What is the sender’s e-mail address?":                     `advice_format questions[0]: {id: q, question: "What is the sender’s e-mail address?", max_words: 1, expected_format: email}`,
		"What is the sender's full name?":                          `advice_format questions[0]: {id: q, question: "What is the sender's full name?", max_words: 12, expected_format: person_name}`,
		"What is the name of the author?":                          `advice_format questions[0]: {id: q, question: "What is the name of the author?", max_words: 12, expected_format: person_name}`,
		"Which department is it for?":                              `advice_format questions[0]: {id: q, question: "Which department is it for?", max_words: 12, expected_format: vocabulary, vocabulary: departments}`,
		"What is the topic?":                                       "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"Worüber beschwert sich der Kunde?":                        "advice_alphabet questions[0].alphabet: alphabet: latin",
		"О чём письмо?":                                            "", // no narrower alphabet, and nobody knows a length
		"What are the three action items?":                         "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"Is there a deadline, and when?":                           "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"Can you name the product?":                                "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"Is the claim true? Explain.":                              "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"Is it a request or an invoice?":                           "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"What is the topic (in English, please)?":                  "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"What is it about (e.g. billing, legal or sales)?":         "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"Which departments (billing, legal, sales) are mentioned?": "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"What is the date (day, month, year)?":                     "advice_format questions[0]: ",
		"What is the date and place of the meeting?":               "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"What is the date format?":                                 "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"What is the topic of the email?":                          "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"What is the email about?":                                 "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"What is the name of the product?":                         "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"What is the lead time?":                                   "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"What rate from 1 to 5 percent applies?":                   "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"How did sales develop from 19 to 24?":                     "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"What happened between 1 and 5?":                           "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"Who sent it and why?":                                     "advice_alphabet questions[0].alphabet: alphabet: ascii",
		"Which day of the week is it?":                             "advice_alphabet questions[0].alphabet: alphabet: ascii",
	} {
		var lines []string
		if want == "advice_format questions[0]: " || want == "" {
			want = strings.TrimSuffix(want, "advice_format questions[0]: ")
			lines = slicesWithout(adviceOf(t, asked(question, any, 12), departments), "advice_alphabet")
		} else {
			lines = adviceOf(t, asked(question, any, 12), departments)
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%s\n got %s\nwant %s", question, got, want)
		}
	}
	for _, tt := range []struct {
		spec bcp.Spec
		want []string
	}{
		{asked("When?", bcp.FormatDate, 5), []string{"advice_max_words questions[0].max_words: max_words: 4"}},
		{asked("When?", bcp.FormatDate, 4), nil},
		{asked("When?", bcp.FormatTime, 2), []string{"advice_max_words questions[0].max_words: max_words: 1"}},
		{asked("Which?", bcp.FormatEmail, 2), []string{"advice_max_words questions[0].max_words: max_words: 1"}},
		{asked("Relevance score", bcp.FormatInteger, 2), []string{"advice_max_words questions[0].max_words: max_words: 1"}},
		{asked("Relevance score", bcp.FormatInteger, 1), nil}, // of what range, only its author knows
		{asked("It?", bcp.FormatBoolean, 1), []string{"advice_category_1 : category: 1, fields: [{name: q, type: boolean}]"}},
		{asked("Who?", name, 3), []string{"advice_max_chars questions[0].max_chars: max_chars: 40"}},
		{asked("Who?", name, 10), []string{"advice_max_chars questions[0].max_chars: max_chars: 80"}},
	} {
		if diff := cmp.Diff(tt.want, adviceOf(t, tt.spec, bcp.Settings{Subscriptions: 1})); diff != "" {
			t.Errorf("%+v: %s", tt.spec.Questions[0], diff)
		}
	}
}

func slicesWithout(lines []string, prefix string) []string {
	var rest []string
	for _, line := range lines {
		if !strings.HasPrefix(line, prefix) {
			rest = append(rest, line)
		}
	}
	return rest
}

// A question of few known answers beside free text stays where it is, and what
// is explicit is meant.
//
// covers BCP-54, BCP-75
func TestNoAdviceWhereNothingIsCertain(t *testing.T) {
	t.Parallel()
	one, five := int64(1), int64(5)
	topic := bcp.Question{ID: "topic", Question: "What is the topic?", MaxWords: 10, ExpectedFormat: bcp.FormatShortText, Alphabet: "ascii"}
	score := bcp.Question{ID: "score", Question: "How relevant is it, from 1 to 5?", MaxWords: 1, ExpectedFormat: bcp.FormatInteger, Min: &one, Max: &five}
	again := bcp.Question{ID: "again", Question: "Once more, how relevant?", MaxWords: 1, ExpectedFormat: bcp.FormatInteger, Min: &one, Max: &five, SameAs: "score"}
	explicit := bcp.Question{ID: "topic", Question: "What is the topic?", MaxWords: 10, ExpectedFormat: bcp.FormatShortText, Alphabet: "any"}
	for name, spec := range map[string]bcp.Spec{
		"mixed":     {Category: 2, Questions: []bcp.Question{topic, score}},
		"redundant": {Category: 2, Questions: []bcp.Question{score, again}}, // a field has no same_as
		"explicit":  {Category: 2, Questions: []bcp.Question{explicit}},
		"fields":    {Category: 1, Fields: []bcp.Field{{Name: "n", Type: bcp.TypeInteger, Min: &one, Max: &five}}},
		"wide":      asked("Number", bcp.FormatInteger, 1), // 2 x 10^9 numbers cost more in category 1
		"open":      {Category: 3, Directive: "Summarize the key findings of this document.", MaxWords: 100},
		"complaint": {Category: 3, Directive: "Summarise the complaints of the day, from people who are angry when they write.", MaxWords: 100},
		"why":       {Category: 3, Directive: "Say who left, when, and why.", MaxWords: 100},
		"one fact":  {Category: 3, Directive: "Summarise the dispute over the price.", MaxWords: 100},
		"topics":    {Category: 3, Directive: "Summarise the news about the price of oil and the deadline debate.", MaxWords: 100},
		"people":    {Category: 3, Directive: "Summarise the dispute between the sender and the author.", MaxWords: 100},
		"too short": {Category: 3, Directive: "Say who asks for a meeting and when.", MaxWords: 5}, // the questions would cost more
	} {
		if lines := adviceOf(t, spec, bcp.Settings{Subscriptions: 1}); len(lines) > 0 {
			t.Errorf("%s: %q", name, lines)
		}
	}
	unbounded := score
	unbounded.Min, unbounded.Max = nil, nil
	want := []string{`advice_bounds questions[1]: {id: score, question: "How relevant is it, from 1 to 5?", max_words: 1, expected_format: integer, min: 1, max: 5}`}
	if diff := cmp.Diff(want, adviceOf(t, bcp.Spec{Category: 2, Questions: []bcp.Question{topic, unbounded}}, bcp.Settings{Subscriptions: 1})); diff != "" {
		t.Error(diff)
	}
}

// A summary of specific facts is led to questions.
//
// covers BCP-54, BCP-65, BCP-76
func TestAdviceOnDirectives(t *testing.T) {
	t.Parallel()
	for directive, want := range map[string]string{
		"Say who asks for a meeting and when.": `category: 2, questions: [` +
			`{id: date, question: "On which date?", max_words: 4, expected_format: date}, ` +
			`{id: who, question: "Who is it?", max_words: 5, expected_format: person_name, max_chars: 40}]`,
		"Extract the amount, the due date and the email address of the invoice.": `category: 2, questions: [` +
			`{id: amount, question: "How much, as a whole number?", max_words: 1, expected_format: integer}, ` +
			`{id: date, question: "On which date?", max_words: 4, expected_format: date}, ` +
			`{id: address, question: "What is the e-mail address?", max_words: 1, expected_format: email}]`,
	} {
		got := adviceOf(t, bcp.Spec{Category: 3, Directive: directive, MaxWords: 60}, bcp.Settings{Subscriptions: 1})
		if diff := cmp.Diff([]string{"advice_category_2 : " + want}, got); diff != "" {
			t.Errorf("%s: %s", directive, diff)
		}
	}
	for _, n := range lint.Needs() { // the facts of a directive are needs of the table
		if n.Spec.Category == 3 && !strings.Contains(n.Example, "ummarise") {
			t.Errorf("%s", n.Example)
		}
	}
}

// wordings are questions and directives with and without something to
// recognise.
var wordings = []string{
	"What?", "Is it urgent?", "Which of these is it: low or high?", "How sure are you, from 1 to 5?", "What is the date?", "Who wrote it?",
	"What is the contact email?", "At what time?", "How many pages?", "Which colour is it?", "What is the topic?", "Worum geht es, größtenteils?",
	"Say who asks for a meeting and when.", "Extract the price, the date and the sender.", "Explain why, from 1 to 5, yes or no.", "?", ":", "(1-5)", "which : , or ) ?", "Summarize.",
}

func advisable() *rapid.Generator[bcp.Spec] {
	return rapid.Custom(func(t *rapid.T) bcp.Spec {
		spec := bcptest.Specs().Draw(t, "spec")
		text := rapid.OneOf(rapid.SampledFrom(wordings), rapid.StringMatching(`[a-z0-9 ,:?()'’/-]{1,60}`), rapid.StringN(1, 60, -1)).Filter(func(s string) bool { return strings.TrimSpace(s) != "" })
		for i := range spec.Questions {
			spec.Questions[i].Question = text.Draw(t, "question")
		}
		if spec.Category == 3 {
			spec.Directive = text.Draw(t, "directive")
		}
		if rapid.Bool().Draw(t, "wide") {
			for i := range spec.Questions {
				spec.Questions[i].Alphabet, spec.Questions[i].MaxChars = "", 0
			}
		}
		return spec
	})
}

func adviceSettings() *rapid.Generator[bcp.Settings] {
	return rapid.Custom(func(t *rapid.T) bcp.Settings {
		return bcp.Settings{
			OnAnomaly:     bcp.OnAnomaly(rapid.IntRange(0, 3).Draw(t, "on_anomaly")),
			PreserveCase:  rapid.Bool().Draw(t, "preserve_case"),
			Vocabularies:  bcptest.Vocabularies(),
			ReleaseSlots:  rapid.SampledFrom([]uint64{0, 1, 90}).Draw(t, "slots"),
			Subscriptions: rapid.IntRange(0, 3).Draw(t, "subscriptions"),
		}
	})
}

// Advice is the same at every call, never leads to a higher category, and what
// it tells to write compiles and costs no more, in whatever price. Whoever
// follows all of it gets to an end.
//
// covers BCP-73
func TestAdviceIsSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec, settings := advisable().Draw(t, "spec"), adviceSettings().Draw(t, "settings")
		for step := 0; ; step++ {
			if step > 4*bcp.MaxQuestions {
				t.Fatalf("there is always more to advise: %+v", spec)
			}
			v, err := bcp.Compile(spec, settings)
			if err != nil {
				t.Fatal(err)
			}
			advice := lint.Advise(v)
			again, err := bcp.Compile(spec, settings)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(advice, lint.Advise(again)); diff != "" {
				t.Fatal(diff)
			}
			if len(advice) == 0 {
				return
			}
			for _, a := range advice {
				after, err := bcp.Compile(*a.Rewrite, settings)
				if err != nil {
					t.Fatalf("%s: %v", a.Write, err)
				}
				if a.Rewrite.Category > spec.Category || costsMore(after.Prices(), v.Prices()) {
					t.Fatalf("%s: %+v costs more than %+v", a.Write, after.Prices(), v.Prices())
				}
				if a.Write == "" || strings.ContainsAny(a.Write+a.Text, "\n\r") || !strings.HasPrefix(a.Code, "advice_") {
					t.Fatalf("%+v", a)
				}
			}
			spec = *advice[rapid.IntRange(0, len(advice)-1).Draw(t, "follow")].Rewrite
		}
	})
}

func costsMore(p, q bcp.Prices) bool {
	return p.Nominal > q.Nominal || p.Capacity > q.Capacity || p.FailedNominal > q.FailedNominal || p.FailedCapacity > q.FailedCapacity
}

// What a channel as a whole could do with less.
//
// covers BCP-65, BCP-73, BCP-76
func TestAdviceOnChannels(t *testing.T) {
	t.Parallel()
	prices := func(bits ...bcp.Bits) []bcp.Prices {
		var p []bcp.Prices
		for _, b := range bits {
			p = append(p, bcp.Prices{Nominal: b * bcp.Bit})
		}
		return p
	}
	for name, tt := range map[string]struct {
		tools      []string
		max        bcp.Category
		push       bcp.Bits
		categories []bcp.Category
		prices     []bcp.Prices
		want       []string
	}{
		"nothing can use 3":      {[]string{"Read"}, 3, 100, []bcp.Category{1, 2}, prices(1, 2), []string{"advice_max_category max_category: max_category: 2"}},
		"asks":                   {[]string{"bcpquery"}, 3, 100, []bcp.Category{1, 2}, prices(1, 2), nil},
		"tools not listed":       {nil, 3, 100, []bcp.Category{1}, prices(1), nil},
		"no subscriptions":       {[]string{"Read"}, 3, 100, nil, nil, nil},
		"one of two is summary":  {nil, 3, 100, []bcp.Category{1, 3}, prices(1, 2), nil},
		"two of four":            {nil, 3, 100, []bcp.Category{1, 3, 2, 3}, prices(1, 2, 3, 4), []string{"advice_category_3_share subscriptions: category: 2"}},
		"two of five":            {nil, 3, 100, []bcp.Category{1, 3, 2, 3, 1}, prices(1, 2, 3, 4, 1), nil},
		"fit together":           {nil, 1, 100, []bcp.Category{1, 1}, prices(60, 40), nil},
		"do not fit together":    {nil, 1, 100, []bcp.Category{1, 1}, prices(60, 41), []string{"advice_budget budget_bits: budget_bits: 101"}},
		"nor into pushes":        {nil, 1, 90, []bcp.Category{1, 1}, prices(60, 40), []string{"advice_budget push_budget_bits: push_budget_bits: 100"}},
		"one never fits by then": {nil, 1, 100, []bcp.Category{1, 1}, prices(60, 101), nil},
	} {
		c := bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: "c", Reader: "r"}, MaxCategory: tt.max, Budget: 100 * bcp.Bit, PushBudget: tt.push * bcp.Bit}
		for i, category := range tt.categories {
			c.Subscriptions = append(c.Subscriptions, bcp.Subscription{ID: bcp.SubscriptionID(fmt.Sprint("s", i)), Spec: bcp.Spec{Category: category}})
		}
		var got []string
		for _, a := range lint.ChannelAdvice(&bcp.Mesh{Agents: []bcp.Agent{{Name: "c", Tools: tt.tools}}}, &c, tt.prices) {
			got = append(got, a.Code+" "+a.Key+": "+a.Write)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
