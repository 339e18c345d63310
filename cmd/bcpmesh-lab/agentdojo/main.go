package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "agentdojo:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

// run measures the suites of a folder, and reports whether all that has to hold does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (bool, error) {
	flags := flag.NewFlagSet("agentdojo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var spec wires.Spec
	flags.StringVar(&spec.Provider, "provider", "", "have a model plan and read: anthropic, google, ollama, openai, replay or script")
	flags.StringVar(&spec.Model, "model", "", "the model, as its provider calls it; of replay and script a file")
	flags.StringVar(&spec.Key, "key", "", "its key: env:NAME or file:PATH")
	flags.StringVar(&spec.BaseURL, "base-url", "", "where the provider is; empty means its own address")
	record := flags.String("record", "", "write what the model says to `FILE`, for -provider replay")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if flags.NArg() < 1 || flags.NArg() > 2 {
		return false, fmt.Errorf("expected DIR [OUT]")
	}
	suites, err := load(flags.Arg(0))
	if err != nil {
		return false, err
	}
	m, err := openModel(spec, *record)
	if err != nil {
		return false, err
	}
	rows, err := measure(ctx, suites, m)
	if closing := m.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return false, err
	}
	var out bytes.Buffer
	ok, err := write(&out, stderr, suites, rows, m)
	if err != nil {
		return false, err
	}
	if flags.NArg() == 2 {
		return ok, os.WriteFile(flags.Arg(1), out.Bytes(), 0o644)
	}
	_, err = stdout.Write(out.Bytes())
	return ok, err
}
