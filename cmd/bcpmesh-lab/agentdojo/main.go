package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/bcpmesh/bcpmesh/bcp"
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
	var spec bcp.Model
	flags.StringVar(&spec.Provider, "provider", "", "have a model plan and read: anthropic, google, ollama, openai, script or replay")
	flags.StringVar(&spec.Model, "model", "", "the model, as its provider calls it; of replay a folder of transcripts")
	flags.StringVar(&spec.Key, "key", "", "its key: env:NAME or file:PATH")
	flags.StringVar(&spec.BaseURL, "base-url", "", "where the provider is; empty means its own address")
	var a arena
	record := flags.String("record", "", "write what models say and what is done to a new `FOLDER`, for -provider replay")
	flags.StringVar(&a.Attacker, "attacker", "", "an attacker who adapts: search or model, the same one; without -provider always search")
	flags.IntVar(&a.Rounds, "rounds", 8, "how often that attacker tries each pair at most")
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
	if spec.Provider == "" && a.Attacker == "" {
		a.Attacker = "search"
	}
	if err := a.open(spec, *record); err != nil {
		return false, err
	}
	rows, err := measure(ctx, suites, &a)
	if err != nil {
		return false, err
	}
	var out bytes.Buffer
	ok, err := write(&out, stderr, suites, rows, &a)
	if err != nil {
		return false, err
	}
	if flags.NArg() == 2 {
		return ok, os.WriteFile(flags.Arg(1), out.Bytes(), 0o644)
	}
	_, err = stdout.Write(out.Bytes())
	return ok, err
}
