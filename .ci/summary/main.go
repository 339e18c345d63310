// Summary makes one page of what .ci/nightly ran: the first that broke, with its seed, and
// for each command and each benchmark how it did beside the runs before.
//
//	summary [-revision TEXT] LOGS FOLDER
//
// LOGS has a file "results" with a line for each command (status, seconds and command,
// separated by tabs) and its output in 1.log, 2.log and so on. FOLDER keeps nightly.jsonl,
// a line of JSON for each run, which this run is appended to. The exit code is 1 where
// anything broke.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// run is one line of nightly.jsonl.
type run struct {
	Time     time.Time `json:"time"`
	Revision string    `json:"revision"`
	Forms    []form    `json:"forms"`
	First    *broken   `json:"first,omitempty"` // the first that broke
}

// form is one command.
type form struct {
	Command string             `json:"command"`
	OK      bool               `json:"ok"`
	Seconds float64            `json:"seconds"`
	Figures map[string]float64 `json:"figures,omitempty"` // of benchmarks, by name and unit
}

type broken struct {
	Command string `json:"command"`
	Test    string `json:"test,omitempty"`
	Seed    string `json:"seed,omitempty"`
	Log     string `json:"log"`
	Said    string `json:"said,omitempty"`
}

func main() {
	revision := flag.String("revision", "", "what was run")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: summary [-revision TEXT] LOGS FOLDER")
		os.Exit(2)
	}
	ok, err := summarise(os.Stdout, flag.Arg(0), flag.Arg(1), *revision, time.Now().UTC())
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

const history = "nightly.jsonl"

func summarise(w io.Writer, logs, folder, revision string, now time.Time) (ok bool, err error) {
	before, err := readHistory(filepath.Join(folder, history))
	if err != nil {
		return false, err
	}
	this, err := readLogs(logs)
	if err != nil {
		return false, err
	}
	this.Time, this.Revision = now.Truncate(time.Second), revision
	if err := page(w, this, before); err != nil {
		return false, err
	}
	return this.First == nil, appendHistory(filepath.Join(folder, history), this)
}

func readLogs(logs string) (this run, err error) {
	results, err := os.ReadFile(filepath.Join(logs, "results"))
	if err != nil {
		return this, err
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(results), "\n"), "\n") {
		fields := strings.SplitN(line, "\t", 3)
		if len(fields) != 3 {
			return this, fmt.Errorf("results, line %d: expected status, seconds and command", i+1)
		}
		seconds, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return this, fmt.Errorf("results, line %d: %w", i+1, err)
		}
		name := filepath.Join(logs, strconv.Itoa(i+1)+".log")
		log, err := os.ReadFile(name)
		if err != nil {
			return this, err
		}
		f := form{Command: fields[2], OK: fields[0] == "0", Seconds: seconds, Figures: figures(log)}
		if !f.OK && this.First == nil {
			this.First = whatBroke(f.Command, name, log)
		}
		this.Forms = append(this.Forms, f)
	}
	return this, nil
}

var (
	failed    = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	seeded    = regexp.MustCompile(`-(?:[a-z]+\.)?seed[ =]-?[0-9]+`)
	failInput = regexp.MustCompile(`(?m)^\s*Failing input written to (\S+)`)
	said      = regexp.MustCompile(`(?m)^\s*[A-Za-z0-9_]+_test\.go:[0-9]+: .*|^panic: .*|^WARNING: DATA RACE.*|^=== .* FAILED`)
	measured  = regexp.MustCompile(`(?m)^(Benchmark\S+?)(?:-[0-9]+)?\s+[0-9]+\s+(.*)$`)
)

