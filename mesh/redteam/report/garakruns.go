package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/mesh/redteam"
	"github.com/bcpmesh/bcpmesh/mesh/redteam/corpus"
)

// writeGarak: a class is a module of probes, an attack a probe with one attempt, and the
// oracle its one detector. An attack that could not be run is an attempt that no
// detector could score: garak omits it from its rates, and the digest counts it as the
// worst. What does not apply was never sent.
func writeGarak(r redteam.Report, version string) ([]byte, error) {
	g := garakRun{
		version: version, file: "redteam.report.jsonl", seed: r.Seed, began: r.Began, ended: r.Began, detector: "bcpmesh.Oracle",
		detectorText: "Code that the gateway does not have looks at what Controllers got, at logs, metrics and files, and verifies an export of the journal.",
	}
	for i, result := range r.Results {
		g.ended = g.ended.Add(time.Duration(result.TookMS) * time.Millisecond)
		g.probes = append(g.probes, g.attack(g.id(i), result))
	}
	return g.write()
}

// attack is the probe of one attack, with its attempt as it begins and as it ends.
func (g garakRun) attack(id string, result redteam.Result) garakProbe {
	p := garakProbe{name: garakModule + garakName(string(result.Class)) + "." + garakName(result.ID), text: result.Text, goal: result.Property, tried: result.Verdict != redteam.Skipped}
	message := func(text string) garakMessage {
		return garakMessage{Text: inert.Text(text), Lang: "en", Notes: map[string]any{}}
	}
	prompt := garakConversation{[]garakTurn{{"user", message(result.Text)}}, map[string]any{}}
	begun := garakAttempt{
		EntryType: "attempt", UUID: id, Status: garakStarted, Probe: p.name, Params: map[string]any{}, Targets: []string{},
		Prompt: prompt, Outputs: []garakMessage{}, DetectorResults: map[string][]*float64{}, Notes: map[string]any{"attack": inert.Text(result.ID), "verdict": result.Verdict.String()},
		Goal: inert.Text("show that this does not hold: " + result.Property), Conversations: []garakConversation{prompt}, Translated: []garakMessage{},
	}
	if !p.tried {
		begun.Status, begun.Notes["reason"] = garakNew, inert.Text(strings.Join(result.Evidence, "; "))
		p.lines = []any{begun}
		return p
	}
	p.eval = garakEval{EntryType: "eval", Probe: p.name, Detector: g.detector, Processed: 1}
	var score *float64
	switch result.Verdict {
	case redteam.Held:
		p.eval.Passed, p.eval.Evaluated, score = 1, 1, new(0.0)
	case redteam.Broken:
		p.eval.Fails, p.eval.Evaluated, score = 1, 1, new(1.0)
	default:
		p.eval.Nones = 1
	}
	ended, output := begun, message(strings.Join(append([]string{result.Verdict.String()}, result.Evidence...), "; "))
	ended.Status, ended.Outputs = garakComplete, []garakMessage{output}
	ended.Conversations = []garakConversation{{[]garakTurn{prompt.Turns[0], {"assistant", output}}, map[string]any{}}}
	ended.DetectorResults = map[string][]*float64{g.detector: {score}}
	p.lines = []any{begun, ended}
	return p
}

// WriteCorpus returns the rates of a corpus as a report of garak, with Wilson's intervals
// at 95 %: a probe is a category, an on_anomaly and a way to say a string, and a detected
// attempt is a string that reached a Controller unheld. It has no attempts, since the
// report only has rates.
func WriteCorpus(r corpus.Report, version string) ([]byte, error) {
	g := garakRun{
		version: version, file: "corpus.report.jsonl", seed: r.Seed, began: r.Began, ended: r.Ended, detector: "bcpmesh.Reached",
		detectorText: "Four words of a string or more are in what a Controller gets, and no person has seen them.",
	}
	for _, row := range r.Attacks {
		low, high := row.Low, row.High
		p := garakProbe{
			name: fmt.Sprintf("%scorpus.Category%d_%s_%s", garakModule, row.Category, garakName(row.OnAnomaly), garakName(string(row.Way))), tried: true,
			text: fmt.Sprintf("An obedient Reader says strings of attackers in category %d (on_anomaly: %s, %s).", row.Category, row.OnAnomaly, row.Way),
			goal: "have an instruction reach a Controller unheld",
		}
		p.eval = garakEval{EntryType: "eval", Probe: p.name, Detector: g.detector, Passed: row.Strings - row.Reached, Fails: row.Reached, Evaluated: row.Strings, Processed: row.Strings,
			Method: "wilson", Level: "0.95", Lower: &low, Upper: &high}
		g.probes = append(g.probes, p)
	}
	return g.write()
}
