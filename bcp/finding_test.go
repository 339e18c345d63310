package bcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// covers BCP-15, P8.2, A-COLLUDE, ALF-3
func TestFindings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mesh string
		want []string // code and agents
	}{
		// Several channels into a clean agent.
		"two sources":          {"main low\na high\nb high\nmain < a 1 10\nmain < b 1 10", []string{"combined_budgets main a b"}},
		"one source":           {"main low\na high\nmain < a 1 10", nil},
		"one of them is clean": {"main low\na high\nb low\nmain < a 1 10\nmain < b 1 10", nil},
		"medium steps to low":  {"main low\na medium\nb high\nmain < a 1 10\nmain < b 1 10", nil},
		"one pays nothing":     {"main low\na high\nb high\nmain < a 1 10\nmain < b 1 0", nil},
		"total is stated":      {"main low total:20\na high\nb high\nmain < a 1 10\nmain < b 1 10", nil},
		"not clean":            {"main medium\na high\nb high\nmain < a 1 10\nmain < b 1 10", nil},
		"diamond":              {"main low\na low\nb low\nweb high\nmain < a 1 10\nmain < b 1 10\na < web\nb < web", []string{"combined_budgets main a b"}},

		// Private data, untrusted input, a way out.
		"web alone":              {"a low WebFetch WebSearch", nil},
		"files alone":            {"a low Read Grep Glob Write", nil},
		"files and web":          {"a low Read WebFetch", []string{"lethal_trifecta a"}},
		"search is no way out":   {"a low Read WebSearch", nil},
		"search and message":     {"a low Grep WebSearch SendMessage", []string{"lethal_trifecta a"}},
		"files and network":      {"a low Glob net:outbound", []string{"lethal_trifecta a"}},
		"any network":            {"a low Glob net:api.example.com", []string{"lethal_trifecta a"}},
		"no network":             {"a low Glob net:None", nil},
		"shell, clean":           {"a low Bash", nil},
		"shell, tainted":         {"a high Bash", []string{"lethal_trifecta a"}},
		"shell without network":  {"a high Bash net:none", nil},
		"case and arguments":     {"a high bash(git:*)", []string{"lethal_trifecta a"}},
		"other names":            {"a high Reader BashOutput MyWebFetch net:none", nil},
		"no tools":               {"a high net:outbound", nil},
		"MCP":                    {"a low Read mcp__calendar__add", []string{"lethal_trifecta a"}},
		"the protocol's own MCP": {"a high Read mcp__bcp__BCPQuery mcp__bcp__BCPPublish mcp__bcp__BCPRespond", nil},
		"text over a channel":    {"a low Read SendMessage\nb high\na < b 2 10", []string{"lethal_trifecta a b"}},
		"choices over a channel": {"a low Read SendMessage\nb high\na < b 1 10", nil},
		"text of a clean agent":  {"a low Read SendMessage\nb low\na < b 2 10", nil},
		"medium by itself":       {"a medium Read SendMessage", nil},

		// Files around the gateway.
		"writer and reader":      {"a low Read\nb high Write", []string{"shared_disk b a"}},
		"editor and reader":      {"a low Grep\nb medium Edit", []string{"shared_disk b a"}},
		"both are clean":         {"a low Read\nb low Write", nil},
		"both are tainted":       {"a high Read\nb high Write", nil},
		"reader and clean write": {"a low Write\nb high Read", nil},
		"names of files":         {"a low Glob\nb high Write", nil},

		// The meshes that bcpmesh init writes, and the seed's.
		"init research": {"main low Read Write BCPQuery\nresearcher high WebSearch WebFetch BCPRespond BCPPublish net:outbound\nmain < researcher 2 1000", nil},
		"init mailroom": {"mailreader high Mailbox BCPRespond BCPPublish\nsecretary low Calendar BCPQuery\nsecretary < mailreader 3 3000", nil},
		"seed": {
			"main low Read Write Edit Bash Grep Glob BCPQuery SendMessage\nresearcher high Read Write Grep Glob WebFetch WebSearch BCPRespond BCPPublish net:outbound\nmain < researcher 2 1000",
			[]string{"lethal_trifecta main researcher", "lethal_trifecta researcher", "shared_disk researcher main"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range FlowOf(flowMesh(t, tt.mesh)).Findings {
				got = append(got, strings.TrimSuffix(f.Code+" "+strings.Trim(fmt.Sprint(f.Agents), "[]"), " "))
			}
			diff := cmp.Diff(tt.want, got)
			failIf(t, diff != "", "%v", diff)
		})
	}
}

// covers P4.1, P8.2, A-COLLUDE
func TestFindingTexts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ mesh, want string }{
		{"main low\na high\nb high\nc high\nmain < a 1 10.5\nmain < b 1 20\nmain < c 1 0.000000001",
			"main has channels from 3 agents whose answers are tainted (a, b and c): whoever writes what they read can combine 30.6 bits an epoch; " +
				"set total_budget_bits to what all of them may carry together"},
		{"main low\na high\nb high\nmain < a 1 10 30\nmain < b 1 20 40", "can combine 30 bits an epoch (capacity 70); set"},
		{"main low\na high\nb high\nmain < a 1 10 30\nmain < b 1 20", "can combine 30 bits an epoch (capacity 30 on 1 of them, without a bound on the rest); set"},
		{"m low\na high\nb high\nc high\nd high\ne high\nf high\nm < a\nm < b\nm < c\nm < d\nm < e\nm < f", "6 agents whose answers are tainted (a, b, c, d and 2 more)"},
		{"r high Read Glob WebFetch net:outbound",
			"r has private data (Read, Glob), untrusted input (WebFetch, network, base_taint high) and a way out (WebFetch, network), so that a text can make it send the data away; " +
				"give one of the three to another agent, across a channel"},
		{"m low Bash\nr high\nm < r 3",
			"m has private data (Bash), untrusted input (text from r) and a way out (Bash), so that a text can make it send the data away; " +
				"lower max_category of its channels to 1, or give the private data or the way out to another agent"},
		{"m low Read\nr high Write Edit",
			"r is tainted and can write files (Write, Edit), and clean agents can read files (m): on one disk that is a way around the gateway; " +
				"keep their disks apart, or take Write and Edit away from r"},
	} {
		var texts []string
		for _, f := range FlowOf(flowMesh(t, tt.mesh)).Findings {
			texts = append(texts, f.Text)
		}
		if len(texts) != 1 || !strings.Contains(texts[0], tt.want) {
			t.Errorf("%s\ngives %s\nwant %s", tt.mesh, strings.Join(texts, "\n"), tt.want)
		}
	}
}

// A tool never makes a finding go away, and its order and case do not matter.
func TestFindingsOfTools(t *testing.T) {
	t.Parallel()
	for _, known := range toolUses {
		tool := known.name
		if tool == mcpTools {
			tool = "mcp__x__y"
		}
		m := flowMesh(t, "a high Bash WebFetch\nb low Read")
		before := FlowOf(m).Findings
		m.Agents[0].Tools = append(m.Agents[0].Tools, strings.ToUpper(tool)+" (x)")
		failIf(t, len(FlowOf(m).Findings) < len(before), "%s makes a finding go away", tool)
		found := toolsFor(&m.Agents[0], known.use)
		failIf(t, !slices.Contains(found, known.name), "%s is not found: %v", tool, found)
	}
}