// whatBroke takes the deepest test that failed first, the seed that repeats it, and what
// it said first. Any may be missing: a build that fails has none.
func whatBroke(command, name string, log []byte) *broken {
	b := &broken{Command: command, Log: name, Said: strings.TrimSpace(string(said.Find(log)))}
	if m := failed.FindSubmatch(log); m != nil {
		b.Test = string(m[1])
		for _, deeper := range failed.FindAllSubmatch(log, -1) {
			if strings.HasPrefix(string(deeper[1]), b.Test+"/") {
				b.Test = string(deeper[1])
			}
		}
	}
	if m := failInput.FindSubmatch(log); m != nil {
		b.Seed = string(m[1])
	} else {
		b.Seed = string(seeded.Find(log))
	}
	if len(b.Said) > 200 {
		b.Said = strings.ToValidUTF8(b.Said[:200], "") + "…"
	}
	return b
}

// figures are those of Go benchmarks: "BenchmarkX-8  100  12.5 ns/op  3 B/op".
func figures(log []byte) map[string]float64 {
	found := make(map[string]float64)
	for _, m := range measured.FindAllSubmatch(log, -1) {
		words := strings.Fields(string(m[2]))
		for i := 0; i+1 < len(words); i += 2 {
			if v, err := strconv.ParseFloat(words[i], 64); err == nil {
				found[string(m[1])+" "+words[i+1]] = v
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

// medianOf is how many earlier runs a trend is taken of.
const medianOf = 10

// trend compares a figure with the median of the newest runs that have it.
func trend(v float64, earlier []float64) string {
	if len(earlier) == 0 {
		return "new"
	}
	earlier = slices.Sorted(slices.Values(earlier[max(0, len(earlier)-medianOf):]))
	median := earlier[len(earlier)/2]
	if median == 0 {
		return "was 0"
	}
	return fmt.Sprintf("%+.0f %% of the median of %d", 100*(v/median-1), len(earlier))
}

func page(w io.Writer, this run, before []run) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s, %s\n\n", cmp.Or(this.Revision, "no revision"), this.Time.Format("2006-01-02 15:04"))
	if first := this.First; first != nil {
		fmt.Fprintf(&b, "The first that broke:\n\n  %s\n  %s", first.Command, cmp.Or(first.Test, "no test failed: see the log"))
		if first.Seed != "" {
			fmt.Fprintf(&b, " with %s", first.Seed)
		}
		fmt.Fprintf(&b, "\n  %s\n", first.Log)
		if first.Said != "" {
			fmt.Fprintf(&b, "  %s\n", first.Said)
		}
		if since := lastGood(first.Command, before); since != "" {
			fmt.Fprintf(&b, "  it was good at %s\n", since)
		}
		b.WriteString("\n")
	}
	for _, f := range this.Forms {
		result := "ok"
		if !f.OK {
			result = "BROKE"
		}
		var seconds []float64
		for _, r := range before {
			for _, g := range r.Forms {
				if g.Command == f.Command && g.OK {
					seconds = append(seconds, g.Seconds)
				}
			}
		}
		fmt.Fprintf(&b, "%-5s %6.0f s  %s (%s)\n", result, f.Seconds, f.Command, trend(f.Seconds, seconds))
		for _, name := range slices.Sorted(maps.Keys(f.Figures)) {
			var earlier []float64
			for _, r := range before {
				for _, g := range r.Forms {
					if v, ok := g.Figures[name]; ok && g.Command == f.Command {
						earlier = append(earlier, v)
					}
				}
			}
			fmt.Fprintf(&b, "               %s: %g (%s)\n", name, f.Figures[name], trend(f.Figures[name], earlier))
		}
	}
	_, err := b.WriteTo(w)
	return err
}

// lastGood is the newest revision at which a command was good.
func lastGood(command string, before []run) string {
	for _, r := range slices.Backward(before) {
		for _, f := range r.Forms {
			if f.Command == command && f.OK {
				return fmt.Sprintf("%s, %s", cmp.Or(r.Revision, "no revision"), r.Time.Format("2006-01-02"))
			}
		}
	}
	return ""
}

func readHistory(name string) (list []run, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var r run
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		list = append(list, r)
	}
	return list, lines.Err()
}

func appendHistory(name string, this run) error {
	line, err := json.Marshal(this)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
