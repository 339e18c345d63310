// Package report writes the findings of a red team in the formats of other
// tools: JUnit for build servers, SARIF 2.1.0 for code scanning, one page of
// HTML for people, garak's report format, and JSON. It also compares two
// reports.
//
// All functions are pure. Findings may contain hostile text; it is made inert
// (package inert) in every format except JSON and SARIF, which carry it as a
// string value.
package report

import (
	"fmt"
	"html"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/mesh/redteam"
	"github.com/bcpmesh/bcpmesh/mesh/sarif"
)

// Form is a format of a report. The zero value is invalid.
type Form uint8

// The forms, by the extensions of their files.
const (
	JSON  Form = iota + 1 // .json
	JUnit                 // .xml
	SARIF                 // .sarif
	HTML                  // .html
	Garak                 // .jsonl
)

// Extensions are those of the forms, in their order.
var Extensions = []string{".json", ".xml", ".sarif", ".html", ".jsonl"}

// FormOf returns the form of a file by its extension.
func FormOf(file string) (Form, bool) {
	for i, extension := range Extensions {
		if strings.EqualFold(filepath.Ext(file), extension) {
			return Form(i + 1), true
		}
	}
	return 0, false
}

// Write returns a report in a form. version is that of the program, and folder that of
// the definitions, relative to the root of the repository and with slashes.
func Write(r redteam.Report, form Form, version, folder string) ([]byte, error) {
	switch form {
	case JSON:
		return writeJSON(r)
	case JUnit:
		return writeJUnit(r), nil
	case SARIF:
		return writeSARIF(r, version, folder)
	case HTML:
		return writeHTML(r), nil
	case Garak:
		return writeGarak(r, version)
	}
	return nil, fmt.Errorf("report: no form %d", form)
}

func indented(v any) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true)) // evidence may be any bytes
	return append(b, '\n'), err
}

// OK reports whether every attack was stopped, or did not apply.
func OK(r redteam.Report) bool {
	return len(r.Results) > 0 && r.Count(redteam.Held)+r.Count(redteam.Skipped) == len(r.Results)
}

// Document is the form JSON.
type Document struct {
	OK bool `json:"ok"`
	redteam.Report
}

func writeJSON(r redteam.Report) ([]byte, error) { return indented(Document{OK(r), r}) }

// writeJUnit: an attack is a case of the suite of its class. What could not be run is an
// error: nothing is known.
func writeJUnit(r redteam.Report) []byte {
	var b strings.Builder
	text := func(s string) string { return html.EscapeString(inert.Text(s)) }
	b.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
	fmt.Fprintf(&b, "<testsuites name=\"bcpmesh redteam\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"%s\">\n",
		len(r.Results), r.Count(redteam.Broken), r.Count(redteam.NotRun), r.Count(redteam.Skipped), seconds(r.Results))
	for _, class := range classes(r) {
		of := redteam.Report{}
		for _, result := range r.Results {
			if result.Class == class {
				of.Results = append(of.Results, result)
			}
		}
		fmt.Fprintf(&b, "  <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"%s\">\n",
			text(string(class)), len(of.Results), of.Count(redteam.Broken), of.Count(redteam.NotRun), of.Count(redteam.Skipped), seconds(of.Results))
		for _, result := range of.Results {
			fmt.Fprintf(&b, "    <testcase classname=\"%s\" name=\"%s\" time=\"%s\"", text(string(class)), text(result.ID+": "+result.Text), seconds([]redteam.Result{result}))
			element := map[redteam.Verdict]string{redteam.Broken: "failure", redteam.NotRun: "error", redteam.Skipped: "skipped"}[result.Verdict]
			if element == "" {
				b.WriteString("/>\n")
				continue
			}
			fmt.Fprintf(&b, ">\n      <%s message=\"%s\">%s</%s>\n    </testcase>\n", element, text(result.Property), text(strings.Join(result.Evidence, "; ")), element)
		}
		b.WriteString("  </testsuite>\n")
	}
	b.WriteString("</testsuites>\n")
	return []byte(b.String())
}

// classes returns those of the results, in the order of their first occurrence.
func classes(r redteam.Report) (list []redteam.Class) {
	seen := map[redteam.Class]bool{}
	for _, result := range r.Results {
		if !seen[result.Class] {
			seen[result.Class] = true
			list = append(list, result.Class)
		}
	}
	return list
}

func seconds(results []redteam.Result) string {
	var total time.Duration
	for _, r := range results {
		total += time.Duration(r.TookMS) * time.Millisecond
	}
	return fmt.Sprintf("%.3f", total.Seconds())
}

// writeSARIF: an attack is a rule. One that got through is an error at the definitions,
// an unknown result asks for a review; attacks that were stopped are not listed.
func writeSARIF(r redteam.Report, version, folder string) ([]byte, error) {
	var rules []sarif.Rule
	var findings []sarif.Finding
	for _, result := range r.Results {
		rules = append(rules, sarif.Rule{ID: result.ID, Short: result.Text, Full: result.Property, Level: sarif.Error})
		level := map[redteam.Verdict]sarif.Level{redteam.Broken: sarif.Error, redteam.NotRun: sarif.Review}[result.Verdict]
		if level != 0 {
			findings = append(findings, sarif.Finding{Rule: result.ID, Level: level, Text: result.Property + ": " + strings.Join(result.Evidence, "; "), File: path.Join(folder, "mesh.yaml")})
		}
	}
	return sarif.Write("bcpmesh redteam", version, rules, findings)
}

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>bcpmesh redteam</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #8886 }
.broken { font-weight: 700; color: light-dark(#a00, #f88) }
.unknown { font-weight: 700; color: light-dark(#850, #fc6) }
code { overflow-wrap: anywhere }
</style>
</head>
<body>
<main>
<h1>What the red team found</h1>
`

// writeHTML writes one page without scripts and without anything from elsewhere.
func writeHTML(r redteam.Report) []byte {
	var b strings.Builder
	text := func(s string) string { return html.EscapeString(inert.Text(s)) }
	b.WriteString(page)
	fmt.Fprintf(&b, "<p>%d held, %d got through, %d could not be run, %d did not apply. Seed %d.</p>\n<p>What held is no proof: it says that these attacks did not get through.</p>\n",
		r.Count(redteam.Held), r.Count(redteam.Broken), r.Count(redteam.NotRun), r.Count(redteam.Skipped), r.Seed)
	b.WriteString("<table>\n<thead><tr><th scope=\"col\">Attack</th><th scope=\"col\">Class</th><th scope=\"col\">Verdict</th><th scope=\"col\">The attacker</th></tr></thead>\n<tbody>\n")
	for _, verdict := range []redteam.Verdict{redteam.Broken, redteam.NotRun, redteam.Held, redteam.Skipped} { // worst first
		for _, result := range r.Results {
			if result.Verdict != verdict {
				continue
			}
			class := map[redteam.Verdict]string{redteam.Broken: ` class="broken"`, redteam.NotRun: ` class="unknown"`}[verdict]
			fmt.Fprintf(&b, "<tr><th scope=\"row\"><code>%s</code></th><td>%s</td><td%s>%s</td><td>%s", text(result.ID), text(string(result.Class)), class, text(verdict.String()), text(result.Text))
			for _, e := range result.Evidence {
				fmt.Fprintf(&b, "<br><code>%s</code>", text(e))
			}
			b.WriteString("</td></tr>\n")
		}
	}
	b.WriteString("</tbody>\n</table>\n</main>\n</body>\n</html>\n")
	return []byte(b.String())
}
