package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// docs/contracts.md shows what the commands print, its JSON is right, its tables have
// every word of the closed lists with its meaning, and it answers what the draft
// leaves open.
// covers DUAL-83, DUAL-84, DUAL-99, DUAL-101, DUAL-104, DUAL-106, DUAL-107
func TestContractsDocument(t *testing.T) {
	t.Parallel()
	raw := readFile(t, "../../docs/contracts.md")
	document := string(raw)
	blocks := regexp.MustCompile("(?s)```(?:json|text)\n(.*?)```").FindAllStringSubmatch(document, -1)
	stopIf(t, len(blocks) != 3, "%d blocks", len(blocks))
	matrix, requirement := strings.Split(blocks[0][1], "\n"), blocks[2][1]
	row := func(first, last string, others ...string) {
		if !slices.ContainsFunc(matrix, func(line string) bool {
			cells := strings.Fields(line)
			return len(cells) > len(others)+1 && slices.Equal(cells[:len(others)+1], append([]string{first}, others...)) && cells[len(cells)-1] == last
		}) {
			t.Errorf("the matrix has no row %s %v %s", first, others, last)
		}
	}
	for cells := range slices.Chunk(contract.Matrix(), len(contract.Columns())) {
		row(string(cells[0].Role), string(cells[3].Sees), string(cells[0].Sees), string(cells[1].Sees), string(cells[2].Sees))
	}
	for _, e := range contract.Edges() {
		row(string(e.From), e.Family, string(e.To))
	}
	_, ok := contract.ParseRequirement([]byte(requirement))
	failIf(t, !ok, "the requirement is none")
	var rows []string
	for _, code := range contract.DefectCodes() {
		failIf(t, !strings.Contains(document, "`"+string(code)+"`"), "the document has no code %s", code)
	}
	for _, code := range contract.VerdictCodes() {
		rows = append(rows, fmt.Sprintf("- `%s`: %s", code, code.Text()))
	}
	for _, word := range contract.Words() {
		failIf(t, !strings.Contains(document, "`"+word+"`"), "the document has no word %s", word)
	}
	for _, name := range contract.PredicateNames() {
		rows = append(rows, fmt.Sprintf("| `%s` | ", name))
	}
	lines := strings.Split(document, "\n")
	for _, row := range rows {
		failIf(t, !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, row) }),
			"the document has no row %s", row)
	}
	for _, section := range []string{"(9.1)", "(9.2)", "(9.3)", "(9.4)", "Data that requires action (5.3)", "A processor that lacks context (5.3)", "Weak models as processors (5.1, 8)", "Genuine disagreement, policy federation (7)"} {
		failIf(t, !regexp.MustCompile(`(?m)^- .*`+regexp.QuoteMeta(section)+`: \S.+$`).MatchString(document),
			"the document has no answer to %s", section)
	}
}

// docs/suspicion.md has every rule of the watch with its threshold.
func TestRolesDocument(t *testing.T) {
	t.Parallel()
	document := readFile(t, "../../docs/suspicion.md")
	for _, rule := range contract.SuspectRules() {
		threshold, _ := contract.ThresholdOf(rule)
		within := "10 minutes"
		if threshold.Within == 24*time.Hour {
			within = "24 hours"
		}
		row := fmt.Sprintf("\n| `%s` | %d in %s | ", rule, threshold.Count, within)
		failIf(t, !strings.Contains(string(document), row), "the document has no row %s", row)
	}
}
