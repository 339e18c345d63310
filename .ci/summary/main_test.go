package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// night writes the logs of a run, and returns its page.
func night(t *testing.T, folder, revision, results string, logs ...string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("results", results)
	for i, log := range logs {
		write(string(rune('1'+i))+".log", log)
	}
	var page strings.Builder
	ok, err := summarise(&page, dir, folder, revision, time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(page.String(), dir, "LOGS"), ok
}

// A page names the first that broke with its seed and the newest revision at which it was
// good, and says how long each took beside the runs before, without those that broke.
func TestPage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	bench := "goos: linux\nBenchmarkDecide-2   \t 100\t  200 ns/op\t 16 B/op\nPASS\n"
	if page, ok := night(t, folder, "aaa", "0\t10\tgo test -run Crash\n0\t5\tgo test -bench .\n", "ok\n", bench); !ok || strings.Contains(page, "BROKE") || !strings.Contains(page, "BenchmarkDecide ns/op: 200 (new)") {
		t.Errorf("%v\n%s", ok, page)
	}
	crash := "crash_test.go:40: -seed 12345\n--- FAIL: TestCrash (3.00s)\n    --- FAIL: TestCrash/round_7 (1.00s)\n        crash_test.go:77: two deliveries\nFAIL\n"
	slow := strings.Replace(bench, "200 ns", "300 ns", 1)
	page, ok := night(t, folder, "bbb", "1\t20\tgo test -run Crash\n0\t5\tgo test -bench .\n", crash, slow)
	want := `# bbb, 2026-11-23 06:00

The first that broke:

  go test -run Crash
  TestCrash/round_7 with -seed 12345
  LOGS/1.log
  crash_test.go:40: -seed 12345
  it was good at aaa, 2026-11-23

BROKE     20 s  go test -run Crash (+100 % of the median of 1)
ok         5 s  go test -bench . (+0 % of the median of 1)
               BenchmarkDecide B/op: 16 (+0 % of the median of 1)
               BenchmarkDecide ns/op: 300 (+50 % of the median of 1)
`
	if ok || page != want {
		t.Errorf("%v\n%s\nwant\n%s", ok, page, want)
	}
	if page, _ := night(t, folder, "ccc", "0\t10\tgo test -run Crash\n", "ok\n"); !strings.Contains(page, "(+0 % of the median of 1)") {
		t.Errorf("a run that broke counts\n%s", page)
	}
}

// What a build, a fuzz target, a race or a killed process leaves is named as far as it goes.
func TestWhatBroke(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ log, test, seed, said string }{
		"build":  {"./x.go:3:1: syntax error\nFAIL\tpkg [build failed]\n", "", "", ""},
		"killed": {"", "", "", ""},
		"race":   {"==================\nWARNING: DATA RACE\nRead at 0x1\n--- FAIL: TestTwo (0.1s)\n", "TestTwo", "", "WARNING: DATA RACE"},
		"fuzz": {"--- FAIL: FuzzAdd (0.10s)\n    --- FAIL: FuzzAdd (0.00s)\n        witness_test.go:9: cosigned\n    \n    Failing input written to testdata/fuzz/FuzzAdd/abc\n",
			"FuzzAdd", "testdata/fuzz/FuzzAdd/abc", "witness_test.go:9: cosigned"},
		"rapid": {"--- FAIL: TestOneHistory (0.02s)\n    w_test.go:5: [rapid] failed (or -rapid.seed=1844)\n", "TestOneHistory", "-rapid.seed=1844", "w_test.go:5: [rapid] failed (or -rapid.seed=1844)"},
		"panic": {"panic: oh\n\ngoroutine 1\n", "", "", "panic: oh"},
	} {
		if b := whatBroke("c", "l", []byte(c.log)); b.Test != c.test || b.Seed != c.seed || b.Said != c.said {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

// A history that cannot be read is an error, and is not written over.
func TestDamagedHistory(t *testing.T) {
	t.Parallel()
	folder, logs := t.TempDir(), t.TempDir()
	name := filepath.Join(folder, history)
	for file, text := range map[string]string{name: "{\n", filepath.Join(logs, "results"): "0\t1\tx\n", filepath.Join(logs, "1.log"): ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := summarise(&strings.Builder{}, logs, folder, "", time.Now()); err == nil {
		t.Error("a damaged history is taken")
	}
	if content, err := os.ReadFile(name); err != nil || string(content) != "{\n" {
		t.Errorf("%q, %v", content, err)
	}
}
