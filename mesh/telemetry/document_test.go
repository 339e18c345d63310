package telemetry_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

const document = "../../docs/metrics.md"

// docs/metrics.md lists the metrics that there are, and its examples name no
// others.
func TestDocument(t *testing.T) {
	t.Parallel()
	text := must(os.ReadFile(document))(t)
	const begin, end = "<!-- begin -->\n", "<!-- end -->\n"
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	stopIf(t, !found || !closed, "the marks of the list are missing")
	var list strings.Builder
	known := map[string]bool{}
	for _, f := range telemetry.Families() {
		known[f.FullName()] = true
		labels := ""
		if len(f.Labels) > 0 {
			labels = " (`" + strings.Join(f.Labels, "`, `") + "`)"
		}
		fmt.Fprintf(&list, "- `%s`%s: %s\n", f.FullName(), labels, f.Help)
	}
	want := []byte(head + begin + list.String() + end + tail)
	if *update && !bytes.Equal(want, text) {
		noError(t, os.WriteFile(document, want, 0o644))
		text = want
	}
	diff := cmp.Diff(string(want), string(text))
	failIf(t, diff != "", "-want +got:\n%s", diff)
	for _, name := range regexp.MustCompile(`bcpmesh_[a-z_]+`).FindAllString(head+tail, -1) {
		failIf(t, !known[name], "it names %s, which is no metric", name)
	}
}

// The exposition has exactly the declared metrics, with their types, labels and
// texts, and names that say their unit.
func TestDeclaredIsExposed(t *testing.T) {
	t.Parallel()
	files := office("    capacity_budget_bits: 5000\n    release_interval: 1s\n    window_budget_bits: 900\n")
	files["seat.md"] = "---\nname: seat\ncommand: builtin\nmodel: ollama/m\nsandbox: none\nbcp_channels: [{peer: boss, role: reader}]\n---\n"
	files["mesh.yaml"] += "notify: [{name: desk, command: [\"true\"]}]\n"
	m := start(t, files)
	s := m.scrape(t)
	declared := map[string]bool{}
	for _, f := range telemetry.Families() {
		name := f.FullName()
		failIf(t, declared[name], "%s is declared twice", name)
		declared[name] = true
		exposed := s.families[name]
		if exposed == nil || len(exposed.Metric) == 0 {
			t.Errorf("%s is not exposed", name)
			continue
		}
		got := strings.ToLower(exposed.GetType().String())
		failIf(t, got != string(f.Type), "%s is a %s, not a %s", name, got, f.Type)
		failIf(t, exposed.GetHelp() != f.Help+".", "%s says %q", name, exposed.GetHelp())
		for _, metric := range exposed.Metric {
			var labels []string
			for _, l := range metric.Label {
				labels = append(labels, l.GetName())
			}
			slices.Sort(labels)
			want := slices.Sorted(slices.Values(f.Labels))
			failIf(t, !slices.Equal(labels, want), "%s has labels %v, not %v", name, labels, want)
		}
		failIf(t, strings.HasSuffix(name, "_total") != (f.Type == telemetry.Counter), "%s is a %s", name, f.Type)
		for _, unit := range []string{"bits", "seconds"} {
			failIf(t, f.Unit == unit && !strings.HasSuffix(strings.TrimSuffix(name, "_total"), "_"+unit),
				"%s does not say %s", name, unit)
		}
	}
	for name := range s.families {
		failIf(t, !declared[name], "%s is not declared", name)
	}
}
