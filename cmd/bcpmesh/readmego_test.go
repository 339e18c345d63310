package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// goOf are the Go programs of a document.
func goOf(t *testing.T, document string) (programs []string) {
	t.Helper()
	for _, b := range blocksOf(t, document) {
		if b.language == "go" {
			programs = append(programs, strings.Join(b.lines, "\n")+"\n")
		}
	}
	return programs
}

// buildAsUser builds programs in a module that requires this tree, as somebody does
// who pastes them, and returns where they are.
func buildAsUser(t *testing.T, c *terminal, programs []string) (built []string) {
	t.Helper()
	module := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(module, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(c.root, name))
		if err != nil {
			t.Fatal(err)
		}
		const this = "github.com/bcpmesh/bcpmesh"
		write(name, strings.Replace(string(text), "module "+this, fmt.Sprintf("module pasted\n\nrequire %s v0.0.0\n\nreplace %[1]s => %q", this, c.root), 1))
	}
	for i, program := range programs {
		name := fmt.Sprintf("program%d", i)
		write(name+"/main.go", c.withFreePorts(program))
		built = append(built, filepath.Join(c.bin, name))
	}
	for _, args := range [][]string{{"vet", "./..."}, {"build", "-o", c.bin + string(os.PathSeparator), "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = module, append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args[0], err, lastLines(out))
		}
	}
	return built
}

// Every piece of Go in the README and the walkthroughs is a program that compiles as
// it stands there. The README's Reader answers the Controller of docs/agents.md on a
// mesh that `init` wrote.
func TestGoOfDocumentsRuns(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, walk := goOf(t, "README.md"), goOf(t, "docs/agents.md")
	if len(readme) != 1 || len(walk) != 2 || walk[0] != readme[0] {
		t.Fatalf("expected the same Reader in README.md and docs/agents.md, and a Controller after it")
	}
	programs := walk
	for _, document := range documents {
		if name := filepath.Base(document); name != "agents.md" {
			programs = append(programs, goOf(t, "docs/"+name)...)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := newTerminal(t)
	built := buildAsUser(t, c, programs)
	for _, line := range []string{
		"bcpmesh init desk", "cd desk", "bcpmesh up", "bcpmesh creds issue researcher --out researcher.creds", "bcpmesh creds issue main --out main.creds",
		built[0] + " &",
	} {
		c.run(ctx, line)
	}
	out, err := c.command(ctx, built[1]).CombinedOutput()
	if err != nil || string(out) != "researcher says {\"urgent\":true}\n" {
		t.Errorf("the Controller: %v\n%s", err, lastLines(out))
	}
}
