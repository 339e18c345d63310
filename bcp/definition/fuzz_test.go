package definition_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// No input panics, every error has a place, and a mesh comes without errors
// only. The same bytes always give the same answer.
//
// covers P1.2
func FuzzParse(f *testing.F) {
	for _, name := range []string{"main", "researcher"} {
		content, err := os.ReadFile("testdata/seed/agents/" + name + ".md")
		if err != nil {
			f.Fatal(err)
		}
		f.Add("approvers: [ann]\nvocabularies: {x: [a]}\n", string(content))
	}
	for _, seed := range []string{
		"a: [", "a: {b: c", "? a", "- - -", "&a *a", "!!t", "\"\\x", "|\n x", ">-\n\n", "a:\n\tb", "%Y", "...", "{{{", "]]]", ": :", "<<: a", "'", "#", "a: b: c", "\r", "[[]]: x", "- a: - b",
	} {
		f.Add(seed, "---\n"+seed+"\n---\n"+seed)
	}
	f.Fuzz(func(t *testing.T, mesh, agent string) {
		contents := files("mesh.yaml", mesh, "agents/a.md", agent, "agents/r.md", "---\nname: r\nbcp_channels: [{peer: main, role: reader}]\n---\n")
		parsed, report := definition.Parse(contents)
		if (parsed == nil) == (len(report.Errors) == 0) {
			t.Fatalf("mesh %v with errors %v", parsed != nil, report.Errors)
		}
		for _, p := range append(report.Errors, report.Warnings...) {
			if p.File == "" || p.Line < 1 || p.Column < 1 || p.Code == "" || p.Message == "" {
				t.Errorf("%+v", p)
			}
		}
		again, second := definition.Parse(contents)
		if diff := cmp.Diff(report, second); diff != "" {
			t.Error(diff)
		}
		if parsed != nil && definition.Digest(parsed) != definition.Digest(again) {
			t.Error("two digests of the same files")
		}
	})
}

