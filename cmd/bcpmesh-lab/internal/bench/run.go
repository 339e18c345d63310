package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Options are the options of a run. State and Command are required.
type Options struct {
	// Only lists what to measure, from [Names]; empty means everything.
	Only []string
	// Quick makes everything small and short: to test the tool, since the
	// figures mean little.
	Quick bool
	// Duration is the length of one measurement of a round; zero is a second,
	// or a tenth of a second with Quick.
	Duration time.Duration
	// State is an empty folder, on the disk to measure.
	State string
	// Command makes a process that runs [Serve] on its standard input and
	// output, and ends with the context.
	Command func(context.Context) *exec.Cmd
	// Progress, if set, is called with the next measurement, the number of
	// measurements done and the total.
	Progress func(done, all int, next string)
	// Version names the program in the report.
	Version string
}

// pause separates two messages if one must not be affected by the work that the
// previous one left, such as the record of its acknowledgement.
const pause = 3 * time.Millisecond

var measurements = []struct {
	name    string
	measure func(*runner) error
}{
	{"push", (*runner).push},
	{"delivered", (*runner).delivered},
	{"acknowledged", (*runner).acknowledged},
	{"flow", (*runner).flow},
	{"runs", (*runner).runs},
	{"interval", (*runner).interval},
	{"flood", (*runner).flood},
	{"agents", (*runner).agents},
	{"idle", (*runner).idle},
	{"channels", (*runner).channels},
	{"decisions", (*runner).decisions},
}

// Names returns the names of all measurements.
func Names() []string {
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	return names
}

// Run runs the measurements. Everything that it starts ends before it returns;
// the caller must clean up the state folder.
func Run(ctx context.Context, o Options) (*Report, error) {
	begin := time.Now()
	r := &runner{Context: ctx, options: o, rounds: 5, report: &Report{Date: begin.UTC().Truncate(time.Second), Version: o.Version, Quick: o.Quick}}
	if o.Quick {
		r.rounds = 2
	}
	if o.Duration == 0 {
		r.options.Duration = time.Second
		if o.Quick {
			r.options.Duration = 100 * time.Millisecond
		}
	}
	r.report.Round, r.report.Rounds = Span(r.options.Duration), r.rounds
	var err error
	if r.report.Machine, err = machine(o.State); err != nil {
		return nil, err
	}
	all := len(o.Only)
	if all == 0 {
		all = len(measurements)
	}
	for _, m := range measurements {
		if len(o.Only) > 0 && !slices.Contains(o.Only, m.name) {
			continue
		}
		if o.Progress != nil {
			o.Progress(r.done, all, m.name)
		}
		if err := m.measure(r); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("measuring %s: %w", m.name, err)
		}
		r.done++
	}
	r.report.Machine.LoadAfter = loadAverage()
	r.report.Took = Span(time.Since(begin).Truncate(time.Second))
	return r.report, nil
}

// machine describes it, and measures its disk.
func machine(folder string) (m Machine, err error) {
	m = Machine{System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), LoadBefore: loadAverage()}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(b), "model name"); ok {
			name, _, _ := strings.Cut(rest, "\n")
			m.Processor = strings.TrimSpace(strings.TrimLeft(name, "\t: "))
		}
	}
	var took Latencies
	f, err := os.Create(filepath.Join(folder, "fsync"))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for range 200 {
		begin := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return m, err
		}
		if err := f.Sync(); err != nil {
			return m, err
		}
		took.add(time.Since(begin))
	}
	m.FsyncP50, m.FsyncP99 = Span(took.Percentile(50)), Span(took.Percentile(99))
	return m, nil
}

// loadAverage is that of the last minute, if the system has it.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

func nobody(party) bool          { return false }
func everybody(one party) bool   { return one.Role != bcp.RoleAuditor }
func readersOnly(one party) bool { return one.Role == bcp.RoleReader }

// path is one of the compared paths.
type path struct {
	name    string
	order   order
	connect func(party) bool
}

