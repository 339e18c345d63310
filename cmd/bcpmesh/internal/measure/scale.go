package measure

import (
	"fmt"
	"os"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/bench"
	"github.com/bcpmesh/bcpmesh/mesh/plot"
	"github.com/bcpmesh/bcpmesh/mesh/scale"
)

// scaleOptions are the flags of scale.
type scaleOptions struct {
	agents, channels, rate, mean amountFlag
	asks                         amountFlag
	answer, days                 cli.DurationFlag
	shards, cores                cli.NumberFlag
	replicas                     cli.WordFlag
	memory, disk                 amountFlag
	costs, plots                 string
	compare                      bool
}

// amountFlag is a flag that takes a number such as 10000 or 1e6.
type amountFlag struct {
	value     float64
	most      float64
	name, set string
}

// String returns the number as it was written.
func (f *amountFlag) String() string { return f.set }

// Type names the flag's values in the help.
func (f *amountFlag) Type() string { return f.name }

// Set takes a number from 0 to the greatest that there is.
func (f *amountFlag) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= f.most) {
		return fmt.Errorf("expected a number up to %g, such as 10000 or 1e6", f.most)
	}
	f.value, f.set = v, s
	return nil
}

func amount(set string, most float64, name string) amountFlag {
	f := amountFlag{most: most, name: name}
	if set != "" {
		_ = f.Set(set) // ours
	}
	return f
}

// scaleDefaults are the defaults of the flags.
func scaleDefaults() *scaleOptions {
	return &scaleOptions{
		agents: amount("1000", scale.MaxAgents, "NUMBER"), channels: amount("10000", scale.MaxChannels, "NUMBER"),
		rate: amount("1000", scale.MaxRate, "NUMBER"), mean: amount("", scale.MaxRate, "NUMBER"), asks: amount("0.5", 1, "PART"),
		answer: cli.DurationFlag{Value: defaultAnswer}, days: cli.DurationFlag{Value: defaultKept},
		cores: cli.NumberFlag{Value: 16, Least: 1}, replicas: cli.WordFlag{Value: "1", Words: []string{"1", "3", "5"}},
		memory: amount("64", 1e6, "GB"), disk: amount("4000", 1e9, "GB"),
	}
}

// ScaleCommand returns the command scale.
func ScaleCommand(p *cli.Program) *cobra.Command {
	o := scaleDefaults()
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Compute what a mesh of a given size needs, and what breaks first",
		Long: `Compute what a mesh of a given size needs: cores, memory, disk, network, connections,
accounts, shards, the time of a start and of a takeover; and which part breaks first.
It is a model: nothing is run. "bcpmesh bench" measured its costs on this program;
--costs takes your own, and --compare shows how far simulated waiting times are from
measured ones.

Everything that the journal records is a decision: a push and its
acknowledgement are two, a question, its answer and the acknowledgement are
three.

The exit code is 1 if something is beyond its limit.`,
		Example: `  bcpmesh scale --agents 10000 --channels 1e6 --rate 1e5
  bcpmesh scale --agents 1000 --channels 1e4 --rate 2000 --mean 200 --json
  bcpmesh bench --json > costs.json && bcpmesh scale --costs costs.json --compare`,
		Args: cli.Arguments(0),
		RunE: func(*cobra.Command, []string) error { return runScale(p, o) },
	}
	f := cmd.Flags()
	f.Var(&o.agents, "agents", "how many agents there are")
	f.Var(&o.channels, "channels", "how many channels")
	f.Var(&o.rate, "rate", "decisions a second at the busiest time")
	f.Var(&o.mean, "mean", "decisions a second over the day (default --rate)")
	f.Var(&o.asks, "asks", "share of questions, from 0 to 1; the rest is pushes")
	f.Var(&o.answer, "answer", "how long a Reader takes to answer")
	f.Var(&o.days, "kept", "how long the journal is kept until it is truncated")
	f.Var(&o.shards, "shards", "how many shards the mesh has (0: as many as deciding needs)")
	o.replicas.AddTo(cmd, "replicas", "how many machines have each stream")
	f.Var(&o.cores, "cores", "cores of each machine")
	f.Var(&o.memory, "memory", "memory of each machine")
	f.Var(&o.disk, "disk", "disk of each machine, which max_disk_mb is set to")
	f.StringVar(&o.costs, "costs", "", "use the costs in a `FILE` of bcpmesh bench --json")
	f.BoolVar(&o.compare, "compare", false, "simulate the measured cases, and show the deviation")
	f.StringVar(&o.plots, "plots", "", "write the plots of the document to `DIR`, and its tables into their places in DIR.md")
	cli.Complete(cmd, "plots", cli.CompleteFolders)
	return cmd
}

func (o *scaleOptions) load() scale.Load {
	replicas, _ := strconv.Atoi(o.replicas.Value) // one of its words
	return scale.Load{
		Agents: int(o.agents.value), Channels: int(o.channels.value), Rate: o.rate.value, Mean: o.mean.value, Asks: o.asks.value,
		Answer: scale.Span(o.answer.Value), Days: o.days.Value.Hours() / 24, Shards: o.shards.Value, Replicas: replicas,
		Machine: scale.Machine{Cores: o.cores.Value, Memory: o.memory.value * 1e9, Disk: o.disk.value * 1e9, DiskRate: diskRate, Network: network},
	}
}

