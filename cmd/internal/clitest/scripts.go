package clitest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// BuildProduct builds bcpmesh, as this tree has it, into a folder, which is where scripts look for programs first. The other
// programs are tested through it.
func BuildProduct(folder string) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", folder, "./cmd/bcpmesh")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/bcpmesh: %w\n%s", err, out)
	}
	return nil
}

// Play plays scripts until the test's deadline.
func Play(t *testing.T, p testscript.Params) {
	p.Deadline, _ = t.Deadline()
	testscript.RunT(scriptT{t}, p)
}

// Exitcode is the command `exitcode CODE COMMAND…` of scripts: the command ends with exactly
// this code. Where that says that something went wrong, stderr holds one line
// about it, and perhaps a hint.
func Exitcode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	if want == cli.ExitOK {
		return
	}
	if wrong := wrongTalk(ts.ReadFile("stderr")); wrong != "" {
		ts.Fatalf("%s", wrong)
	}
}

// scriptT is the test of a script. Unless -v asks for all, a failure shows the line that
// failed and a few before it.
type scriptT struct{ *testing.T }

// Run runs the test of one script.
func (t scriptT) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(scriptT{t}) })
}

// Verbose reports whether all is shown.
func (t scriptT) Verbose() bool { return testing.Verbose() }

// Log shows what a script that failed did.
func (t scriptT) Log(args ...any) {
	t.Helper()
	text := fmt.Sprint(args...)
	if !t.Verbose() {
		text = failedLines(text)
	}
	t.T.Log(text)
}

// failedLines are the last lines of a script's log, up to the one that failed.
func failedLines(log string) string {
	if before, after, failed := strings.Cut(log, "\nFAIL: "); failed {
		line, _, _ := strings.Cut(after, "\n")
		log = before + "\nFAIL: " + line
	}
	return LastLines(log) + "\n(-v shows the whole script)"
}

// shownLines is how much of what a failed command wrote a failure shows.
const shownLines = 10

// LastLines are the last lines of what a failed command wrote.
func LastLines(text string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-shownLines):], "")
}