// pairs is the number of pairs of agents that share what is in flight.
const pairs = 16

// The shapes with so many agents, and how much is in flight.
var (
	straight  = shape{Readers: pairs, Controllers: pairs}
	crossed   = shape{Readers: pairs, Controllers: pairs, Crossed: true}
	inFlights = []int{1, 16, 256}
)

// compare runs the same load on all paths in turn, round after round, and
// returns the medians by path and number in flight.
func (r *runner) compare(name string, paths []path, inFlight []int, l load) (map[string]map[int]Load, error) {
	sides, stop, err := r.startAll(paths...)
	if err != nil {
		return nil, err
	}
	defer stop()
	rounds := make(map[string]map[int][]measured)
	for round := range r.rounds + 1 { // the first one warms up
		for _, n := range inFlight {
			for i, s := range sides {
				l.InFlight, l.Shape, l.Duration = n, paths[i].order.Shape, r.options.Duration
				if round == 0 {
					l.Duration /= 4
				}
				m, err := s.load(l)
				if err != nil {
					return nil, err
				}
				if round == 0 {
					continue
				}
				if rounds[s.name] == nil {
					rounds[s.name] = make(map[int][]measured)
				}
				rounds[s.name][n] = append(rounds[s.name][n], m)
			}
		}
	}
	result := map[string]map[int]Load{pathProjected: {}}
	for _, n := range inFlight {
		for _, s := range sides {
			if result[s.name] == nil {
				result[s.name] = make(map[int]Load)
			}
			one := summary(name, s.name, n, rounds[s.name][n])
			result[s.name][n] = one
			r.report.Loads = append(r.report.Loads, one)
			if s.name == pathMesh {
				all := projected(one, rounds[s.name][n])
				result[pathProjected][n] = all
				r.report.Loads = append(r.report.Loads, all)
			}
		}
	}
	return result, nil
}

func summary(name, path string, inFlight int, rounds []measured) Load {
	var p50, p99, most []time.Duration
	var rate, used, usedByAgents, batch, journal, streams []float64
	for _, m := range rounds {
		p50, p99, most = append(p50, m.Latency.Percentile(50)), append(p99, m.Latency.Percentile(99)), append(most, m.Latency.Max)
		rate, used, usedByAgents = append(rate, m.rate()), append(used, m.used), append(usedByAgents, m.usedByAgents)
		each := float64(max(1, m.Count))
		batch, journal, streams = append(batch, m.batch()), append(journal, float64(m.decided.Journal)/each), append(streams, float64(m.decided.Streams)/each)
	}
	return Load{Name: name, Path: path, InFlight: inFlight, P50: Span(median(p50)), P99: Span(median(p99)), Max: Span(slices.Max(most)),
		Rate: math.Round(median(rate)), Processor: median(used), Agents: median(usedByAgents),
		Batch: median(batch), Journal: median(journal), Streams: median(streams)}
}

// projected is the same load with the time until its projections were there.
func projected(l Load, rounds []measured) Load {
	var rate, used []float64
	for _, m := range rounds {
		rate, used = append(rate, m.rateProjected()), append(used, m.usedProjected)
	}
	l.Path, l.Rate, l.Processor = pathProjected, math.Round(median(rate)), median(used)
	return l
}

const (
	pathMesh = "mesh"
	// pathProjected is the mesh including the projections.
	pathProjected = "mesh, projected"
	pathA         = "floor A"
	pathB         = "floor B"
)

func (r *runner) quick(full, quick int) int {
	if r.options.Quick {
		return quick
	}
	return full
}

// latency and rate add a figure and its floor.
func (r *runner) latency(name, what string, n int, value, floor Load, is string, b bound) {
	r.report.add(Figure{Name: name, What: what, InFlight: n, Value: micro(value.P50), Floor: micro(floor.P50), FloorIs: is, Unit: "µs"}, &b)
}

