package definition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

const boolSub = "category: 1, fields: [{name: f, type: boolean}]"

// controller returns an agent with one controller entry of further keys.
func controller(name, peer, keys string) string {
	return fmt.Sprintf("---\nname: %s\nbcp_channels: [{peer: %s, role: controller, %s}]\n---\n", name, peer, keys)
}

func reader(name, keys string, peers ...string) string {
	var entries []string
	for _, peer := range peers {
		entries = append(entries, "{peer: "+peer+", role: reader"+keys+"}")
	}
	return fmt.Sprintf("---\nname: %s\nbcp_channels: [%s]\n---\n", name, strings.Join(entries, ", "))
}

// Of what both ends say the smaller value holds; what the reader leaves out
// does not limit.
//
// covers P1.3, SUB-24, SUB-25, SUB-26
func TestSmallerValueHolds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		controller, reader string
		category           bcp.Category
		budget             bcp.Bits
		queries            int
	}{
		{"max_category: 3, budget_bits: 100", "", 3, 100 * bcp.Bit, -1},
		{"max_category: 3, budget_bits: 100", ", max_category: 2", 2, 100 * bcp.Bit, -1},
		{"max_category: 1, budget_bits: 100", ", max_category: 2", 1, 100 * bcp.Bit, -1},
		{"max_category: 1, budget_bits: 100", ", budget_bits: 99.5", 1, 99*bcp.Bit + bcp.Bit/2, -1},
		{"max_category: 1, budget_bits: 100", ", budget_bits: 1000", 1, 100 * bcp.Bit, -1},
		{"max_category: 1, budget_bits: 100", ", budget_bits: 0", 1, 0, -1},
		{"max_category: 1, budget_bits: 100, max_cat2_queries: 0", "", 1, 100 * bcp.Bit, 0},
		{"max_category: 1, budget_bits: 100", ", max_cat2_queries: 4", 1, 100 * bcp.Bit, 4},
		{"max_category: 1, budget_bits: 100, max_cat2_queries: 5", ", max_cat2_queries: 4", 1, 100 * bcp.Bit, 4},
		{"max_category: 1, budget_bits: 100, max_cat2_queries: 3", ", max_cat2_queries: 4", 1, 100 * bcp.Bit, 3},
	}
	for _, tt := range tests {
		mesh, _ := mustParse(t, "c.md", controller("c", "r", tt.controller), "r.md", reader("r", tt.reader, "c"))
		ch, ok := mesh.Channel(bcp.ChannelKey{Controller: "c", Reader: "r"})
		if !ok || ch.MaxCategory != tt.category || ch.Budget != tt.budget || ch.MaxCat2Queries != tt.queries ||
			ch.WindowBudget != 10*tt.budget || ch.PushBudget != tt.budget || ch.AlertBits != tt.budget/5*4 {
			t.Errorf("%q and %q: %+v", tt.controller, tt.reader, ch)
		}
	}
}

// Ids are unique within a channel, not within a mesh.
//
// covers C-8, SUB-40, P1.1
func TestSameSubscriptionIDInTwoChannels(t *testing.T) {
	t.Parallel()
	keys := "max_category: 1, budget_bits: 100, subscriptions: [{id: news, " + boolSub + "}]"
	mesh, _ := mustParse(t, "c1.md", controller("c1", "r", keys), "c2.md", controller("c2", "r", keys), "r.md", reader("r", "", "c1", "c2"))
	failIf(t, len(mesh.Channels) != 2 || len(mesh.Channels[0].Subscriptions) != 1 || len(mesh.Channels[1].Subscriptions) != 1,
		"%+v", mesh.Channels)
}

// max_words of the subscription is the default of the questions without their
// own; if both are there, the question's holds.
//
// covers C-13, SUB-36
func TestMaxWordsDefault(t *testing.T) {
	t.Parallel()
	question := func(id, words string) string {
		return "{id: " + id + ", question: What, expected_format: short_text" + words + "}"
	}
	keys := "max_category: 2, budget_bits: 100, subscriptions: [{id: s, category: 2, max_words: 3, questions: [" + question("a", "") + ", " + question("b", ", max_words: 7") + "]}]"
	mesh, report := mustParse(t, "c.md", controller("c", "r", keys), "r.md", reader("r", "", "c"))
	spec := mesh.Channels[0].Subscriptions[0].Spec
	validator := must(bcp.Compile(spec, bcp.Settings{}))
	expect(t, validator.Prices().Nominal, 10*bcp.WordBits, "nominal")
	failIf(t, !strings.Contains(fmt.Sprint(report.Warnings), "110 bits and budget_bits is 100"), "warnings %v", report.Warnings)
	none := strings.Replace(keys, "max_words: 3, ", "", 1)
	_, report = definition.Parse(files("c.md", controller("c", "r", none), "r.md", reader("r", "", "c")))
	failIf(t, len(report.Errors) != 1 || report.Errors[0].Key != "bcp_channels[0].subscriptions[0].questions[0].max_words",
		"without a limit: %v", report.Errors)
}
