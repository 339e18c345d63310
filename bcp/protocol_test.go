package bcp

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The document lists each party's codes in the order of the catalogue, and
// every rule once.
//
// covers P10, P2.5
func TestProtocolDocument(t *testing.T) {
	t.Parallel()
	b := must(os.ReadFile("PROTOCOL.md"))
	document := string(b)
	lists := map[string][]Code{}
	for line := range strings.Lines(document) {
		for _, party := range []string{"Reader", "Controller", "Outcomes of a query", "Approver"} {
			if list, ok := strings.CutPrefix(line, "- "+party+": "); ok {
				for code := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(list), "."), ", ") {
					lists[party] = append(lists[party], Code(code))
				}
			}
		}
	}
	want := map[string][]Code{}
	both := []Code{EscalationDenied, Unavailable, Internal, BudgetExhausted} // refuse an ask, and end a query
	known := map[Code]bool{}
	for _, line := range Catalogue() {
		failIf(t, known[line.Code] || line.Text == "" || line.Decision == "" || line.To == 0 || line.Code.Info() != line,
			"%+v is repeated or incomplete", line)
		known[line.Code] = true
		for party, to := range map[string]Audience{"Reader": ToReader, "Controller": ToController, "Approver": ToApprover} {
			if line.To&to != 0 && !(party == "Controller" && line.Outcome && !slices.Contains(both, line.Code)) {
				want[party] = append(want[party], line.Code)
			}
		}
		if line.Outcome && line.To&ToController != 0 && !slices.Contains(both[:3], line.Code) {
			want["Outcomes of a query"] = append(want["Outcomes of a query"], line.Code)
		}
	}
	for party, codes := range want {
		got := slices.Clone(lists[party])
		if party == "Reader" || party == "Controller" { // heard in this order
			failIf(t, !slices.Equal(got, codes), "%s hears %v, the document says %v", party, codes, got)
			continue
		}
		slices.Sort(got)
		slices.Sort(codes)
		failIf(t, !slices.Equal(got, codes), "%s: %v, the document says %v", party, codes, got)
	}
	rules := regexp.MustCompile(`(?m)^- \*\*(P[0-9]+\.[0-9]+)\*\*`).FindAllStringSubmatch(document, -1)
	failIf(t, len(rules) != 5+8+12+7+4+10+3+6+7+5+6+4+6+3, "the document has %d rules", len(rules))
	seen := map[string]bool{}
	for _, rule := range rules {
		failIf(t, seen[rule[1]], "%s stands twice", rule[1])
		seen[rule[1]] = true
	}
}
