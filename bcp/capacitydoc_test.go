package bcp_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// The figures of CAPACITY.md are those of the code.
//
// covers P4.1, P4.2
func TestCapacityDocument(t *testing.T) {
	t.Parallel()
	const file, begin, end = "CAPACITY.md", "<!-- figures -->\n", "<!-- end -->"
	document := must(os.ReadFile(file))
	before, rest, ok := bytes.Cut(document, []byte(begin))
	figures, behind, ok2 := bytes.Cut(rest, []byte(end))
	stopIf(t, !ok || !ok2, "there is no place for figures")
	want := capacityFigures(t)
	if *update {
		noError(t, os.WriteFile(file, []byte(string(before)+begin+want+end+string(behind)), 0o644))
		return
	}
	failIf(t, string(figures) != want, "the figures are\n%s", want)
}

func capacityFigures(t *testing.T) string {
	var b strings.Builder
	b.WriteString("Characters of the alphabets:")
	for i, word := range bcp.Alphabets() {
		alphabet, _ := text.ParseAlphabet(word)
		fmt.Fprintf(&b, "%s %s %d", []string{"", ","}[min(i, 1)], word, text.AlphabetSize(alphabet))
	}
	b.WriteString(".\n\n| answer | ascii | latin | cyrillic | any | nominal |\n| --- | --- | --- | --- | --- | --- |\n")
	price := func(spec bcp.Spec) bcp.Prices {
		v := compiled(spec, bcp.Settings{OnAnomaly: bcp.AnomalyReject, Subscriptions: 1})
		return v.Prices()
	}
	short := func(b bcp.Bits) string { return fmt.Sprintf("%.1f", float64(b)/float64(bcp.Bit)) }
	for _, q := range []struct {
		name string
		q    bcp.Question
	}{
		{"short_text of 1 word", bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 1}},
		{"person_name of 5 words", bcp.Question{ExpectedFormat: bcp.FormatPersonName, MaxWords: 5}},
		{"short_text of 10 words", bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 10}},
		{"short_text of 10 words in 60 characters", bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 10, MaxChars: 60}},
		{"short_list of 30 words", bcp.Question{ExpectedFormat: bcp.FormatShortList, MaxWords: 30}},
	} {
		fmt.Fprintf(&b, "| %s |", q.name)
		for _, alphabet := range []string{"ascii", "latin", "cyrillic", "any"} {
			q.q.Alphabet = alphabet
			fmt.Fprintf(&b, " %s |", short(price(ask(q.q)).Capacity))
		}
		fmt.Fprintf(&b, " %s |\n", short(price(ask(q.q)).Nominal))
	}
	for _, q := range []struct {
		name string
		spec bcp.Spec
	}{
		{"summary of 100 words", bcp.Spec{Category: 3, Directive: "x", MaxWords: 100}},
		{"email of 64 characters", ask(bcp.Question{ExpectedFormat: bcp.FormatEmail, MaxWords: 1})},
		{"date", ask(bcp.Question{ExpectedFormat: bcp.FormatDate, MaxWords: 4})},
		{"time", ask(bcp.Question{ExpectedFormat: bcp.FormatTime, MaxWords: 1})},
		{"a boolean, an enum of 3, an integer of 5", Workloads()[0].Spec},
	} {
		p := price(q.spec)
		fmt.Fprintf(&b, "| %s | | | | %s | %s |\n", q.name, short(p.Capacity), short(p.Nominal))
	}
	return b.String()
}
