package definition_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/lint"
)

// Advice can be pasted: the line that it says to write is YAML that loads in
// the place that it names, and means what the advice was priced for.
//
// covers BCP-73, P1.2
func TestAdviceCanBePasted(t *testing.T) {
	t.Parallel()
	folder := func(entry string) map[string][]byte {
		return files("mesh.yaml", "vocabularies: {colours: [amber, blue, green, red, violet]}\n", "r.md", reader("r", "", "c"),
			"c.md", controller("c", "r", "max_category: 3, budget_bits: 1000000, subscriptions: ["+entry+"]"))
	}
	compile := func(t *rapid.T, mesh *bcp.Mesh) *bcp.Validator {
		settings := mesh.Channels[0].Settings(mesh, nil, nil)
		settings.Subscriptions = 1
		v, err := bcp.Compile(mesh.Channels[0].Subscriptions[0].Spec, settings)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	seen := map[string]int{}
	property := func(t *rapid.T) {
		spec := bcptest.Specs().Draw(t, "spec")
		text := rapid.SampledFrom([]string{
			"Is it \"urgent\"?", "Which is it: low, yes or very high?", "How sure are you, from 1 to 5?", "What is the date?", "What is the sender’s name?",
			"What is the contact email?", "At what time?", "Which colour is it?", "What is the topic?", "Say who asks for a meeting and when.", "Für wen?",
		})
		spec.Directive, spec.MaxWords = "", 0
		if spec.Category == 3 {
			spec.Directive, spec.MaxWords = text.Draw(t, "directive"), 100
		}
		for i := range spec.Questions {
			spec.Questions[i].Question = text.Draw(t, "question")
			spec.Questions[i].Alphabet, spec.Questions[i].MaxChars = "", 0
		}
		entry := func(spec bcp.Spec) string {
			b, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			return `{"id": "s", ` + string(b[1:])
		}
		mesh, report := definition.Parse(folder(entry(spec)))
		if mesh == nil {
			t.Fatalf("%v", report.Errors)
		}
		advice := lint.Advise(compile(t, mesh))
		for _, w := range report.Warnings {
			if !w.Advice() {
				continue
			}
			of := slices.IndexFunc(advice, func(a lint.Advice) bool {
				return a.Code == w.Code && strings.TrimSuffix("bcp_channels[0].subscriptions[0]."+a.Key, ".") == w.Key
			})
			if of < 0 {
				t.Fatalf("%+v is no advice on the spec", w)
			}
			a := advice[of]
			advice = slices.Delete(advice, of, of+1)
			_, write, found := strings.Cut(w.Message, definition.InsteadWrite)
			if !found || w.File != "c.md" || w.Line < 3 {
				t.Fatalf("%+v for %+v", w, a)
			}
			seen[w.Code]++
			pasted := write
			if a.Key != "" {
				const mark = "pasted here"
				changed := spec
				changed.Questions = append([]bcp.Question(nil), spec.Questions...)
				var i int
				if _, err := fmt.Sscanf(a.Key, "questions[%d]", &i); err != nil {
					t.Fatal(err)
				}
				q := changed.Questions[i]
				if strings.Contains(a.Key, ".") {
					q.MaxWords = 0
					b, err := json.Marshal(q)
					if err != nil {
						t.Fatal(err)
					}
					if !strings.HasPrefix(write, "max_words") {
						write += fmt.Sprintf(", max_words: %d", spec.Questions[i].MaxWords)
					}
					write = "{" + write + ", " + string(b[1:])
				}
				changed.Questions[i] = bcp.Question{ID: mark, Question: "Q", ExpectedFormat: bcp.FormatBoolean}
				pasted = strings.Replace(entry(changed), `{"id":"`+mark+`","question":"Q","expected_format":"boolean"}`, write, 1)
			}
			after, report := definition.Parse(folder(pasted))
			if after == nil {
				t.Fatalf("%s: %v", pasted, report.Errors)
			}
			if strings.Contains(a.Key, ".") && w.Code != definition.CodeAdviceMaxWords {
				continue // may be for several questions, of which one was changed
			}
			settings := after.Channels[0].Settings(after, nil, nil)
			settings.Subscriptions = 1
			want, err := bcp.Compile(*a.Rewrite, settings)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Spec(), compile(t, after).Spec()); diff != "" {
				t.Fatalf("%s: %s", pasted, diff)
			}
		}
		if len(advice) > 0 {
			t.Fatalf("not said: %+v", advice)
		}
	}
	codes := []string{definition.CodeAdviceCategory1, definition.CodeAdviceCategory2, definition.CodeAdviceFormat, definition.CodeAdviceMaxWords, definition.CodeAdviceAlphabet}
	missing := func(code string) bool { return seen[code] == 0 }
	rapid.Check(t, property)
	for rounds := 1; rounds < 10 && slices.ContainsFunc(codes, missing); rounds++ { // what is drawn is chance
		rapid.Check(t, property)
	}
	if slices.ContainsFunc(codes, missing) {
		t.Errorf("of %v only %v were drawn", codes, seen)
	}
}

