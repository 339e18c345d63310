package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// block is a fenced block of the README.
type block struct {
	language string
	lines    []string
}

func readmeBlocks(t *testing.T) []block {
	t.Helper()
	content, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	inside := false
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```") && !inside:
			blocks, inside = append(blocks, block{language: strings.TrimPrefix(line, "```")}), true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			last := &blocks[len(blocks)-1]
			last.lines = append(last.lines, line)
		}
	}
	return blocks
}

// terminal is where a newcomer types the README's commands: one folder after
// the other, a program of the README's own making first in PATH.
type terminal struct {
	t    *testing.T
	root string // of the module
	dir  string
	env  []string
}

func (c *terminal) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = c.dir, c.env
	if strings.HasPrefix(line, "go ") {
		cmd.Dir = c.root
	}
	return cmd
}

// run types one line and waits for it; "cd" and "up" are not waited for.
func (c *terminal) run(ctx context.Context, line string) {
	c.t.Helper()
	if folder, ok := strings.CutPrefix(line, "cd "); ok {
		c.dir = filepath.Join(c.dir, folder)
		return
	}
	if line == "bcpmesh up" {
		c.up(ctx)
		return
	}
	if out, err := c.command(ctx, line).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// up leaves the mesh running until the end of the test, and checks that it then
// ends cleanly.
func (c *terminal) up(ctx context.Context) {
	c.t.Helper()
	cmd := c.command(context.WithoutCancel(ctx), "exec bcpmesh up")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := <-ended; err != nil {
			c.t.Errorf("bcpmesh up: %v\n%s", err, &out)
		}
	})
	for {
		if _, err := os.Stat(filepath.Join(c.dir, stateFolder, readyName)); err == nil {
			return
		}
		select {
		case err := <-ended:
			ended <- err
			c.t.Fatalf("bcpmesh up: %v\n%s", err, &out)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Every command of the README is typed as it stands there. The test command
// itself is what .ci/run runs, from the README.
func TestReadmeCommandsWork(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	c := &terminal{t: t, root: root, dir: t.TempDir(),
		env: append(os.Environ(), "GOBIN="+bin, "GOFLAGS=-buildvcs=false", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))}
	typed := 0
	for _, b := range readmeBlocks(t) {
		if b.language != "sh" {
			continue
		}
		for _, line := range b.lines {
			if line == "go test ./..." {
				continue
			}
			c.run(ctx, line)
			typed++
		}
	}
	if typed < 12 {
		t.Errorf("typed only %d commands: is the README still in blocks of sh?", typed)
	}
}

// Every piece of Go in the README stands in an example that is compiled.
func TestReadmeCodeIsCompiled(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../../agents/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var compiled strings.Builder
	for _, name := range examples {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			compiled.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	found := 0
	for _, b := range readmeBlocks(t) {
		if b.language != "go" {
			continue
		}
		found++
		var code strings.Builder
		for _, line := range b.lines {
			code.WriteString(strings.TrimSpace(line) + "\n")
		}
		if !strings.Contains(compiled.String(), code.String()) {
			t.Errorf("no example has these lines:\n%s", code.String())
		}
	}
	if found == 0 {
		t.Error("the README has no Go")
	}
}
