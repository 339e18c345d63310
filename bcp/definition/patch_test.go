package definition_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

const patchReader = "---\nname: r\nbcp_channels: [{peer: c, role: reader}]\n---\n"

// proposed is a subscription with this id and a bit of everything.
func proposed(id string) *bcp.Proposal {
	one, nine := int64(1), int64(9)
	return &bcp.Proposal{Reader: "r", Subscription: bcp.ProposedSubscription{
		ID: bcp.SubscriptionID(id), MaxRate: bcp.Rate{Count: 2, Span: 3600e9}, BatchWindow: "10m", PublishWhen: `kind == "a: b" || n > 3`,
		Spec: bcp.Spec{Category: 1, Constraints: []string{"n > 0"}, Fields: []bcp.Field{
			{Name: "kind", Type: bcp.TypeEnum, Values: []string{"a: b", "# c", "yes", "42", "ä \"x\""}}, {Name: "n", Type: bcp.TypeInteger, Min: &one, Max: &nine},
		}},
	}}
}

// A subscription is added behind the last line of its channel, in whatever form the
// file has, and every other line stays.
//
// covers SUB-148, P12.4, P1.2
func TestAddSubscription(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"no subscriptions": "---\n# who\nname: c\nbcp_channels:\n  # the mail\n  - peer: r # here\n    role: controller\n    max_category: 2\n    budget_bits: 500\n«\n  # another\n  - peer: x\n    role: reader\ntools: Read\n---\nHello.\n  - peer: r\n",
		"some": "---\nname: c\nbcp_channels:\n  - peer: r\n    role: controller\n    max_category: 2\n    budget_bits: 500\n    subscriptions:\n      # one\n      - id: one\n        category: 1\n        fields:\n          - {name: a,\n             type: boolean}\n      - id: two\n" +
			"        category: 2\n        questions:\n          - id: q\n            question: |\n              What\n\n                is it?\n            max_words: 2\n            expected_format: short_text\n«\n        # behind two\n    # and behind all\n---\n",
		"at the left":     "---\nname: c\nbcp_channels:\n- peer: r\n  role: controller\n  subscriptions:\n  - id: one\n    category: 1\n    fields: [{name: a, type: boolean}]\n«  max_category: 2\n  budget_bits: 500\ntools: Read\n---\n",
		"windows":         "---\r\nname: c\r\nbcp_channels:\r\n  - peer: r\r\n    role: controller\r\n    max_category: 2\r\n    budget_bits: 500\r\n«---\r\n",
		"the second":      "---\nname: c\nbcp_channels:\n  - peer: r\n    role: reader\n  - {peer: y, role: controller, max_category: 1, budget_bits: 1}\n  - budget_bits: 500\n    peer: r\n    role: controller\n    max_category: 2\n«---\n",
		"a deeper dash":   "---\nname: c\nbcp_channels:\n  -   peer: r\n      role: controller\n      max_category: 2\n      budget_bits: 500\n«---\n",
		"without a space": "---\nname: c\nbcp_channels:\n  -\n    peer: r\n    role: controller\n    max_category: 2\n    budget_bits: 500\n«tools: Read\n---\n",
	} {
		content := strings.ReplaceAll(file, "«", "")
		path, edited, err := definition.AddSubscription(files("agents/c.md", content, "agents/r.md", patchReader), "c", proposed("new"))
		if err != nil || path != "agents/c.md" {
			t.Errorf("%s: %s, %v", name, path, err)
			continue
		}
		before, after, _ := strings.Cut(file, "«")
		if !bytes.HasPrefix(edited, []byte(before)) || !bytes.HasSuffix(edited, []byte(after)) {
			t.Errorf("%s: other lines changed:\n%s", name, edited)
		}
		if strings.Contains(content, "\r\n") && bytes.Count(edited, []byte("\n")) != bytes.Count(edited, []byte("\r\n")) {
			t.Errorf("%s: the ends of lines are mixed", name)
		}
		again, twice, err := definition.AddSubscription(files("agents/c.md", string(edited), "agents/r.md", patchReader), "c", proposed("newer"))
		if err != nil || again != path || !bytes.Contains(twice, []byte(`id: "newer"`)) {
			t.Errorf("%s: a second one: %v", name, err)
		}
	}
}