// A random channel written as YAML loads to the same values.
//
// covers P1.2, P1.3
func TestRandomMeshesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,62}`).Filter(func(s string) bool { return s != string(bcp.Gateway) && s != "r" })
		self := name.Draw(t, "name")
		bits := func(label string, least int64) bcp.Bits {
			return bcp.Bits(rapid.Int64Range(least, 1_000_000*int64(bcp.Bit)).Draw(t, label))
		}
		seconds := func(label string, least int64) time.Duration {
			return time.Duration(rapid.Int64Range(least, 30*24*3600).Draw(t, label)) * time.Second
		}
		text := rapid.StringOfN(rapid.RuneFrom([]rune("aZ0 .,:#-'\"\\{}[]&*!|>%@`é漢?\t\n")), 1, 40, -1)
		want := bcp.Channel{
			ChannelKey:  bcp.ChannelKey{Controller: bcp.AgentName(self), Reader: "r"},
			MaxCategory: 3, Budget: bits("budget", 0), MaxCat2Queries: rapid.IntRange(0, 1_000_000).Draw(t, "queries"),
			MaxEscalations: rapid.IntRange(0, 1000).Draw(t, "escalations"), MaxJustificationWords: rapid.IntRange(1, 100).Draw(t, "words"),
			MaxJustificationChars: rapid.IntRange(1, 2500).Draw(t, "chars"), BaseCategory: bcp.Category(rapid.IntRange(1, 2).Draw(t, "base")),
			MaxRetries: rapid.IntRange(0, 100).Draw(t, "retries"), QueryTTL: seconds("ttl", 1),
			WindowBudget: bits("window", 0), BudgetWindow: seconds("length", 60), BudgetRenew: seconds("renew", 60), PushBudget: bits("push", 0),
			CapacityBudget: bits("capacity", int64(bcp.Bit)), AlertBits: bits("alert", 0), ReleaseInterval: seconds("release", 1),
			OnAnomaly: bcp.OnAnomaly(rapid.IntRange(0, 2).Draw(t, "anomaly")), PreserveCase: rapid.Bool().Draw(t, "case"),
			MaxPendingApprovals: rapid.IntRange(1, 10_000).Draw(t, "pending"), Approvers: []bcp.AgentName{"operator"}, ApprovalTTL: seconds("approval", 60),
		}
		var b strings.Builder
		fmt.Fprintf(&b, "---\nname: %q\nbcp_channels:\n- peer: r\n  role: controller\n  max_category: 3\n  budget_bits: %s\n  max_cat2_queries: %d\n", self, want.Budget, want.MaxCat2Queries)
		fmt.Fprintf(&b, "  max_justification_words: %d\n  max_justification_chars: %d\n", want.MaxJustificationWords, want.MaxJustificationChars)
		fmt.Fprintf(&b, "  max_escalations: %d\n  base_category: %d\n  max_retries: %d\n  query_ttl: %ds\n", want.MaxEscalations, want.BaseCategory, want.MaxRetries, want.QueryTTL/time.Second)
		fmt.Fprintf(&b, "  window_budget_bits: %s\n  budget_window: %ds\n  budget_renew: %ds\n  push_budget_bits: %s\n", want.WindowBudget, want.BudgetWindow/time.Second, want.BudgetRenew/time.Second, want.PushBudget)
		fmt.Fprintf(&b, "  capacity_budget_bits: %s\n  alert_bits: %s\n  release_interval: %dm%ds\n", want.CapacityBudget, want.AlertBits, want.ReleaseInterval/time.Minute, want.ReleaseInterval%time.Minute/time.Second)
		fmt.Fprintf(&b, "  on_anomaly: %s\n  preserve_case: %v\n  max_pending_approvals: %d\n  approval_ttl: %ds\n  subscriptions:\n", want.OnAnomaly, want.PreserveCase, want.MaxPendingApprovals, want.ApprovalTTL/time.Second)
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9-]{1,64}`), 1, 4, rapid.ID[string]).Draw(t, "ids")
		for _, id := range ids {
			low := rapid.Int64().Draw(t, "min")
			high := rapid.Int64Min(low).Draw(t, "max")
			directive := "x" + text.Draw(t, "directive")
			spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "n", Type: bcp.TypeInteger, Min: &low, Max: &high}}}
			if rapid.Bool().Draw(t, "summary") {
				spec = bcp.Spec{Category: 3, Directive: directive, MaxWords: rapid.IntRange(1, 1000).Draw(t, "words")}
				fmt.Fprintf(&b, "  - {id: %q, category: 3, max_words: %d, directive: %s}\n", id, spec.MaxWords, quoteYAML(directive))
			} else {
				fmt.Fprintf(&b, "  - id: %q\n    category: 1\n    fields:\n    - {name: n, type: integer, min: %d, max: %d}\n", id, low, high)
			}
			want.Subscriptions = append(want.Subscriptions, bcp.Subscription{ID: bcp.SubscriptionID(id), Spec: spec})
		}
		prompt := rapid.String().Draw(t, "prompt")
		b.WriteString("---\n" + prompt)
		mesh, report := definition.Parse(files("agents/x.md", b.String(), "agents/r.md", reader("r", "", fmt.Sprintf("%q", self))))
		if mesh == nil {
			t.Fatalf("%v\n%s", report.Errors, b.String())
		}
		if diff := cmp.Diff([]bcp.Channel{want}, mesh.Channels); diff != "" {
			t.Error(diff)
		}
		if agent, ok := mesh.Agent(bcp.AgentName(self)); !ok || agent.Prompt != prompt {
			t.Errorf("prompt %q", agent.Prompt)
		}
	})
}

// quoteYAML writes text in one of YAML's quoted forms.
func quoteYAML(text string) string {
	if strings.ContainsAny(text, "\n\t\\") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text) + `"`
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
