// Package sarif writes findings as a log of SARIF 2.1.0 (OASIS, Static Analysis Results
// Interchange Format), the part of it that code scanning reads.
//
// It is pure.
package sarif

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Level is the severity of a finding. The zero value is invalid.
type Level uint8

// The levels. Review is for an unconfirmed finding: its kind is review, and then SARIF
// has no level (3.27.9, 3.27.10).
const (
	Error Level = iota + 1
	Warning
	Note
	Review
)

func (l Level) words() (kind, level string) {
	switch l {
	case Error:
		return "fail", "error"
	case Warning:
		return "fail", "warning"
	case Note:
		return "fail", "note"
	case Review:
		return "review", "none"
	}
	return "", ""
}

// Rule is the rule of a finding.
type Rule struct {
	ID    string // unique
	Short string // one sentence
	Full  string // what must hold; empty: as Short
	Help  string // what to do; empty: as Full
	Level Level  // of its findings, unless they say another
}

// Finding is one violation of a rule.
type Finding struct {
	Rule  string // its id
	Level Level
	Text  string
	// File is a path with slashes, relative to the root of the repository.
	File string
	// Line and Column count from 1, a column a code point; 0: the file as a whole.
	Line, Column int
}

type text struct {
	Text string `json:"text"`
}

type log struct {
	Schema  string `json:"$schema"`
	Version string `json:"version"`
	Runs    []run  `json:"runs"`
}

type run struct {
	Tool       tool     `json:"tool"`
	ColumnKind string   `json:"columnKind"`
	Results    []result `json:"results"`
}

type tool struct {
	Driver driver `json:"driver"`
}

type driver struct {
	Name    string `json:"name"`
	Version string `json:"version,omitzero"`
	Rules   []rule `json:"rules"`
}

type rule struct {
	ID      string        `json:"id"`
	Short   text          `json:"shortDescription"`
	Full    text          `json:"fullDescription"`
	Help    text          `json:"help"`
	Default configuration `json:"defaultConfiguration"`
}

type configuration struct {
	Level string `json:"level"`
}

type result struct {
	RuleID    string     `json:"ruleId"`
	RuleIndex int        `json:"ruleIndex"`
	Kind      string     `json:"kind"`
	Level     string     `json:"level"`
	Message   text       `json:"message"`
	Locations []location `json:"locations"`
}

type location struct {
	Physical physical `json:"physicalLocation"`
}

type physical struct {
	Artifact artifact `json:"artifactLocation"`
	Region   *region  `json:"region,omitzero"`
}

type artifact struct {
	URI string `json:"uri"`
}

type region struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitzero"`
}

// Write returns the log of one run of a tool. Bytes that are not UTF-8 are replaced.
// The error says that rules or findings are invalid.
func Write(name, version string, rules []Rule, findings []Finding) ([]byte, error) {
	r := run{Tool: tool{driver{name, version, make([]rule, 0, len(rules))}}, ColumnKind: "unicodeCodePoints", Results: make([]result, 0, len(findings))}
	places := map[string]int{}
	for i, of := range rules {
		if _, twice := places[of.ID]; twice || of.ID == "" || of.Short == "" {
			return nil, fmt.Errorf("sarif: rule %d, %q: it needs an id of its own and a text", i, of.ID)
		}
		places[of.ID] = i
		full := firstNonEmpty(of.Full, of.Short)
		_, level := of.Level.words()
		r.Tool.Driver.Rules = append(r.Tool.Driver.Rules, rule{of.ID, text{of.Short}, text{full}, text{firstNonEmpty(of.Help, full)}, configuration{firstNonEmpty(level, "warning")}})
	}
	for i, f := range findings {
		at, known := places[f.Rule]
		kind, level := f.Level.words()
		if !known || kind == "" || f.Text == "" || f.File == "" || strings.HasPrefix(f.File, "/") || f.Line < 0 || f.Column < 0 {
			return nil, fmt.Errorf("sarif: finding %d of rule %q in %q: it needs a rule, a level, a text and a relative path", i, f.Rule, f.File)
		}
		place := physical{Artifact: artifact{(&url.URL{Path: f.File}).String()}}
		if f.Line > 0 {
			place.Region = &region{f.Line, f.Column}
		}
		r.Results = append(r.Results, result{f.Rule, at, kind, level, text{f.Text}, []location{{place}}})
	}
	b, err := json.Marshal(log{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []run{r}}, jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true))
	return append(b, '\n'), err
}

func firstNonEmpty(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
