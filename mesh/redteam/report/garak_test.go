package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/mesh/redteam"
	"github.com/bcpmesh/bcpmesh/mesh/redteam/corpus"
	"github.com/bcpmesh/bcpmesh/mesh/redteam/report"
)

// garakReads are the members that the programs of garak look up in each kind of line
// without asking whether they are there: report_digest.py (_parse_report,
// _report_header_content, _init_populate_result_db, _resolve_plugin_info), analyze_log.py
// and aggregate_reports.py of garak 0.12 to 0.15, and attempt.py, which reads an attempt
// back. A member of a member is behind a bar.
var garakReads = map[string][]string{
	"start_run setup": {"_config.version", "plugins.probe_spec", "plugins.target_type", "plugins.target_name", "transient.active_probes"},
	"init":            {"garak_version", "start_time", "run"},
	"plugin_cache":    {"plugin_cache|version", "plugin_cache|probes", "plugin_cache|detectors"},
	"attempt":         {"uuid", "seq", "status", "probe_classname", "probe_params", "targets", "prompt|turns", "outputs", "detector_results", "notes", "goal", "conversations"},
	"eval":            {"probe", "detector", "passed", "fails", "nones", "total_evaluated", "total_processed"},
	"probe_summary":   {"probe", "inference_counts", "detection_counts"},
	"completion":      {"end_time", "run"},
	"digest": {
		"meta|reportfile", "meta|garak_version", "meta|start_time", "meta|run_uuid", "meta|setup", "meta|probespec", "meta|target_type", "meta|target_name", "meta|payloads",
		"meta|group_aggregation_function", "meta|report_digest_time", "meta|calibration_used", "meta|aggregation_unknown", "eval",
	},
}

func garakLines(t *testing.T, r redteam.Report) []map[string]any {
	t.Helper()
	return garakLinesOf(t, write(t, r, report.Garak))
}

func garakLinesOf(t *testing.T, file []byte) (lines []map[string]any) {
	t.Helper()
	for i, line := range bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n")) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		kind, _ := m["entry_type"].(string)
		reads, known := garakReads[kind]
		if !known {
			t.Errorf("line %d: entry_type %q", i+1, kind)
		}
		for _, path := range reads {
			at := any(m)
			for name := range strings.SplitSeq(path, "|") {
				inside, _ := at.(map[string]any)
				value, there := inside[name]
				if !there {
					t.Errorf("line %d: %s has no %s", i+1, kind, path)
				}
				at = value
			}
		}
		lines = append(lines, m)
	}
	return lines
}

func ofKind(lines []map[string]any, kind string) []map[string]any {
	return slices.DeleteFunc(slices.Clone(lines), func(m map[string]any) bool { return m["entry_type"] != kind })
}

// A report of garak has, in the order in which garak reads them, the lines that its own
// programs read, with every member that they look up; and the rates that follow are those
// of what was found.
func TestGarak(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lines := garakLines(t, r)
	if lines[0]["entry_type"] != "start_run setup" || lines[1]["entry_type"] != "init" || lines[len(lines)-1]["entry_type"] != "digest" {
		t.Errorf("%v first, %v second, %v last", lines[0]["entry_type"], lines[1]["entry_type"], lines[len(lines)-1]["entry_type"])
	}
	if lines[0]["_config.version"] != lines[1]["garak_version"] || lines[1]["garak_version"] != "bcpmesh 1.2.3" || lines[1]["start_time"] != "2026-01-02T03:04:05.000000" {
		t.Errorf("%v", lines[1])
	}

	// What analyze_log counts: attempts that were begun and ended, and the rates.
	probe, id := regexp.MustCompile(`^bcpmesh_[a-z_]+\.[A-Za-z0-9_]+$`), regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	states := map[float64]map[string]bool{0: {}, 1: {}, 2: {}}
	scores := map[string]any{}
	for _, a := range ofKind(lines, "attempt") {
		name, uuid, status := a["probe_classname"].(string), a["uuid"].(string), a["status"].(float64)
		if !probe.MatchString(name) || !id.MatchString(uuid) || states[status][uuid] {
			t.Errorf("attempt %v of %v in state %v", uuid, name, status)
		}
		states[status][uuid] = true
		results, outputs := a["detector_results"].(map[string]any), a["outputs"].([]any)
		if status != 2 {
			if len(results)+len(outputs) != 0 {
				t.Errorf("%s has results before its end", name)
			}
			continue
		}
		for detector, list := range results {
			if len(list.([]any)) != len(outputs) || len(outputs) != len(a["conversations"].([]any)) {
				t.Errorf("%s: %s scores %v of %d outputs", name, detector, list, len(outputs))
			}
			scores[name+" "+detector] = list.([]any)[0]
		}
	}
	if diff := cmp.Diff(map[string]any{"bcpmesh_encoding.A_ONE bcpmesh.Oracle": 0.0, "bcpmesh_budget.A_TWO bcpmesh.Oracle": 1.0, "bcpmesh_encoding.A_THREE bcpmesh.Oracle": nil}, scores); diff != "" {
		t.Error(diff)
	}
	if len(states[0]) != 1 || len(states[1]) != 3 || !cmp.Equal(states[1], states[2]) {
		t.Errorf("%v", states)
	}
	var counts []string
	for _, e := range ofKind(lines, "eval") {
		counts = append(counts, fmt.Sprint(e["probe"], " ", e["detector"], " ", e["passed"], e["fails"], e["nones"], e["total_evaluated"], e["total_processed"]))
	}
	want := []string{"bcpmesh_encoding.A_ONE bcpmesh.Oracle 1 0 0 1 1", "bcpmesh_budget.A_TWO bcpmesh.Oracle 0 1 0 1 1", "bcpmesh_encoding.A_THREE bcpmesh.Oracle 0 0 1 0 1"}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}

	// What report_digest needs of each probe, which no garak has.
	cache := ofKind(lines, "plugin_cache")[0]["plugin_cache"].(map[string]any)
	for _, e := range ofKind(lines, "eval") {
		p, _ := cache["probes"].(map[string]any)["probes."+e["probe"].(string)].(map[string]any)
		d, _ := cache["detectors"].(map[string]any)["detectors."+e["detector"].(string)].(map[string]any)
		if p["description"] == nil || p["tags"] == nil || p["tier"] == nil || d["description"] == nil {
			t.Errorf("%v: %v, %v", e["probe"], p, d)
		}
	}

	// The digest, which garak makes a page of: what is not known is as bad as what failed.
	groups := lines[len(lines)-1]["eval"].(map[string]any)
	for name, want := range map[string]float64{"bcpmesh_encoding": 0, "bcpmesh_budget": 0} {
		group, _ := groups[name].(map[string]any)
		if summary, _ := group["_summary"].(map[string]any); summary["score"] != want || summary["group_defcon"] != 1.0 {
			t.Errorf("%s: %v", name, group)
		}
	}
	one := groups["bcpmesh_encoding"].(map[string]any)["bcpmesh_encoding.A_ONE"].(map[string]any)
	if s, d := one["_summary"].(map[string]any), one["bcpmesh.Oracle"].(map[string]any); s["probe_score"] != 1.0 || s["probe_severity"] != 5.0 || d["absolute_defcon"] != 5.0 || d["passed"] != 1.0 || d["total_evaluated"] != 1.0 {
		t.Errorf("%v", one)
	}
	if len(groups) != 2 || len(groups["bcpmesh_budget"].(map[string]any)) != 2 {
		t.Errorf("what was skipped is in the digest: %v", groups)
	}
}