func runScale(p *cli.Program, o *scaleOptions) error {
	basis := scale.MeasuredBasis
	if o.costs != "" {
		var err error
		if basis, err = readCosts(o.costs); err != nil {
			return err
		}
	}
	if o.plots != "" {
		return writeScale(o, basis, o.plots)
	}
	if o.compare {
		return showComparison(p.Out, basis)
	}
	l := o.load()
	if err := l.Check(); err != nil {
		return cli.Usagef("scale: %s", err)
	}
	plan := scale.Compute(basis.Costs, l)
	if err := showPlan(p.Out, &plan, basis.Costs); err != nil {
		return err
	}
	if !plan.Fits {
		beyond := 0
		for _, n := range plan.Needs {
			if n.Use > 1 {
				beyond++
			}
		}
		return cli.Failf("%s beyond the limit, %s first", cli.Count(beyond, "need"), plan.First)
	}
	return nil
}

// readCosts takes what a report measured.
func readCosts(name string) (b scale.Basis, err error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return b, cli.Failf("--costs %s: %s", cli.Quoted(name), cli.FileReason(err))
	}
	var report bench.Report
	if err := json.Unmarshal(content, &report, json.RejectUnknownMembers(true)); err != nil {
		return b, cli.Failf("--costs %s: this is not a report of a measurement", cli.Quoted(name)).WithHint("bcpmesh bench --json > FILE makes one")
	}
	return scale.Basis{Costs: report.Costs(scale.Measured), Points: report.Points(), Cores: report.Machine.Cores}, nil
}

func showPlan(o *cli.Output, plan *scale.Plan, costs scale.Costs) error {
	if o.JSON {
		return o.Value(struct {
			*scale.Plan
			Costs scale.Costs `json:"costs"`
		}{plan, costs})
	}
	l := plan.Load
	o.Printf("%s agents, %s channels, %s decisions a second (%s over the day)\n", plot.Amount(float64(l.Agents), ""), plot.Amount(float64(l.Channels), ""),
		plot.Amount(l.Rate, ""), plot.Amount(meanRate(l), ""))
	o.Printf("%s, %s, each stream on %d: %d cores, %.0f GB of memory and %.0f GB of disk each\n\n", cli.Count(l.Shards, "shard"), cli.Count(plan.Machines, "machine"), l.Replicas,
		l.Machine.Cores, l.Machine.Memory/1e9, l.Machine.Disk/1e9)
	o.Table(needHeader, needRows(plan.Needs))
	o.Printf("\n")
	if plan.Receipt.Rate > 0 {
		o.Printf("A push waits %s (p50), %s (p99) for its receipt; a question %s and %s for its answer, its Reader's time left out.\n",
			wait(plan.Receipt.P50), wait(plan.Receipt.P99), wait(plan.Answer.P50), wait(plan.Answer.P99))
	} else {
		o.Printf("More arrives than can be decided: waiting times keep growing.\n")
	}
	if l.Shards > 1 {
		o.Printf("These are %d shards of one mesh. What channels connect cannot be split: bcpmesh shards shows these islands, and spreads them.\n", l.Shards)
	}
	first := plan.Needs[0]
	if plan.Fits {
		o.Printf("All of it fits. First to break: %s, %s of its limit. Then: %s.\n", first.Name, percent(first.Use), first.Mend)
	} else {
		o.Printf("Breaks first: %s, %s of its limit. What to do: %s.\n", first.Name, percent(first.Use), first.Mend)
	}
	o.Printf("Costs: %s\n", cli.Plain(costs.Source))
	return nil
}

func meanRate(l scale.Load) float64 {
	if l.Mean == 0 {
		return l.Rate
	}
	return l.Mean
}

var needHeader = []string{"need", "", "limit", "of it", "what it is"}

func needRows(needs []scale.Need) [][]string {
	var rows [][]string
	for _, n := range needs {
		row := []string{n.Name, plot.Amount(n.Need, n.Unit), "", "", n.Why}
		if n.Limit > 0 {
			row[2], row[3] = plot.Amount(n.Limit, ""), percent(n.Use)
		}
		rows = append(rows, row)
	}
	return rows
}

// percent writes a part of a limit: 37 %, or 12x from ten times on.
func percent(part float64) string {
	if part >= 10 {
		return plot.Amount(part, "") + "x"
	}
	return fmt.Sprintf("%.0f %%", 100*part)
}

func wait(d scale.Span) string { return plot.Amount(float64(d)/1e6, "ms") }

var comparisonHeader = []string{"", "in flight", "a second", "simulated", "off", "p50", "simulated", "off", "p99", "simulated", "batch", "simulated"}

func comparisonRows(all []scale.Comparison) [][]string {
	var rows [][]string
	for _, c := range all {
		m, s := c.Measured, c.Simulated
		name := "push"
		if m.Ask {
			name = "question"
		}
		rows = append(rows, []string{name, strconv.Itoa(m.InFlight), plot.Amount(m.Rate, ""), plot.Amount(s.Rate, ""), off(s.Rate, m.Rate),
			wait(m.P50), wait(s.P50), off(float64(s.P50), float64(m.P50)), wait(m.P99), wait(s.P99),
			plot.Amount(m.Batch, ""), plot.Amount(s.Batch, "")})
	}
	return rows
}

func off(simulated, measured float64) string {
	return fmt.Sprintf("%+.0f %%", 100*scale.Off(simulated, measured))
}

func showComparison(o *cli.Output, b scale.Basis) error {
	all := scale.Compare(b.Costs, b.Cores, b.Points)
	if o.JSON {
		return o.Value(all)
	}
	if len(all) == 0 {
		return cli.Failf("there is nothing to compare with").WithHint("bcpmesh bench --only acknowledged,flow measures it")
	}
	o.Table(comparisonHeader, comparisonRows(all))
	o.Printf("\nCosts: %s\n", cli.Plain(b.Costs.Source))
	return nil
}
