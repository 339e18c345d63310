package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/plot"
	"github.com/bcpmesh/bcpmesh/mesh/scale"
)

// What scale takes where no flag says otherwise.
const (
	defaultAnswer = 10 * time.Second
	defaultKept   = 7 * 24 * time.Hour
	diskRate      = 500e6 // bytes a second, of an ordinary solid disk
	network       = 10e9  // bits a second
)

// target is the load that the document is about; the machines are the command's.
func target(shards int, o *scaleOptions) scale.Load {
	l := o.load()
	l.Agents, l.Channels, l.Rate, l.Mean, l.Shards = 10_000, 1_000_000, 100_000, 0, shards
	return l
}

// scaleSection writes the tables of the document.
func scaleSection(b scale.Basis, o *scaleOptions, folder string) string {
	var text strings.Builder
	table := func(title string, header []string, rows [][]string) {
		fmt.Fprintf(&text, "\n### %s\n\n| %s |\n|%s\n", title, strings.Join(header, " | "), strings.Repeat("---|", len(header)))
		for _, row := range rows {
			fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
		}
	}
	fmt.Fprintf(&text, "Costs of %s.\n", b.Costs.Source)
	table("What a size needs", gridHeader, gridRows(b.Costs, o))
	for _, axis := range []struct {
		along scale.Axis
		title string
	}{
		{scale.Rate, "What breaks as decisions a second grow, all day, on one shard: 10,000 agents, 1,000,000 channels"},
		{scale.Channels, "What breaks as channels grow, on one shard: 10,000 agents, 1,000 decisions a second"},
		{scale.Agents, "What breaks as agents grow, on one shard: 1,000,000 channels, 1,000 decisions a second"},
	} {
		l := target(1, o)
		l.Rate = 1000
		var rows [][]string
		for _, broken := range scale.Breaks(b.Costs, l, axis.along) {
			rows = append(rows, []string{rounded(broken.At), broken.Name, broken.Mend})
		}
		table(axis.title, []string{"beyond", "what", "what to do"}, rows)
	}
	plan := scale.Compute(b.Costs, target(0, o))
	table(fmt.Sprintf("10,000 agents, 1,000,000 channels, 100,000 decisions a second: %s", cli.Count(plan.Load.Shards, "shard")), needHeader, needRows(plan.Needs))
	table("The simulation and what was measured", comparisonHeader, comparisonRows(scale.Compare(b.Costs, b.Cores, b.Points)))
	text.WriteString("\n### Plots\n")
	for _, p := range scalePlots(b, o) {
		fmt.Fprintf(&text, "\n![%s](%s/%s)\n", p.Title, folder, p.file)
	}
	return text.String()
}

// rounded writes a number with two digits that count: 1,234,567 is about 1,200,000.
func rounded(v float64) string {
	unit := 1.0
	for v/unit >= 100 {
		unit *= 10
	}
	digits := strconv.FormatInt(int64(v/unit)*int64(unit), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

var gridHeader = []string{"agents", "channels", "decisions a second", "shards", "cores a machine", "memory a machine", "disk rate a machine", "disk a day and machine", "start",
	"push p50", "push p99", "beyond a limit"}

// gridRows are plans for sizes, all at their rate the whole day.
func gridRows(c scale.Costs, o *scaleOptions) [][]string {
	var rows [][]string
	for _, agents := range []int{1_000, 10_000} {
		for _, channels := range []int{10_000, 100_000, 1_000_000} {
			for _, rate := range []float64{1_000, 10_000, 100_000} {
				l := target(0, o)
				l.Agents, l.Channels, l.Rate = agents, channels, rate
				if l.Check() != nil {
					continue // there are not so many pairs
				}
				plan := scale.Compute(c, l)
				need := make(map[string]scale.Need)
				var beyond []string
				for _, n := range plan.Needs {
					need[n.Name] = n
					if n.Use > 1 {
						beyond = append(beyond, n.Name+" "+percent(n.Use))
					}
				}
				figure := func(name, unit string) string { return plot.Amount(need[name].Need, unit) }
				rows = append(rows, []string{rounded(float64(agents)), rounded(float64(channels)), rounded(rate), strconv.Itoa(plan.Load.Shards), figure("processor", ""),
					figure("memory", "GB"), figure("disk rate", "MB/s"), figure("disk a day", "GB"), figure("start", "s"),
					wait(plan.Receipt.P50), wait(plan.Receipt.P99), strings.Join(beyond, ", ")})
			}
		}
	}
	return rows
}

// scalePlot is a plot and the file that it is written to.
type scalePlot struct {
	file string
	plot.Plot
}

func scalePlots(b scale.Basis, o *scaleOptions) []scalePlot {
	latency := scalePlot{"latency.svg", plot.Plot{Title: "a push's receipt by decisions a second of one shard, simulated", Unit: "ms"}}
	for _, rate := range []float64{100, 1_000, 3_000, 10_000, 20_000, 40_000, 60_000} {
		l := target(1, o)
		l.Rate = rate
		receipt := scale.Compute(b.Costs, l).Receipt
		latency.Set(rounded(rate), "p50", float64(receipt.P50)/1e6)
		latency.Set(rounded(rate), "p99", float64(receipt.P99)/1e6)
	}
	memory := scalePlot{"memory.svg", plot.Plot{Title: "memory by decisions a second all day, one shard", Unit: "GB",
		Limit: o.memory.value, LimitName: fmt.Sprintf("%.0f GB", o.memory.value)}}
	for _, rate := range []float64{10, 100, 300, 1_000, 2_000, 4_000} {
		l := target(1, o)
		l.Rate = rate
		for _, n := range scale.Compute(b.Costs, l).Needs {
			if n.Name == "memory" {
				memory.Set(rounded(rate), "memory", n.Need)
			}
		}
	}
	compared := scalePlot{"compared.svg", plot.Plot{Title: "exchanges a second by number in flight", Unit: "/s"}}
	for _, c := range scale.Compare(b.Costs, b.Cores, b.Points) {
		name := "push"
		if c.Measured.Ask {
			name = "question"
		}
		group := fmt.Sprintf("%s, %d", name, c.Measured.InFlight)
		compared.Set(group, "measured", c.Measured.Rate)
		compared.Set(group, "simulated", c.Simulated.Rate)
	}
	return []scalePlot{latency, memory, compared}
}

// writeScale writes the plots, and the tables into the document next to their folder,
// if there is one.
func writeScale(o *scaleOptions, b scale.Basis, folder string) error {
	fault := func(err error) error { return cli.Failf("--plots %s: %s", cli.Quoted(folder), cli.FileReason(err)) }
	document := filepath.Clean(folder) + ".md"
	text, err := os.ReadFile(document)
	known := err == nil
	if known {
		text, err = plot.Section(text, "scale", scaleSection(b, o, filepath.Base(filepath.Clean(folder))))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fault(err)
	}
	for _, p := range scalePlots(b, o) {
		if err := os.WriteFile(filepath.Join(folder, p.file), plot.SVG(p.Plot), 0o644); err != nil {
			return fault(err)
		}
	}
	if !known {
		return nil
	}
	if err := os.WriteFile(document, text, 0o644); err != nil {
		return fault(err)
	}
	return nil
}
