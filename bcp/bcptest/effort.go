package bcptest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The fast form of a test asserts the same with fewer rounds. `go test -short`
// and the race detector use it; under the latter everything takes many times as
// long, and one round shows the races of a hundred. -short also leaves out
// tests whose one round is long; each package lists its own in TestMain. `go
// test` without -short runs everything except long forms, and no step of
// .ci/run has -short. Long forms need -long, in packages that have them;
// .ci/nightly uses it.
var long = flag.Bool("long", false, "take the long forms of tests")

// Long reports whether tests take their long forms.
func Long() bool { return *long }

// Fast reports whether tests take their fast forms.
func Fast() bool { return underRace || testing.Short() }

// Rounds is how often a test does something: full, or fast in its fast form.
func Rounds(full, fast int) int {
	if Fast() {
		return fast
	}
	return full
}

// Sample returns the cases of a table-driven test: all, or every n-th in its fast form.
func Sample[T any](all []T, n int) []T {
	if !Fast() {
		return all
	}
	var some []T
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// LeaveOut makes -short skip these tests of the package, and say so on stderr, which
// `go test -v` shows. It is for TestMain, and does nothing without -short.
func LeaveOut(long ...string) {
	if !flag.Parsed() {
		flag.Parse()
	}
	if !testing.Short() {
		return
	}
	skip := flag.Lookup("test.skip")
	pattern := "^(" + strings.Join(long, "|") + ")$"
	if given := skip.Value.String(); given != "" {
		pattern = given + "|" + pattern
	}
	if err := skip.Value.Set(pattern); err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "-short leaves out %d tests: %s\n", len(long), strings.Join(long, ", "))
}

// Parallel runs n tests of the package at a time, unless -parallel says otherwise: for a
// TestMain of tests that mostly wait for servers and processes.
func Parallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
