package clitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// Root makes the commands of the program under test.
type Root func(*cli.Program) *cobra.Command

// Outcome is what one command line did.
type Outcome struct {
	Code           int
	Stdout, Stderr string
}

// Execute runs a command line inside the test, with an empty environment.
func (r Root) Execute(stdin string, args ...string) Outcome {
	var stdout, stderr bytes.Buffer
	code := cli.Run(context.Background(), r, args, strings.NewReader(stdin), &stdout, &stderr, func(string) string { return "" })
	return Outcome{code, stdout.String(), stderr.String()}
}

// Each calls f with every command and its words.
func (r Root) Each(f func(cmd *cobra.Command, words []string)) {
	p := &cli.Program{In: strings.NewReader(""), Out: cli.NewOutput(&bytes.Buffer{}, &bytes.Buffer{}), Env: os.Getenv}
	var walk func(cmd *cobra.Command, words []string)
	walk = func(cmd *cobra.Command, words []string) {
		f(cmd, words)
		for _, child := range cmd.Commands() {
			walk(child, append(words[:len(words):len(words)], child.Name()))
		}
	}
	walk(r(p), nil)
}

// shell takes words of a shell apart, up to where the output or the next command begins.
var shell = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)

// checkExample checks that the program understands the examples of cmd, their flags and their arguments, of which there is
// one at least. That of a group is of one of its commands.
func checkExample(t *testing.T, cmd *cobra.Command) {
	understood := 0
	for line := range strings.Lines(strings.ReplaceAll(cmd.Example, "\\\n", " ")) {
		var words []string
		for _, word := range shell.FindAllString(line, -1) {
			if word == "|" || word == "<" || word == ">" || word == ">>" || word == "&&" {
				break
			}
			words = append(words, strings.Trim(word, `'"`))
		}
		if len(words) == 0 || words[0] != cmd.Root().Name() {
			continue // of another program that this one works with
		}
		named, rest, err := cmd.Root().Find(words[1:])
		if err == nil && !named.DisableFlagParsing {
			if err = named.ParseFlags(rest); err == nil {
				err = errors.Join(named.ValidateArgs(named.Flags().Args()), named.ValidateRequiredFlags(), named.ValidateFlagGroups())
			}
		}
		switch {
		case err != nil && !errors.Is(err, pflag.ErrHelp):
			t.Errorf("%s: %v", line, err)
		case named == cmd || named.Parent() == cmd:
			understood++
		}
	}
	bcptest.FailIf(t, understood == 0, "no example is of it")
}

// mostLines is how long a help may be; that of the program lists all commands.
const mostLines = 40

// CheckHelp checks that every command has a long help, of few lines, with an example of it that is understood, and that the
// texts are those in testdata/help, which update writes again. Commands of other programs have their help there.
func (r Root) CheckHelp(t *testing.T, update bool) {
	r.Each(func(cmd *cobra.Command, words []string) {
		if cmd.DisableFlagParsing {
			return
		}
		t.Run(strings.Join(append([]string{"bcpmesh"}, words...), "-"), func(t *testing.T) {
			t.Parallel()
			bcptest.FailIf(t, cmd.Long == "", "there is no long help")
			checkExample(t, cmd)
			got := r.Execute("", append(words, "--help")...)
			bcptest.StopIf(t, got.Code != cli.ExitOK || got.Stderr != "", "exit %d, stderr %q", got.Code, got.Stderr)
			bcptest.FailIf(t, !strings.Contains(got.Stdout, "--json"), "the help does not name --json")
			if n := strings.Count(got.Stdout, "\n"); n > mostLines && cmd.HasParent() {
				t.Errorf("%d lines, at most %d: say less", n, mostLines)
			}
			for line := range strings.Lines(got.Stdout) {
				bcptest.FailIf(t, len([]rune(line)) > 121, "longer than 120 characters: %s", line)
			}
			golden := filepath.Join("testdata", "help", filepath.Base(t.Name())+".txt")
			if update {
				bcptest.NoError(t, os.WriteFile(golden, []byte(got.Stdout), 0o644))
			}
			want := bcptest.MustIn(os.ReadFile(golden))(t)
			if diff := cmp.Diff(string(want), got.Stdout); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	})
}

// CheckBadCommandLines checks that whatever is wrong with a command line, the answer is one line on stderr, at most one hint
// behind it, nothing on stdout, and the exit code for it. Commands that take any number of arguments are named.
func (r Root) CheckBadCommandLines(t *testing.T, anyNumber ...string) {
	r.Each(func(_ *cobra.Command, words []string) {
		for _, wrong := range [][]string{
			{"--jsonn"}, {"--json=perhaps"}, {"-Q"}, {"--no-such-flag=\x1b[31m\n"}, {"one", "two", "three", "--", "--four"}, {"-="}, {"--="},
		} {
			args := append(words[:len(words):len(words)], wrong...)
			if wrong[0] == "one" && slices.Contains(anyNumber, strings.Join(words, " ")) {
				continue
			}
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				got := r.Execute("", args...)
				bcptest.FailIf(t, got.Code != cli.ExitUsage || got.Stdout != "", "exit %d, stdout %q", got.Code, got.Stdout)
				CheckTalk(t, got.Stderr)
			})
		}
	})
}

// CheckTalk checks that stderr holds one line about an error, perhaps with a hint, and nothing that a terminal would act on.
func CheckTalk(t testing.TB, stderr string) {
	t.Helper()
	if wrong := wrongTalk(stderr); wrong != "" {
		t.Error(wrong)
	}
}

func wrongTalk(stderr string) string {
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if len(lines) > 2 || !strings.HasPrefix(lines[0], "bcpmesh: ") || len(lines) == 2 && !strings.HasPrefix(lines[1], "hint: ") {
		return "stderr: expected one line and perhaps a hint:\n" + stderr
	}
	for _, line := range lines {
		if line != cli.Plain(line) {
			return "stderr: not harmless for a terminal: " + cli.Quoted(line)
		}
	}
	return ""
}

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
	testscript.Run(t, p)
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

// shownLines is how much of what a failed command wrote a failure shows.
const shownLines = 10

// LastLines are the last lines of what a failed command wrote.
func LastLines(text string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-shownLines):], "")
}

// Faults checks each entry of a catalogue: it is what is said of its error, whatever that is wrapped in, and it fills all of
// its texts.
func Faults(t *testing.T, list cli.Faults) {
	t.Helper()
	for _, f := range list {
		got := list.Failure(fmt.Errorf("reading: %w", f.Of), "a folder")
		alone := cli.Faults{f}.Failure(fmt.Errorf("reading: %w", f.Of), "a folder")
		if got == nil || got.Message != alone.Message || got.Hint != alone.Hint || !errors.Is(got, f.Of) {
			t.Errorf("%v: an entry before it answers: %v", f.Of, got)
		} else if strings.ContainsAny(got.Message+got.Hint, "{}") || got.Message == "" || got.Code != cli.ExitFailed {
			t.Errorf("%v: %+v", f.Of, got)
		}
	}
	if got := list.Failure(errors.New("unknown"), "a folder"); got != nil {
		t.Errorf("an unknown error: %v", got)
	}
}