// rates compares the mesh's answers with a floor, and once more including the
// time of the projections.
func (r *runner) rates(name, what string, inFlight []int, got map[string]map[int]Load, is string, b *bound) {
	for _, path := range []string{pathMesh, pathProjected} {
		for _, n := range inFlight {
			f := Figure{Name: name, What: what + ", rate", InFlight: n, Value: got[path][n].Rate, Floor: got[pathB][n].Rate, FloorIs: is, Unit: "/s"}
			if path == pathProjected {
				f.What += ", projected"
			}
			r.report.add(f, b)
		}
	}
}

func micro(d Span) float64 { return float64(d) / float64(time.Microsecond) }

// push compares a push and its receipt. The Controllers are disconnected, so
// that there is only one record for a push, as in floor B.
func (r *runner) push() error {
	got, err := r.compare("push", []path{
		{pathA, order{Kind: kindEcho, Shape: crossed}, readersOnly},
		{pathB, order{Kind: kindRecord, Shape: crossed}, readersOnly},
		{pathMesh, order{Kind: kindMesh, Shape: crossed}, readersOnly},
	}, inFlights, load{Mode: modePush})
	if err != nil {
		return err
	}
	r.latency("push", "to receipt, p50", 1, got[pathMesh][1], got[pathB][1], "B", atMost(1.25, "x B"))
	least := atLeast(0.8, "x B")
	r.rates("push", "to receipt", []int{16, 256}, got, "B", &least)
	return nil
}

// delivered compares a push up to its Controller with floor B and a delivery
// with its acknowledgement, which is measured on floor A. There is a pause
// after each.
func (r *runner) delivered() error {
	one := shape{Readers: 1, Controllers: 1}
	sides, stop, err := r.startAll(path{pathB, order{Kind: kindRecord, Shape: one}, readersOnly},
		path{pathA, order{Kind: kindEcho, Shape: one}, everybody}, path{pathMesh, order{Kind: kindMesh, Shape: one}, everybody})
	if err != nil {
		return err
	}
	defer stop()
	floorB, floorA, mesh := sides[0], sides[1], sides[2]
	var pushes, trips, values []measured
	for round := range r.rounds + 1 {
		l := load{Mode: modePush, InFlight: 1, Shape: one, Duration: r.options.Duration, Pause: pause}
		push, err := floorB.load(l)
		if err != nil {
			return err
		}
		trip, err := floorA.host.do(order{Do: doRoundTrip, Load: l})
		if err != nil {
			return err
		}
		l.Mode = modeDelivered
		value, err := mesh.load(l)
		if err != nil {
			return err
		}
		if round > 0 {
			trip.Took = r.options.Duration
			trip.Count = trip.Latency.Count()
			pushes, trips, values = append(pushes, push), append(trips, measured{reply: trip}), append(values, value)
		}
	}
	b, trip, value := summary("delivered", pathB+", a push", 1, pushes), summary("delivered", pathA+", a delivery and its acknowledgement", 1, trips),
		summary("delivered", pathMesh, 1, values)
	r.report.Loads = append(r.report.Loads, b, trip, value)
	r.latency("delivered", "push to Controller, p50", 1, value, Load{P50: b.P50 + trip.P50}, "B + delivery", atMost(1.4, "x"))
	return nil
}

// acknowledged is a push whose delivery is acknowledged while others are
// pushed: two records in the mesh, and two plain ones in the floor.
func (r *runner) acknowledged() error {
	return r.ratio("acknowledged", "acknowledged", "pushes that are delivered", []int{16, 256},
		order{Shape: straight, Deliver: true}, everybody, modePush, "two of B", nil)
}

func (r *runner) flow() error {
	least := atLeast(0.8, "x three of B")
	return r.ratio("flow", "flow", "ask to delivery", inFlights, order{Shape: straight}, everybody, modeFlow, "three of B", &least)
}

// interval is push and flow again, without fsync on both sides.
func (r *runner) interval() error {
	one, three := atLeast(0.8, "x B"), atLeast(0.8, "x three of B")
	if err := r.ratio("interval, push to receipt", "interval", "push to receipt", inFlights,
		order{Shape: crossed, Interval: true}, readersOnly, modePush, "B", &one); err != nil {
		return err
	}
	return r.ratio("interval, ask to delivery", "interval", "ask to delivery", inFlights,
		order{Shape: straight, Interval: true}, everybody, modeFlow, "three of B", &three)
}

