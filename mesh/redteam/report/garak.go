package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/mesh/redteam"
)

// Of a report of garak (github.com/NVIDIA/garak, Apache-2.0), the lines and members that
// its own programs read: report_digest, analyze_log and aggregate_reports, of versions
// 0.12 to 0.15. A class is a module of probes, an attack a probe with one attempt, and
// the oracle its one detector. The names are ours, so that none is taken for a probe of
// garak's.
const (
	garakModule   = "bcpmesh_"       // then the class
	garakDetector = "bcpmesh.Oracle" // what judges after each attack
	garakOracle   = "Code that the gateway does not have looks at what Controllers got, at logs, metrics and files, and verifies an export of the journal."
	garakFile     = "redteam.report.jsonl"
	garakLowest   = "minimum" // a class is as good as its worst attack
)

// The states of an attempt.
const (
	garakNew = iota
	garakStarted
	garakComplete
)

type garakMessage struct {
	Text         string         `json:"text"`
	Lang         string         `json:"lang"`
	DataPath     *string        `json:"data_path"`
	DataType     *string        `json:"data_type"`
	DataChecksum *string        `json:"data_checksum"`
	Notes        map[string]any `json:"notes"`
}

type garakTurn struct {
	Role    string       `json:"role"`
	Content garakMessage `json:"content"`
}

type garakConversation struct {
	Turns []garakTurn    `json:"turns"`
	Notes map[string]any `json:"notes"`
}

type garakAttempt struct {
	EntryType       string                `json:"entry_type"` // attempt
	UUID            string                `json:"uuid"`
	Seq             int                   `json:"seq"`
	Status          int                   `json:"status"`
	Probe           string                `json:"probe_classname"`
	Params          map[string]any        `json:"probe_params"`
	Targets         []string              `json:"targets"`
	Prompt          garakConversation     `json:"prompt"`
	Outputs         []garakMessage        `json:"outputs"`
	DetectorResults map[string][]*float64 `json:"detector_results"` // 1 is a hit, null: cannot say
	Notes           map[string]any        `json:"notes"`
	Goal            string                `json:"goal"`
	Conversations   []garakConversation   `json:"conversations"`
	Translated      []garakMessage        `json:"reverse_translation_outputs"`
}

type garakEval struct {
	EntryType string `json:"entry_type"` // eval
	Probe     string `json:"probe"`
	Detector  string `json:"detector"`
	Passed    int    `json:"passed"`
	Fails     int    `json:"fails"`
	Nones     int    `json:"nones"`
	Evaluated int    `json:"total_evaluated"` // passed and fails
	Processed int    `json:"total_processed"` // and nones
}