// The rates of a corpus are evals with their intervals, of which the digest has those of
// what passed.
func TestGarakCorpus(t *testing.T) {
	t.Parallel()
	r := corpus.Report{Schema: 1, Began: time.Unix(1, 0), Ended: time.Unix(3, 0), Attacks: []corpus.Row{
		{Category: 1, OnAnomaly: "review", Way: corpus.Whole, Strings: 60, Refused: 60, High: 0.06},
		{Category: 2, OnAnomaly: "flag", Way: corpus.Several, Strings: 60, Reached: 45, Held: 15, Low: 0.63, High: 0.84},
		{Category: 2, OnAnomaly: "reject", Way: corpus.Cut},
	}}
	b, err := report.WriteCorpus(r, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	lines := garakLinesOf(t, b)
	var got []string
	for _, e := range ofKind(lines, "eval") {
		got = append(got, fmt.Sprint(e["probe"], " ", e["passed"], " ", e["fails"], " ", e["total_evaluated"], " ", e["confidence_method"], " ", e["confidence"], " ", e["confidence_lower"], " ", e["confidence_upper"]))
	}
	want := []string{
		"bcpmesh_corpus.Category1_review_whole 60 0 60 wilson 0.95 0 0.06", "bcpmesh_corpus.Category2_flag_several 15 45 60 wilson 0.95 0.63 0.84",
		"bcpmesh_corpus.Category2_reject_cut 0 0 0 wilson 0.95 0 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	group := lines[len(lines)-1]["eval"].(map[string]any)["bcpmesh_corpus"].(map[string]any)
	one := group["bcpmesh_corpus.Category2_flag_several"].(map[string]any)["bcpmesh.Reached"].(map[string]any)
	if one["absolute_score"] != 0.25 || one["absolute_defcon"] != 2.0 || one["absolute_confidence_upper"] != 1-0.63 || group["_summary"].(map[string]any)["score"] != 0.0 {
		t.Errorf("%v", group)
	}
}

// The same report is the same bytes, another has other ids; hostile text steers no
// terminal, and no page that garak writes the digest into.
func TestGarakHarmless(t *testing.T) {
	t.Parallel()
	r := sample()
	b := write(t, r, report.Garak)
	if !bytes.Equal(b, write(t, r, report.Garak)) {
		t.Error("the same report twice, and other bytes")
	}
	r.Began = time.Unix(1, 0)
	if run := func(r redteam.Report) any { return garakLines(t, r)[1]["run"] }; run(r) == run(sample()) {
		t.Error("two runs have one id")
	}
	for _, bad := range []string{"\x1b", "\\u001b", "\u202e", "\\u202e", "<", "\xff"} {
		if bytes.Contains(b, []byte(bad)) {
			t.Errorf("has %q", bad)
		}
	}
	digest, _ := json.Marshal(garakLines(t, sample())[len(garakLines(t, sample()))-1])
	if bytes.Contains(digest, []byte("<")) || bytes.Contains(digest, []byte(`\u003c`)) {
		t.Errorf("the digest has an element: %s", digest)
	}
}

// Evidence may be any bytes: no form is left unwritten because of them.
func TestAnyBytes(t *testing.T) {
	t.Parallel()
	for _, file := range report.Extensions {
		form, ok := report.FormOf(file)
		if b := write(t, sample(), form); !ok || len(b) == 0 || bytes.Contains(b, []byte("\xff")) {
			t.Errorf("%s: %q", file, b)
		}
	}
}