// ratio compares the rates of the mesh with those of floor B; is says what of B does the same.
func (r *runner) ratio(paths, name, what string, shown []int, o order, connect func(party) bool, mode, is string, b *bound) error {
	floor, mesh := o, o
	floor.Kind, mesh.Kind = kindRecord, kindMesh
	got, err := r.compare(paths, []path{{pathB, floor, connect}, {pathMesh, mesh, connect}}, inFlights, load{Mode: mode})
	if err != nil {
		return err
	}
	r.rates(name, what, shown, got, is, b)
	return nil
}

// flood makes one Reader push invalid messages, from its own process, while
// another's pushes are measured, alternating with quiet rounds.
func (r *runner) flood() error {
	two := shape{Readers: 2, Controllers: 2}
	s, err := r.start(pathMesh, order{Kind: kindMesh, Shape: two}, func(p party) bool { return p.Name != readerName(1) })
	if err != nil {
		return err
	}
	defer s.stop()
	flooder, err := startProcess(r.options.Command(r))
	if err != nil {
		return err
	}
	defer flooder.stop()
	if err := s.connect(flooder, func(p party) bool { return p.Name == readerName(1) }); err != nil {
		return err
	}
	var quiet, beside []measured
	sent := 0
	for round := range r.rounds + 1 {
		l := load{Mode: modePush, InFlight: 1, Shape: shape{Readers: 1, Controllers: 1}, Duration: r.options.Duration}
		q, err := s.load(l)
		if err != nil {
			return err
		}
		type result struct {
			reply
			err error
		}
		flooded := make(chan result, 1)
		go func() {
			f, err := flooder.do(order{Do: doLoad, Load: load{Mode: modeFlood, FirstReader: 1, Duration: l.Duration + l.Duration/2}})
			flooded <- result{f, err}
		}()
		time.Sleep(l.Duration / 4) // it has begun
		b, err := s.load(l)
		f := <-flooded
		if err := errors.Join(err, f.err); err != nil {
			return err
		}
		if round > 0 {
			quiet, beside, sent = append(quiet, q), append(beside, b), sent+f.Count
		}
	}
	q, b := summary("flood", "quiet", 1, quiet), summary("flood", fmt.Sprintf("beside %d messages of rubbish", sent), 1, beside)
	r.report.Loads = append(r.report.Loads, q, b)
	limit := atMost(2, "x quiet")
	r.report.add(Figure{Name: "flood", What: "another channel's push, p99", InFlight: 1, Value: micro(b.P99), Floor: micro(q.P99), FloorIs: "quiet", Unit: "µs"}, &limit)
	return nil
}

// idle measures a mesh with all its agents connected but silent.
func (r *runner) idle() error {
	readers, controllers := r.quick(100, 10), r.quick(50, 10)
	channels := readers * controllers
	s, err := r.start(pathMesh, order{Kind: kindMesh, Shape: shape{Readers: readers, Controllers: controllers, Crossed: true}}, everybody)
	if err != nil {
		return err
	}
	defer s.stop()
	time.Sleep(time.Duration(r.quick(5, 1)) * time.Second) // greetings
	lasts := 60 * r.options.Duration
	before, err := s.host.do(order{Do: doUsage})
	if err != nil {
		return err
	}
	select {
	case <-time.After(lasts):
	case <-r.Done():
		return r.Err()
	}
	after, err := s.host.do(order{Do: doUsage})
	if err != nil {
		return err
	}
	limit := atMost(1, " %")
	r.report.add(Figure{Name: "idle", What: fmt.Sprintf("%d channels for %s, of one core", channels, lasts),
		Value: 100 * float64(after.Usage.CPU-before.Usage.CPU) / float64(lasts), Unit: "%"}, &limit)
	return nil
}