// What cannot be added by lines, or is not what was approved, is refused, and
// nothing is returned.
//
// covers SUB-148, P12.4
func TestAddSubscriptionRefuses(t *testing.T) {
	t.Parallel()
	const head = "---\nname: c\nbcp_channels:"
	good := head + "\n  - peer: r\n    role: controller\n    max_category: 2\n    budget_bits: 500\n---\n"
	for name, tt := range map[string]struct {
		file string
		p    *bcp.Proposal
		want error
	}{
		"braces":      {head + " [{peer: r, role: controller, max_category: 2, budget_bits: 500}]\n---\n", proposed("new"), definition.ErrStyle},
		"half braces": {head + "\n  - {peer: r, role: controller, max_category: 2, budget_bits: 500}\n---\n", proposed("new"), definition.ErrStyle},
		"brackets":    {strings.Replace(good, "---\n", "", 1)[:0] + strings.Replace(good, "budget_bits: 500\n", "budget_bits: 500\n    subscriptions: [{id: one, category: 1, fields: [{name: a, type: boolean}]}]\n", 1), proposed("new"), definition.ErrStyle},
		"empty list":  {strings.Replace(good, "budget_bits: 500\n", "budget_bits: 500\n    subscriptions: []\n", 1), proposed("new"), definition.ErrStyle},
		"no channel":  {good, &bcp.Proposal{Reader: "x"}, definition.ErrNoEntry},
		"not valid":   {good, &bcp.Proposal{Reader: "r", Subscription: bcp.ProposedSubscription{ID: "new"}}, definition.ErrPatch},
		"category":    {good, &bcp.Proposal{Reader: "r", Subscription: bcp.ProposedSubscription{ID: "new", Spec: bcp.Spec{Category: 3, Directive: "x", MaxWords: 2}}}, definition.ErrPatch},
		"there is one": {strings.Replace(good, "budget_bits: 500\n", "budget_bits: 500\n    subscriptions:\n      - id: new\n        category: 1\n        fields: [{name: a, type: boolean}]\n", 1),
			proposed("new"), definition.ErrPatch},
	} {
		_, edited, err := definition.AddSubscription(files("agents/c.md", tt.file, "agents/r.md", patchReader), "c", tt.p)
		if !errors.Is(err, tt.want) || edited != nil {
			t.Errorf("%s: %v\n%s", name, err, edited)
		}
	}
	if _, _, err := definition.AddSubscription(files("agents/c.md", "---\nname: c\nx: 1\n---\n"), "c", proposed("new")); err == nil {
		t.Error("definitions with errors are edited")
	}
}

// Whatever texts a Controller proposes: the file says exactly that, and nothing
// that cannot be seen stands in it.
//
// covers SUB-148, P12.4, P7.2, A-ANSI
func TestProposedTextsStayTexts(t *testing.T) {
	t.Parallel()
	file := "---\nname: c\nbcp_channels:\n  - peer: r\n    role: controller\n    max_category: 2\n    budget_bits: 500\n---\n"
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\n\r\t #:\-{}\[\],&*!|>'"%@\x60\\\x{202e}\x{200b}\x{2028}a-c]{1,30}`)).Draw(r, "text")
		p := &bcp.Proposal{Reader: "r", Subscription: bcp.ProposedSubscription{ID: "new", Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{
			{ID: "q", Question: text, MaxWords: 2, ExpectedFormat: bcp.FormatShortText},
		}}}}
		if _, err := bcp.Compile(p.Subscription.Spec, bcp.Settings{Subscriptions: 1}); err != nil {
			return
		}
		_, edited, err := definition.AddSubscription(files("agents/c.md", file, "agents/r.md", patchReader), "c", p)
		if errors.Is(err, definition.ErrPatch) && strings.ContainsFunc(text, unicode.IsControl) {
			return // no definition has it
		}
		if err != nil {
			r.Fatalf("%q: %v", text, err)
		}
		if added := len(strings.Split(string(edited), "\n")) - len(strings.Split(file, "\n")); added != 5 {
			r.Fatalf("%q: %d lines more:\n%s", text, added, edited)
		}
		if strings.ContainsAny(string(edited), "\u202e\u200b\u2028\r\x00") {
			r.Fatalf("%q stands there as it is:\n%q", text, edited)
		}
	})
}
