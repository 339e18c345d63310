// Judge makes the table of what words weigh in package text, and prints its errors in cross-validation (package judge). The sentences
// are not in the tree:
//
//	go run ./cmd/bcpmesh-lab/judge ../shared/data/sentences .
//
// The second argument is the tree, of which it writes bcp/text/weights.bin and the figures of docs/guard.md; without it it writes nothing.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/judge"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/section"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("expected a folder of sentences, and the tree to write to; got %d arguments", len(args))
	}
	made, err := judge.Run(os.DirFS(args[0]), os.Stdout)
	if err != nil || len(args) == 1 {
		return err
	}
	guard := filepath.Join(args[1], "docs", "guard.md")
	document, err := os.ReadFile(guard)
	if err == nil {
		document, err = section.Replace(document, "judge", made.Figures)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", guard, err)
	}
	for path, data := range map[string][]byte{guard: document, filepath.Join(args[1], "bcp", "text", "weights.bin"): made.Table} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
