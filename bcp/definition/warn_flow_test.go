package definition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// What adds up across agents is said at the name of the agent to look at.
//
// covers P1.2, P8.2
func TestFlowWarnings(t *testing.T) {
	t.Parallel()
	hears := func(peers ...string) string {
		text := "bcp_channels:\n"
		for _, p := range peers {
			text += "- {peer: " + p + ", role: controller, max_category: 2, budget_bits: 10}\n"
		}
		return text
	}
	answers := func(peer string) string { return "- {peer: " + peer + ", role: reader}\n" }
	agent := func(name, keys string) []string {
		return []string{name + ".md", "---\n# " + name + "\nname: " + name + "\n" + keys + "---\n"}
	}
	mesh := func(agents ...[]string) []string {
		var files []string
		for _, a := range agents {
			files = append(files, a...)
		}
		return files
	}
	for name, tt := range map[string]struct {
		files []string
		want  []string // file:line:column: key: code
	}{
		"pushes within half of a total budget": {
			mesh(agent("c", "total_budget_bits: 20\n"+strings.ReplaceAll(hears("r"), "}", ", subscriptions: [{id: x, "+boolSub+"}]}")), agent("r", "bcp_channels:\n"+answers("c"))),
			nil,
		},
		"pushes beyond half of it": {
			mesh(agent("c", "total_budget_bits: 19\n"+strings.ReplaceAll(hears("r"), "}", ", subscriptions: [{id: x, "+boolSub+"}]}")), agent("r", "bcp_channels:\n"+answers("c"))),
			[]string{"c.md:4:20: total_budget_bits: " + definition.CodeTotalParts},
		},
		"trifecta": {
			mesh(agent("a", "tools: Read, WebFetch\n")),
			[]string{"a.md:3:7: name: " + bcp.FindingTrifecta},
		},
		"reader lifts the limit, controller does not": {
			mesh(agent("c", "tools: [Read, SendMessage]\n"+strings.Replace(hears("r"), "max_category: 2", "max_category: 1", 1)), agent("r", "bcp_channels:\n- {peer: c, role: reader, max_category: 3}\n")),
			nil,
		},
		"arguments of who knows to who reaches out": {
			mesh(agent("c", "tools: [Read]\n"+strings.Replace(hears("r"), "}", ", max_argument_bytes: 100}", 1)), agent("r", "network: outbound\nbcp_channels:\n"+answers("c"))),
			[]string{"c.md:6:85: bcp_channels[0].max_argument_bytes: " + definition.CodeArgumentsOut},
		},
		"arguments of who knows nothing": {
			mesh(agent("c", strings.Replace(hears("r"), "}", ", max_argument_bytes: 100}", 1)), agent("r", "network: outbound\nbcp_channels:\n"+answers("c"))),
			nil,
		},
		"nothing of one end alone": {
			mesh(agent("c", "tools: [Read, SendMessage]\n"+hears("r")), agent("r", "")),
			[]string{"c.md:6:10: bcp_channels[0].peer: " + definition.CodeNoCounterpart},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, report := mustParse(t, tt.files...)
			var got []string
			for _, w := range report.Warnings {
				got = append(got, fmt.Sprintf("%s:%d:%d: %s: %s", w.File, w.Line, w.Column, w.Key, w.Code))
			}
			expect(t, cmp.Diff(tt.want, got), "", "%v", report.Warnings)
		})
	}
	_, report := definition.Parse(map[string][]byte{"a.md": []byte("---\nname: a\ntools: Read, WebFetch\nunknown: 1\n---\n")})
	expect(t, len(report.Warnings), 0, "of a folder with errors: %v", report.Warnings)
}