// Constraints move with the answers that they compare. Where they could not, as
// one over a text that would be a number, the question stays as it is.
//
// covers BCP-73, P3.7
func TestAdviceKeepsConstraints(t *testing.T) {
	t.Parallel()
	folder := func(subscription string) definition.Report {
		_, report := mustParse(t, "c.md", controller("c", "r", "max_category: 2, budget_bits: 1000, subscriptions: ["+subscription+"]"), "r.md", reader("r", "", "c"))
		return report
	}
	const write = `{id: s, category: 1, fields: [{name: score, type: integer, min: 1, max: 5}, {name: late, type: boolean}], constraints: ["score > 2 || late"]}`
	report := folder(`{id: s, category: 2, constraints: [score > 2 || late], questions: [
  {id: score, question: Q, max_words: 1, expected_format: integer, min: 1, max: 5}, {id: late, question: Q, max_words: 1, expected_format: boolean}]}`)
	if len(report.Warnings) != 1 || !strings.HasSuffix(report.Warnings[0].Message, definition.InsteadWrite+write) {
		t.Errorf("%v", report.Warnings)
	}
	if report := folder(write); len(report.Warnings) > 0 {
		t.Errorf("as advised: %v", report.Warnings)
	}
	report = folder(`{id: s, category: 2, constraints: ['n != "0"'], questions: [
  {id: n, question: "How many people attend?", max_words: 1, expected_format: short_text, alphabet: ascii}]}`)
	for _, w := range report.Warnings {
		if w.Advice() {
			t.Errorf("breaks its constraint: %s", w)
		}
	}
}

// Advice on a channel stands at its key, and none comes beside an error.
//
// covers BCP-65, BCP-73, P1.2
func TestChannelAdvice(t *testing.T) {
	t.Parallel()
	keys := "max_category: 3, budget_bits: 12, subscriptions: [{id: a, category: 1, fields: [{name: n, type: integer, min: 1, max: 1024}]}, " +
		"{id: b, category: 1, fields: [{name: n, type: integer, min: 1, max: 16}]}]"
	text := strings.Replace(controller("c", "r", keys), "name: c\n", "name: c\ntools: Read\n", 1)
	_, report := mustParse(t, "c.md", text, "r.md", reader("r", "", "c"))
	var got []string
	for _, w := range report.Warnings {
		got = append(got, w.Code+" "+w.Key+w.Message[strings.LastIndex(w.Message, definition.InsteadWrite):])
	}
	want := []string{
		"advice_max_category bcp_channels[0].max_category; write max_category: 1",
		"advice_budget bcp_channels[0].budget_bits; write budget_bits: 14",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, report := definition.Parse(files("c.md", strings.Replace(text, "tools:", "tolls:", 1), "r.md", reader("r", "", "c"))); len(report.Warnings) > 0 {
		t.Errorf("beside an error: %v", report.Warnings)
	}
}

// Definitions that are right get no advice. The script of `bcpmesh init` says
// so of what it writes.
//
// covers BCP-73
func TestNoAdviceOnTheReference(t *testing.T) {
	t.Parallel()
	reports := map[string]definition.Report{}
	for title, folder := range examplesIn(t) {
		_, reports[title] = definition.Parse(folder)
	}
	_, reports["mailroom"] = definition.Load(os.DirFS("../../examples/mailroom/mesh"))
	for title, report := range reports {
		for _, w := range report.Warnings {
			if w.Advice() {
				t.Errorf("%s: %s", title, w)
			}
		}
	}
}
