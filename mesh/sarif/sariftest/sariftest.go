// Package sariftest checks logs of SARIF in tests. It shares no code with package sarif.
package sariftest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Problems returns how a log violates the schema of SARIF 2.1.0 (sarif-schema-2.1.0.json:
// required, enum, minimum, uniqueItems) and the needs of code scanning: each result has a
// rule that exists, a text, and a place in a file of the repository. It is empty for a
// valid log.
func Problems(b []byte) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var log map[string]any
	if err := json.Unmarshal(b, &log); err != nil {
		return []string{err.Error()}
	}
	if log["version"] != "2.1.0" {
		bad("version is %v", log["version"])
	}
	if schema, ok := log["$schema"].(string); !ok || !strings.HasSuffix(schema, "sarif-2.1.0.json") {
		bad("$schema is %v", log["$schema"])
	}
	runs, ok := log["runs"].([]any)
	if !ok || len(runs) == 0 {
		bad("no runs")
	}
	for _, r := range runs {
		at := object{r.(map[string]any)}
		if kind := at.text("columnKind"); kind != "utf16CodeUnits" && kind != "unicodeCodePoints" {
			bad("columnKind is %q", kind)
		}
		driver := at.in("tool").in("driver")
		if driver.text("name") == "" {
			bad("a tool without a name")
		}
		var ids []string
		for _, rule := range driver.list("rules") {
			id := rule.text("id")
			if id == "" || slices.Contains(ids, id) {
				bad("rule %q is nameless, or there twice", id)
			}
			ids = append(ids, id)
			for _, part := range []string{"shortDescription", "fullDescription", "help"} {
				if rule.in(part).text("text") == "" {
					bad("rule %s: %s has no text", id, part)
				}
			}
			if level := rule.in("defaultConfiguration").text("level"); !slices.Contains([]string{"none", "note", "warning", "error"}, level) {
				bad("rule %s: level %q", id, level)
			}
		}
		if _, ok := at.members["results"].([]any); !ok {
			bad("results is no list: the run failed")
		}
		for i, result := range at.list("results") {
			for _, p := range findProblems(result, ids) {
				bad("result %d: %s", i, p)
			}
		}
	}
	return problems
}

func findProblems(result object, ids []string) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	id, kind, level := result.text("ruleId"), result.text("kind"), result.text("level")
	if index, ok := result.members["ruleIndex"].(float64); !ok || index < 0 || int(index) >= len(ids) || ids[int(index)] != id {
		bad("rule %q is not at ruleIndex %v", id, result.members["ruleIndex"])
	}
	if !slices.Contains([]string{"notApplicable", "pass", "fail", "review", "open", "informational"}, kind) {
		bad("kind %q", kind)
	}
	if !slices.Contains([]string{"none", "note", "warning", "error"}, level) || kind != "fail" && level != "none" {
		bad("level %q of kind %q", level, kind)
	}
	if result.in("message").text("text") == "" {
		bad("no message")
	}
	places := result.list("locations")
	if len(places) == 0 {
		bad("no location")
	}
	for _, place := range places {
		physical := place.in("physicalLocation")
		uri := physical.in("artifactLocation").text("uri")
		if u, err := url.Parse(uri); err != nil || uri == "" || u.IsAbs() || u.Host != "" || strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "../") || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(uri, " \\") {
			bad("uri %q is no relative path", uri)
		}
		region, there := physical.members["region"].(map[string]any)
		if !there {
			continue
		}
		if line, ok := region["startLine"].(float64); !ok || line < 1 {
			bad("startLine %v", region["startLine"])
		}
		if column, there := region["startColumn"]; there {
			if n, ok := column.(float64); !ok || n < 1 {
				bad("startColumn %v", column)
			}
		}
	}
	return problems
}

type object struct{ members map[string]any }

func (o object) in(name string) object {
	members, _ := o.members[name].(map[string]any)
	return object{members}
}

func (o object) text(name string) string {
	text, _ := o.members[name].(string)
	return text
}

func (o object) list(name string) (list []object) {
	all, _ := o.members[name].([]any)
	for _, one := range all {
		members, _ := one.(map[string]any)
		list = append(list, object{members})
	}
	return list
}