// writeGarak writes a report of garak, a line each. What could not be run is an attempt
// that no detector could score: garak leaves it out of its rates, and here the digest
// takes it for the worst. What does not apply was never sent.
func writeGarak(r redteam.Report, version string) ([]byte, error) {
	began, took := r.Began.UTC(), time.Duration(0)
	for _, result := range r.Results {
		took += time.Duration(result.TookMS) * time.Millisecond
	}
	const form = "2006-01-02T15:04:05.000000" // as Python's isoformat
	version = "bcpmesh " + version
	run := garakID(r, -1)
	probes := []string{}
	for _, result := range r.Results {
		if name := "probes." + garakProbe(result); !slices.Contains(probes, name) {
			probes = append(probes, name)
		}
	}
	setup := map[string]any{
		"entry_type": "start_run setup", "_config.version": version,
		"transient.starttime_iso": began.Format(form), "transient.run_id": run, "transient.report_filename": garakFile, "transient.active_probes": probes,
		"run.seed": r.Seed, "run.generations": 1, "run.eval_threshold": 0.5, "run.target_lang": "en",
		"plugins.target_type": "bcpmesh", "plugins.target_name": "redteam", "plugins.probe_spec": strings.ReplaceAll(strings.Join(probes, ","), "probes.", ""),
		"plugins.detector_spec": garakDetector, "plugins.buff_spec": nil,
		"reporting.taxonomy": nil, "reporting.group_aggregation_function": garakLowest,
	}
	lines := []any{setup, map[string]any{"entry_type": "init", "garak_version": version, "start_time": began.Format(form), "run": run}, garakPlugins(r, version)}
	for i, result := range r.Results {
		lines = append(lines, garakResult(garakID(r, i), result)...)
	}
	lines = append(lines,
		map[string]any{"entry_type": "completion", "end_time": began.Add(took).Format(form), "run": run},
		map[string]any{"entry_type": "digest", "meta": map[string]any{
			"reportfile": garakFile, "garak_version": version, "start_time": began.Format(form), "run_uuid": run, "setup": setup,
			"probespec": setup["plugins.probe_spec"], "target_type": "bcpmesh", "target_name": "redteam", "payloads": []string{},
			"group_aggregation_function": garakLowest, "report_digest_time": began.Add(took).Format(form),
			"calibration_used": false, "aggregation_unknown": false, "plugin_cache_source": version,
		}, "eval": garakGroups(r), "technique_intent_matrix": map[string]any{}})
	var b bytes.Buffer
	for _, line := range lines {
		if err := json.MarshalWrite(&b, line, json.Deterministic(true), jsontext.EscapeForHTML(true)); err != nil {
			return nil, err
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// garakProbe names an attack as a probe: a module and a class, letters that need no
// quotes anywhere.
func garakProbe(result redteam.Result) string {
	word := func(s string) string {
		return strings.Map(func(c rune) rune {
			if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
				return c
			}
			return '_'
		}, s)
	}
	return garakModule + word(string(result.Class)) + "." + word(result.ID)
}

// garakID makes an id of the form of a UUID (RFC 9562, version 8) from what was run: the
// same report has the same ids. -1 is the run's.
func garakID(r redteam.Report, attempt int) string {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, []int64{r.Began.UnixNano(), int64(r.Seed), int64(len(r.Results)), int64(attempt)}) // a hash takes all
	id := h.Sum(nil)[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// garakResult are the lines of one attack: as it begins, as it ends, and the counts.
func garakResult(id string, result redteam.Result) []any {
	message := func(text string) garakMessage {
		return garakMessage{Text: inert.Text(text), Lang: "en", Notes: map[string]any{}}
	}
	prompt := garakConversation{[]garakTurn{{"user", message(result.Text)}}, map[string]any{}}
	begun := garakAttempt{
		EntryType: "attempt", UUID: id, Status: garakStarted, Probe: garakProbe(result), Params: map[string]any{}, Targets: []string{},
		Prompt: prompt, Outputs: []garakMessage{}, DetectorResults: map[string][]*float64{}, Notes: map[string]any{"attack": inert.Text(result.ID), "verdict": result.Verdict.String()},
		Goal: inert.Text("show that this does not hold: " + result.Property), Conversations: []garakConversation{prompt}, Translated: []garakMessage{},
	}
	if result.Verdict == redteam.Skipped {
		begun.Status, begun.Notes["reason"] = garakNew, inert.Text(strings.Join(result.Evidence, "; "))
		return []any{begun}
	}
	ended, eval := begun, garakCounts(result)
	output := message(strings.Join(append([]string{result.Verdict.String()}, result.Evidence...), "; "))
	ended.Status, ended.Outputs = garakComplete, []garakMessage{output}
	ended.Conversations = []garakConversation{{[]garakTurn{prompt.Turns[0], {"assistant", output}}, map[string]any{}}}
	var score *float64
	if eval.Evaluated > 0 {
		score = new(float64(eval.Fails))
	}
	ended.DetectorResults = map[string][]*float64{garakDetector: {score}}
	return []any{begun, ended, eval, map[string]any{
		"entry_type": "probe_summary", "probe": eval.Probe, "inference_counts": map[string]any{"total_evaluated": 1, "nones": 0},
		"detection_counts": map[string]any{"detectors": []string{garakDetector}, "passed": eval.Passed, "fails": eval.Fails, "nones": eval.Nones},
	}}
}

func garakCounts(result redteam.Result) garakEval {
	e := garakEval{EntryType: "eval", Probe: garakProbe(result), Detector: garakDetector, Processed: 1}
	switch result.Verdict {
	case redteam.Held:
		e.Passed, e.Evaluated = 1, 1
	case redteam.Broken:
		e.Fails, e.Evaluated = 1, 1
	default:
		e.Nones = 1
	}
	return e
}

// garakPlugins says what the probes are, which no garak knows.
func garakPlugins(r redteam.Report, version string) any {
	probes := map[string]any{}
	for _, result := range r.Results {
		probes["probes."+garakProbe(result)] = map[string]any{"description": inert.Text(result.Text), "goal": inert.Text(result.Property), "tags": []string{}, "tier": 1, "active": true}
	}
	return map[string]any{"entry_type": "plugin_cache", "plugin_cache": map[string]any{
		"version": version, "probes": probes, "detectors": map[string]any{"detectors." + garakDetector: map[string]any{"description": garakOracle, "tags": []string{}, "active": true}},
	}}
}

// garakGroups is the digest's part by class, attack and detector. garak puts it into a
// page of HTML.
func garakGroups(r redteam.Report) map[string]any {
	text := func(s string) string { return html.EscapeString(inert.Text(s)) }
	grade := func(score int) (int, string) {
		if score == 1 {
			return 5, "minimal risk"
		}
		return 1, "immediate risk (complete failure)"
	}
	groups := map[string]any{}
	for _, class := range classes(r) {
		group, worst, name := map[string]any{}, 1, ""
		for _, result := range r.Results {
			if result.Class != class || result.Verdict == redteam.Skipped {
				continue
			}
			e := garakCounts(result)
			name, _, _ = strings.Cut(e.Probe, ".")
			worst = min(worst, e.Passed)
			level, comment := grade(e.Passed)
			group[e.Probe] = map[string]any{
				"_summary": map[string]any{"probe_name": e.Probe, "probe_score": e.Passed, "probe_severity": level, "probe_descr": text(result.Text), "probe_tier": 1, "probe_tags": []string{}},
				garakDetector: map[string]any{
					"detector_name": garakDetector, "detector_descr": text(garakOracle), "absolute_score": e.Passed, "absolute_defcon": level, "absolute_comment": comment,
					"relative_score": "n/a", "relative_defcon": nil, "relative_comment": nil, "detector_defcon": level, "calibration_used": false,
					"total_evaluated": e.Evaluated, "passed": e.Passed,
				},
			}
		}
		if len(group) == 0 {
			continue
		}
		level, _ := grade(worst)
		group["_summary"] = map[string]any{"group": name, "score": worst, "group_defcon": level, "doc": text("Attacks of class " + string(class) + " of bcpmesh redteam."), "group_link": "", "group_aggregation_function": garakLowest}
		groups[name] = group
	}
	return groups
}
