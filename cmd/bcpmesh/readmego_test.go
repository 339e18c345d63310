package main

import (
	"context"
	"encoding/json"
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

// buildPasted compiles programs of documents as packages of this module, which share what is
// compiled of it, and builds the first two. It returns where these are.
func buildPasted(t *testing.T, c *terminal, programs []string) (built []string) {
	t.Helper()
	// The module has none of these files: an overlay says where they are.
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	folder := t.TempDir()
	var packages []string
	for i, program := range programs {
		name := fmt.Sprintf("program%d", i)
		file := filepath.Join(folder, name+".go")
		noError(t, os.WriteFile(file, []byte(c.withFreePorts(program)), 0o600))
		overlay.Replace[filepath.Join(c.root, "pasted", name, "main.go")] = file
		packages = append(packages, "./pasted/"+name)
		built = append(built, filepath.Join(c.bin, name))
	}
	list := must(json.Marshal(overlay))(t)
	file := filepath.Join(folder, "overlay.json")
	noError(t, os.WriteFile(file, list, 0o600))
	for _, args := range [][]string{
		append([]string{"list", "-export", "-overlay", file}, packages...), // compiles, and links nothing,
		append([]string{"build", "-overlay", file, "-o", c.bin + string(os.PathSeparator)}, packages[:2]...),
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = c.root
		out, err := cmd.CombinedOutput()
		stopIf(t, err != nil, "go %s: %v\n%s", args[0], err, lastLines(out))
	}
	return built[:2]
}

// Every piece of Go in the documents is a program that compiles as it stands there. The
// Reader of docs/agents.md answers the Controller after it on a mesh that `init` wrote.
func TestGoOfDocumentsRuns(t *testing.T) {
	t.Parallel()
	documents := must(filepath.Glob("../../docs/*.md"))(t)
	programs := goOf(t, "docs/agents.md")
	stopIf(t, len(programs) != 2, "docs/agents.md has %d programs, and not a Reader and a Controller", len(programs))
	for _, document := range documents {
		if name := filepath.Base(document); name != "agents.md" {
			programs = append(programs, goOf(t, "docs/"+name)...)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := newTerminal(t)
	built := buildPasted(t, c, programs)
	for _, line := range []string{
		"bcpmesh init desk", "cd desk", "bcpmesh up", "bcpmesh creds issue researcher --out researcher.creds", "bcpmesh creds issue main --out main.creds",
		built[0] + " &",
	} {
		c.run(ctx, line)
	}
	out, err := c.command(ctx, built[1]).CombinedOutput()
	failIf(t, err != nil || string(out) != "researcher says {\"urgent\":true}\n", "the Controller: %v\n%s", err, lastLines(out))
}
