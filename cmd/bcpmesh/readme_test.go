package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// block is a fenced block of a document.
type block struct {
	language string
	lines    []string
}

func blocksOf(t *testing.T, document string) []block {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", document))
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

// terminal is where a newcomer types a document's commands: one folder after the
// other, a program of the tree's own making first in PATH.
type terminal struct {
	t    *testing.T
	root string // of the module
	dir  string
	env  []string
	mesh chan error // how up ends
}

func (c *terminal) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = c.dir, c.env
	if strings.HasPrefix(line, "go ") {
		cmd.Dir = c.root
	}
	return cmd
}

// run types one line and waits for it; "cd" and "up" are not waited for. Behind
// a "kill" it waits for the mesh.
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
	if m := assignment.FindStringSubmatch(line); m != nil {
		value, err := c.command(ctx, line+` && test -n "$`+m[1]+`" && printf %s "$`+m[1]+`"`).Output()
		if err != nil {
			c.t.Fatalf("%s: %v", line, err)
		}
		c.env = append(c.env, m[1]+"="+string(value))
		return
	}
	if strings.HasSuffix(line, " &") {
		c.background(ctx, line)
		return
	}
	if out, err := c.command(ctx, line).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v\n%s%s", line, err, out, c.logs())
	}
	if strings.HasPrefix(line, "kill ") && c.mesh != nil {
		err := <-c.mesh
		c.mesh <- err // its cleanup tells
	}
}

// logs are the ends of what processes in the background wrote.
func (c *terminal) logs() string {
	names, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
	var b strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		fmt.Fprintf(&b, "%s: %v\n%s\n", filepath.Base(name), err, text[max(0, len(text)-2000):])
	}
	return b.String()
}

// background starts what goes on until it is killed, at the latest at the end of the test.
func (c *terminal) background(ctx context.Context, line string) {
	c.t.Helper()
	cmd := c.command(context.WithoutCancel(ctx), strings.TrimSuffix(line, "&"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		c.t.Fatalf("%s: %v", line, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	c.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		<-ended
	})
}

// assignment is a line that keeps something for later ones.
var assignment = regexp.MustCompile(`^([A-Z]+)=\$\(`)

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
	c.mesh = ended
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

// takePort keeps others from typing a document until the test ends: the meshes of
// documents serve at the standard port, also where several trees are tested on this
// machine.
func takePort(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	lock := flock.New(filepath.Join(os.TempDir(), "bcpmesh-documents.lock"))
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		t.Fatalf("another document is typed: %v", err)
	}
	t.Cleanup(func() {
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// typeDocument types every command of a document as it stands there, and returns
// how many there are. The test command of the README is what .ci/run runs.
func typeDocument(t *testing.T, document, bin string) (typed int) {
	t.Helper()
	takePort(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if document == "docs/production.md" { // which has people copy it from beside the document
		if err := os.Link(filepath.Join(root, "docs", "production", "laptop.conf"), filepath.Join(dir, "laptop.conf")); err != nil {
			t.Fatal(err)
		}
	}
	c := &terminal{t: t, root: root, dir: dir,
		env: append(os.Environ(), "GOBIN="+bin, "GOFLAGS=-buildvcs=false", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))}
	for _, b := range blocksOf(t, document) {
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
	return typed
}

// Every command of the README and of the walkthroughs works as it stands there.
// The program is the one that the README has people build; each mesh of a
// document ends with it.
func TestCommandsOfDocumentsWork(t *testing.T) {
	bin := t.TempDir()
	for _, c := range []struct {
		document string
		least    int // commands, or they are not in blocks of sh any more
	}{{"README.md", 12}, {"docs/agents.md", 20}, {"docs/approvers.md", 15}, {"docs/audit.md", 31}, {"docs/credentials.md", 20}, {"docs/mcp.md", 22}, {"docs/operators.md", 21}, {"docs/scale.md", 3}, {"docs/production.md", 67}} {
		t.Run(c.document, func(t *testing.T) {
			if c.document == "docs/production.md" {
				build := exec.Command("go", "build", "-o", filepath.Join(bin, "nats-server"), "github.com/nats-io/nats-server/v2")
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			if typed := typeDocument(t, c.document, bin); typed < c.least {
				t.Errorf("typed only %d commands: are they still in blocks of sh?", typed)
			}
		})
	}
}

// Every piece of Go in the README and the walkthroughs stands in an example that
// is compiled.
func TestCodeOfDocumentsIsCompiled(t *testing.T) {
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
	for _, b := range append(blocksOf(t, "README.md"), blocksOf(t, "docs/agents.md")...) {
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
	if found < 2 {
		t.Error("the documents have no Go")
	}
}
