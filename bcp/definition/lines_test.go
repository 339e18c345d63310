package definition_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// Whatever texts a Controller proposes: the file says exactly that, and nothing
// that cannot be seen stands in it.
//
// covers SUB-148, P12.4, P7.2, A-ANSI
func TestProposedTextsStayTexts(t *testing.T) {
	t.Parallel()
	const (
		head   = "---\nname: c\nbcp_channels:\n  - peer: r\n    role: controller\n    max_category: 2\n    budget_bits: 500\n    subscriptions:\n"
		reader = "---\nname: r\nbcp_channels: [{peer: c, role: reader}]\n---\n"
	)
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\n\r\t #:\-{}\[\],&*!|>'"%@\x60\\\x{202e}\x{200b}\x{2028}a-c]{1,30}`)).Draw(r, "text")
		sub := bcp.ProposedSubscription{ID: "new", Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "q", Question: text, MaxWords: 2, ExpectedFormat: bcp.FormatShortText}}}}
		if _, err := bcp.Compile(sub.Spec, bcp.Settings{Subscriptions: 1}); err != nil {
			return
		}
		lines := strings.Join(definition.SubscriptionLines(&sub), "\n        ")
		stopIf(r, strings.Count(lines, "\n") != 3 || strings.ContainsAny(lines, "\u202e\u200b\u2028\r\x00"),
			"%q stands there as it is:\n%q", text, lines)
		mesh, report := definition.Parse(files("agents/c.md", head+"      - "+lines+"\n---\n", "agents/r.md", reader))
		switch {
		case mesh == nil && strings.ContainsFunc(text, unicode.IsControl): // no definition has it
		case mesh == nil:
			r.Fatalf("%q: %v", text, report.Errors)
		case !reflect.DeepEqual(mesh.Channels[0].Subscriptions[0].Spec, sub.Spec):
			r.Fatalf("%q is another subscription:\n%s", text, lines)
		}
	})
}
