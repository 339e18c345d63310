package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

const plainCase = `{"id":7,"spec":{"category":1,"fields":[{"name":"a","type":"boolean"}]},"response":{"a":true}}`

// A line of 16 MiB is judged; one byte more is skipped, and what follows is
// judged.
func TestValidateLineLimit(t *testing.T) {
	t.Parallel()
	padded := func(n int) string { return plainCase + strings.Repeat(" ", n-len(plainCase)) }
	got := execute(t, padded(cli.MaxLine)+"\n"+padded(cli.MaxLine+1)+"\n"+plainCase, "validate")
	failIf(t, got.code != cli.ExitFailed || strings.Count(got.stdout, `"verdict":"accept"`) != 2,
		"exit %d: %s", got.code, got.stdout)
	want := "line 2: the line is longer than 16 MiB\nbcpmesh: 1 line not judged\n"
	failIf(t, got.stderr != want, "got %q, want %q", got.stderr, want)
}

// A verdict is written before the next case is awaited.
func TestValidateStreams(t *testing.T) {
	t.Parallel()
	in, cases := io.Pipe()
	verdicts, out := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- runCommandLine(t.Context(), []string{"validate"}, in, out, io.Discard, none) }()
	lines := bufio.NewScanner(verdicts)
	for range 3 {
		must(io.WriteString(cases, plainCase+"\n"))(t)
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"id":7,"verdict":"accept"`) {
			t.Fatalf("got %q, %v", lines.Text(), lines.Err())
		}
	}
	noError(t, cases.Close())
	expect(t, <-ended, cli.ExitOK, "exit")
}

// An interrupt ends a command that waits for its input.
func TestValidateInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	in, cases, err := os.Pipe()
	noError(t, err)
	defer in.Close()
	defer cases.Close()
	var talk strings.Builder
	ended := make(chan int, 1)
	go func() { ended <- runCommandLine(ctx, []string{"validate"}, in, io.Discard, &talk, none) }()
	interrupt()
	select {
	case code := <-ended:
		failIf(t, code != cli.ExitFailed || talk.String() != "bcpmesh: interrupted\n", "exit %d, %q", code, talk.String())
	case <-time.After(scriptTimeout):
		t.Fatal("still waiting")
	}
}

// A result that cannot be written is a failure, not a silence.
func TestResultCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"validate"}, {"--help"}, {"completion", "bash"}, {"check", "internal/define/meshes/research"}} {
		var talk strings.Builder
		code := runCommandLine(t.Context(), args, strings.NewReader(plainCase), fullDisk{}, &talk, none)
		failIf(t, code != cli.ExitFailed || !strings.HasSuffix(talk.String(), "bcpmesh: the result cannot be written: disk full\n"),
			"%v: exit %d, %q", args, code, talk.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func none(string) string { return "" }
