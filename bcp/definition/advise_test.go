package definition_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// Advice on a channel stands at its key, with what to write instead; none comes beside an
// error.
//
// covers BCP-65, BCP-73, BCP-76, P1.2
func TestChannelAdvice(t *testing.T) {
	t.Parallel()
	number := func(id string, most int) string {
		return fmt.Sprintf("{id: %s, category: 1, fields: [{name: n, type: integer, min: 1, max: %d}]}", id, most)
	}
	summary := func(id string) string { return "{id: " + id + ", category: 3, directive: D, max_words: 1}" }
	const (
		maxCategory1 = "advice_max_category bcp_channels[0].max_category; write max_category: 1"
		share        = "advice_category_3_share bcp_channels[0].subscriptions; write category: 2"
	)
	for name, tt := range map[string]struct {
		tools, limits string
		subscriptions []string
		want          []string
	}{
		"nothing can use 3":     {"Read", "max_category: 3, budget_bits: 100", []string{number("a", 2)}, []string{maxCategory1}},
		"asks":                  {"bcpquery", "max_category: 3, budget_bits: 100", []string{number("a", 2)}, nil},
		"tools not listed":      {"", "max_category: 3, budget_bits: 100", []string{number("a", 2)}, nil},
		"no subscriptions":      {"Read", "max_category: 3, budget_bits: 100", nil, nil},
		"one of two is summary": {"", "max_category: 3, budget_bits: 100", []string{number("a", 2), summary("b")}, nil},
		"two of four":           {"", "max_category: 3, budget_bits: 100", []string{number("a", 2), summary("b"), number("c", 2), summary("d")}, []string{share}},
		"two of five":           {"", "max_category: 3, budget_bits: 100", []string{number("a", 2), summary("b"), number("c", 2), summary("d"), number("e", 2)}, nil},
	} {
		text := controller("c", "r", tt.limits+", subscriptions: ["+strings.Join(tt.subscriptions, ", ")+"]")
		if tt.tools != "" {
			text = strings.Replace(text, "name: c\n", "name: c\ntools: "+tt.tools+"\n", 1)
		}
		_, report := mustParse(t, "c.md", text, "r.md", reader("r", "", "c"))
		var got []string
		for _, w := range report.Warnings {
			if w.Advice() {
				got = append(got, w.Code+" "+w.Key+w.Message[strings.LastIndex(w.Message, definition.InsteadWrite):])
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if _, report := definition.Parse(files("c.md", strings.Replace(text, "name: c", "name: c\ntolls: x", 1), "r.md", reader("r", "", "c"))); slices.ContainsFunc(report.Warnings, definition.Problem.Advice) {
			t.Errorf("%s, beside an error: %v", name, report.Warnings)
		}
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
