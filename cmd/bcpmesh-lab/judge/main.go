// Judge makes the table of what words weigh in package text, and prints its errors in cross-validation (package judge). The sentences
// are not in the tree:
//
//	go run ./cmd/bcpmesh-lab/judge ../shared/data/sentences bcp/text/weights.bin
//
// Without the second argument it writes nothing.
package main

import (
	"fmt"
	"os"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/judge"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("expected a folder of sentences, and a file for the table; got %d arguments", len(args))
	}
	table, err := judge.Run(os.DirFS(args[0]), os.Stdout)
	if err != nil || len(args) == 1 {
		return err
	}
	return os.WriteFile(args[1], table, 0o644)
}
