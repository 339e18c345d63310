// Command vectors runs shared cases against the program and compares what it says with
// what they expect:
//
//	vectors BCPMESH FOLDER
//
// FOLDER holds guard, kernel and roles, each with cases.jsonl; their READMEs say what the
// members of a case mean. It prints the first differences and exits 1 if there are any.
// A folder whose command the program does not have is left out with a line that begins
// with "not run: ".
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// shown is how many differences are printed.
const shown = 10

// line is one case, as it came, and what is read of it.
type line struct {
	raw    []byte
	ID     string         `json:"id"`
	Op     string         `json:"op"`
	In     map[string]any `json:"in"`
	Expect map[string]any `json:"expect"`
}

// suite is a folder of cases.
type suite struct {
	folder string
	// command is what reads the lines of an op.
	command func(op string) []string
	// compare returns what of a result is not as expected; all are the results by id.
	compare func(c line, result map[string]any, all map[string]map[string]any) []string
}

var suites = []suite{
	{"guard", func(op string) []string { return []string{"guard", op, "--json"} }, compareGuard},
	{"kernel", func(string) []string { return []string{"kernel", "simulate"} }, compareSimulated},
	{"roles", func(string) []string { return []string{"role", "simulate"} }, compareSimulated},
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: vectors BCPMESH FOLDER")
		os.Exit(2)
	}
	failed := false
	for _, s := range suites {
		cases, err := readCases(filepath.Join(os.Args[2], s.folder, "cases.jsonl"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		failed = s.run(os.Args[1], cases) || failed
	}
	if failed {
		os.Exit(1)
	}
}

func readCases(name string) ([]line, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var cases []line
	for raw := range bytes.Lines(content) {
		c := line{raw: bytes.TrimRight(raw, "\n")}
		if err := decode(raw, &c); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, len(cases)+1, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// decode keeps numbers as they are written.
func decode(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(to)
}

// run runs each op once with all its lines, prints the first differences, and reports
// whether there are any.
func (s suite) run(program string, cases []line) (failed bool) {
	groups, ops := map[string][]line{}, []string{}
	for _, c := range cases {
		if groups[c.Op] == nil {
			ops = append(ops, c.Op)
		}
		groups[c.Op] = append(groups[c.Op], c)
	}
	var differences []string
	compared := 0
	for _, op := range ops {
		command := s.command(op)
		if missing(program, command) {
			fmt.Printf("not run: vectors, %d cases of %s: there is no command bcpmesh %s\n", len(groups[op]), s.folder, strings.Join(command, " "))
			continue
		}
		results, _, err := s.results(program, command, groups[op])
		if err != nil {
			differences = append(differences, fmt.Sprintf("%s %s: %v", s.folder, op, err))
			continue
		}
		all := map[string]map[string]any{}
		for i, c := range groups[op] {
			all[c.ID] = results[i]
		}
		for i, c := range groups[op] {
			found := s.compare(c, results[i], all)
			if limit, ok := c.Expect["max_ms"].(json.Number); ok && !s.inTime(program, command, c, limit) {
				found = append(found, "it takes more than "+limit.String()+" ms")
			}
			compared++
			if len(found) > 0 {
				differences = append(differences, fmt.Sprintf("%s %s: %s", s.folder, c.ID, strings.Join(found, "; ")))
			}
		}
	}
	for _, d := range differences[:min(shown, len(differences))] {
		fmt.Println(oneLine(d))
	}
	if more := len(differences) - shown; more > 0 {
		fmt.Printf("%s: %d more\n", s.folder, more)
	}
	fmt.Printf("%s: %d of %d cases compared, %d differ\n", s.folder, compared, len(cases), len(differences))
	return len(differences) > 0
}

// missing reports whether the program refuses a command line (exit code 2).
func missing(program string, command []string) bool {
	var exit *exec.ExitError
	return errors.As(exec.Command(program, command...).Run(), &exit) && exit.ExitCode() == 2
}

// oneLine keeps a difference in one line of a terminal or two.
func oneLine(text string) string {
	const most = 240
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + " …"
	}
	return text
}

// results are what a command says of cases, in their order, and how long it took.
func (s suite) results(program string, command []string, cases []line) ([]map[string]any, time.Duration, error) {
	var in, errs bytes.Buffer
	for _, c := range cases {
		in.Write(c.raw)
		in.WriteByte('\n')
	}
	cmd := exec.Command(program, command...)
	cmd.Stdin, cmd.Stderr = &in, &errs
	begin := time.Now()
	out, err := cmd.Output()
	took := time.Since(begin)
	if err != nil {
		return nil, took, fmt.Errorf("bcpmesh %s: %w: %s", strings.Join(command, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	var results []map[string]any
	for text := range bytes.Lines(out) {
		var result map[string]any
		if err := decode(text, &result); err != nil {
			return nil, took, fmt.Errorf("result %d: %w", len(results)+1, err)
		}
		if len(results) == len(cases) || result["id"] != cases[len(results)].ID {
			return nil, took, fmt.Errorf("result %d is of %v", len(results)+1, result["id"])
		}
		results = append(results, result)
	}
	if len(results) < len(cases) {
		return nil, took, errors.New("results are missing")
	}
	return results, took, nil
}

// inTime reports whether a case alone is decided in so many milliseconds, the quickest of
// three times and without the program's own start.
func (s suite) inTime(program string, command []string, c line, limit json.Number) bool {
	most, err := limit.Int64()
	if err != nil {
		return false
	}
	for range 3 {
		_, start, err := s.results(program, command, nil)
		if err != nil {
			return false
		}
		if _, took, err := s.results(program, command, []line{c}); err == nil && took-start <= time.Duration(most)*time.Millisecond {
			return true
		}
	}
	return false
}
