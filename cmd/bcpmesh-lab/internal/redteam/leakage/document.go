package leakage

import (
	"fmt"
	"strings"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
)

// Markdown returns the tables of docs/leakage.md.
func (r Report) Markdown() string {
	var b strings.Builder
	b.WriteString("| method | tests | tried | heaviest | verdict |\n|---|---|---|---|---|\n")
	for _, m := range []Method{Exact, Closed, Measured, Uncounted} {
		if tests, tried, heaviest, verdict := r.total(m); tests > 0 {
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", m, tests, tried, heaviest, verdict)
		}
	}
	r.encoders(&b)
	r.rates(&b)
	return b.String()
}

// total sums up the tests of a method. Heaviest is the certificate that is nearest to its limit.
func (r Report) total(m Method) (tests int, tried, heaviest, verdict string) {
	var strategies, transcripts, pairs, trials int
	most, not := 0.0, []string{}
	for _, result := range r.Results {
		if result.Method != m {
			continue
		}
		tests++
		if result.Verdict != redteam.Held {
			not = append(not, result.ID+" "+result.Verdict.String())
		}
		switch {
		case result.Exact != nil:
			c := result.Exact
			strategies, transcripts = strategies+c.Strategies, transcripts+c.Transcripts
			if share := c.Weight / float64(c.Limit); share > most {
				most, heaviest = share, fmt.Sprintf("%s: %.3f of %d", result.ID, c.Weight, c.Limit)
			}
		case result.Closed != nil:
			pairs += result.Closed.Pairs
		case result.Measured != nil:
			trials += result.Measured.Trials
		case result.Rate != nil:
			trials += result.Rate.Trials
		}
	}
	switch m {
	case Exact:
		tried = fmt.Sprintf("%d strategies, %d transcripts", strategies, transcripts)
	case Closed:
		tried = fmt.Sprintf("%d pairs", pairs)
	default:
		tried = fmt.Sprintf("%d trials", trials)
	}
	switch {
	case len(not) > 0:
		verdict = strings.Join(not, ", ")
	case m == Uncounted:
		verdict = "measured"
	default:
		verdict = "all held"
	}
	return tests, tried, heaviest, verdict
}

// encoders tables what each encoder moved in the two modes.
func (r Report) encoders(b *strings.Builder) {
	var names []string
	cells := map[string]map[string]string{} // charged and moved, by encoder and mode
	for _, result := range r.Results {
		m := result.Measured
		if m == nil {
			continue
		}
		name := strings.TrimSuffix(result.Text, ", "+modeText[m.Mode])
		if cells[name] == nil {
			names, cells[name] = append(names, name), map[string]string{ModeSlots: " | ", ModeOpen: " | "}
		}
		cells[name][m.Mode] = fmt.Sprintf("%.2f | %.2f", m.Charged, m.Moved)
	}
	if len(names) == 0 {
		return
	}
	b.WriteString("\n### Measured\n\n| encoder | slots: charged | moved | no slots: charged | moved |\n|---|---|---|---|---|\n")
	for _, name := range names {
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, cells[name][ModeSlots], cells[name][ModeOpen])
	}
}

// rates tables the uncounted channels.
func (r Report) rates(b *strings.Builder) {
	head := "\n### Uncounted\n\n| test | what | moved | would have seen | p | bits an hour | would have seen |\n|---|---|---|---|---|---|---|\n"
	for _, result := range r.Results {
		m := result.Rate
		if m == nil {
			continue
		}
		hour, seen := fmt.Sprintf("%.0f", m.PerHour), fmt.Sprintf("%.0f", m.SeenPerHour)
		if m.SeenPerHour == 0 {
			hour, seen = "a person acts", "a person acts"
		}
		fmt.Fprintf(b, "%s| %s | %s | %.2f | %.3f | %.4f | %s | %s |\n", head, result.ID, result.Text, m.Moved, m.Seen, m.P, hour, seen)
		head = ""
	}
}
