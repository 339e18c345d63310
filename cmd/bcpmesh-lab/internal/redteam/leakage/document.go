package leakage

import (
	"fmt"
	"strings"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/plot"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
)

// Markdown returns the tables of docs/leakage.md; picture is the file of [Report.Plot].
func (r Report) Markdown(picture string) string {
	var b strings.Builder
	table := func(method Method, head string, row func(Result) string) {
		rows := ""
		for _, result := range r.Results {
			if result.Method == method {
				verdict := result.Verdict.String()
				if result.Rate != nil && result.Verdict == redteam.Held {
					verdict = "measured"
				}
				rows += fmt.Sprintf("| %s | %s | %s | %s |\n", result.ID, result.Text, row(result), verdict)
			}
		}
		if rows != "" {
			columns := strings.Count(head, "|") + 4
			fmt.Fprintf(&b, "### %s\n\n| test | what | %s | verdict |\n|%s\n%s\n", strings.ToUpper(string(method[:1]))+string(method[1:]), head, strings.Repeat("---|", columns), rows)
		}
	}
	table(Exact, "strategies | transcripts | weight | of at most", func(r Result) string {
		if r.Exact == nil {
			return "| | |"
		}
		return fmt.Sprintf("%d | %d | %.6f | %d", r.Exact.Strategies, r.Exact.Transcripts, r.Exact.Weight, r.Exact.Limit)
	})
	table(Closed, "pairs", func(r Result) string {
		if r.Closed == nil {
			return ""
		}
		return fmt.Sprint(r.Closed.Pairs)
	})
	table(Measured, "secrets | trials | charged | moved at least | estimate | p of time | by time, would have seen", func(r Result) string {
		if r.Measured == nil {
			return "| | | | | |"
		}
		m := r.Measured
		return fmt.Sprintf("%d | %d | %.2f | %.2f | %.2f | %.3f | %.3f", m.Secrets, m.Trials, m.Charged, m.Moved, m.Estimate, m.TimeP, m.TimeSeen)
	})
	table(Uncounted, "secrets | trials | charged | moved at least | estimate | p | would have seen | bits an hour at least | an hour, would have seen", func(r Result) string {
		if r.Rate == nil {
			return "| | | | | | | |"
		}
		m := r.Rate
		hour, seen := fmt.Sprintf("%.0f", m.PerHour), fmt.Sprintf("%.0f", m.SeenPerHour)
		if m.SeenPerHour == 0 {
			hour, seen = "a person acts", "a person acts"
		}
		return fmt.Sprintf("%d | %d | %.2f | %.2f | %.2f | %.4f | %.3f | %s | %s", m.Secrets, m.Trials, m.Charged, m.Moved, m.Estimate, m.P, m.Seen, hour, seen)
	})
	fmt.Fprintf(&b, "![Bits that moved at least, and that were charged, by encoder](%s)\n", picture)
	return b.String()
}

// Plot returns the moved and the charged bits, with release slots and without.
func (r Report) Plot() []byte {
	var plots []plot.Plot
	for _, mode := range []string{ModeSlots, ModeOpen} {
		p := plot.Plot{Title: "Bits a trial, " + modeText[mode], Unit: "bits", Kind: plot.Bars}
		for _, result := range r.Results {
			if m := result.Measured; m != nil && m.Mode == mode {
				name := strings.TrimSuffix(strings.TrimPrefix(result.ID, "M-"), "-"+strings.ToUpper(mode))
				p.Set(strings.ToLower(name), "moved at least", m.Moved)
				p.Set(strings.ToLower(name), "charged", m.Charged)
			}
		}
		if len(p.Groups) > 0 {
			plots = append(plots, p)
		}
	}
	return plot.SVG(plots...)
}
