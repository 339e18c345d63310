package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// block is a fenced block of a document.
type block struct {
	language string
	lines    []string
}

func blocksOf(t *testing.T, document string) []block {
	t.Helper()
	content := readFile(t, filepath.Join("../..", document))
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

// terminal is where a newcomer types a document's commands, one folder after the
// other. Its meshes and servers listen on free ports in place of the document's.
type terminal struct {
	t     *testing.T
	root  string // of the module
	dir   string
	bin   string // first in PATH
	env   []string
	ports map[string]string // free ports, by those of the document
	mesh  chan error        // how up ends
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	root := must(filepath.Abs("../.."))(t)
	bin := t.TempDir()
	return &terminal{
		t: t, root: root, dir: t.TempDir(), bin: bin, ports: map[string]string{},
		env: append(os.Environ(), "GOBIN="+bin, "GOWORK=", "GOFLAGS="+os.Getenv("GOFLAGS")+" -buildvcs=false", "GORACE=atexit_sleep_ms=0", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH")),
	}
}

// port is how documents, and the files that go with them, name the ports that
// something of theirs listens on.
var port = regexp.MustCompile(`(127\.0\.0\.1:|CLIENTS=|ROUTES=)([0-9]+)`)

// withFreePorts replaces the ports of a document, each by the same one every time.
func (c *terminal) withFreePorts(text string) string {
	c.t.Helper()
	return port.ReplaceAllStringFunc(text, func(found string) string {
		m := port.FindStringSubmatch(found)
		if c.ports[m[2]] == "" {
			_, free, err := net.SplitHostPort(clustertest.FreeAddress(c.t))
			noError(c.t, err)
			c.ports[m[2]] = free
		}
		return m[1] + c.ports[m[2]]
	})
}

func (c *terminal) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", c.withFreePorts(line))
	cmd.Dir, cmd.Env = c.dir, c.env
	if strings.HasPrefix(line, "go ") {
		cmd.Dir = c.root
	}
	return cmd
}

// run types one line and waits for it; "cd" and "up" are not waited for. After a
// "kill" of the mesh it waits for its end.
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
		stopIf(c.t, err != nil, "%s: %v", line, err)
		c.env = append(c.env, m[1]+"="+string(value))
		return
	}
	if strings.HasSuffix(line, " &") {
		c.background(ctx, line)
		return
	}
	if out, err := c.command(ctx, line).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v\n%s", line, err, lastLines(append(c.logs(), out...)))
	}
	if strings.HasPrefix(line, "kill ") && strings.Contains(line, "mesh.json") && c.mesh != nil {
		err := <-c.mesh
		c.mesh <- err // its cleanup tells
	}
}

func lastLines(text []byte) string { return clitest.LastLines(string(text)) }

// logs are the last lines of what processes in the background wrote.
func (c *terminal) logs() []byte {
	names, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
	var all []byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it was removed by the document
		}
		lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		all = fmt.Appendf(all, "%s: %s\n", filepath.Base(name), lines[len(lines)-1])
	}
	return all
}

// background starts what goes on until it is killed, at the latest at the end of the test.
func (c *terminal) background(ctx context.Context, line string) {
	c.t.Helper()
	cmd := c.command(context.WithoutCancel(ctx), strings.TrimSuffix(line, "&"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Start()
	stopIf(c.t, err != nil, "%s: %v", line, err)
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
// ends cleanly. It listens on a free port in place of the standard one.
func (c *terminal) up(ctx context.Context) {
	c.t.Helper()
	line := "exec bcpmesh up --listen " + strings.TrimPrefix(meshdir.StandardURL, "nats://")
	cmd := c.command(context.WithoutCancel(ctx), line)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	noError(c.t, cmd.Start())
	ended := make(chan error, 1)
	c.mesh = ended
	go func() { ended <- cmd.Wait() }()
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		err := <-ended
		failIf(c.t, err != nil, "bcpmesh up: %v\n%s", err, lastLines(out.Bytes()))
	})
	for {
		if _, err := os.Stat(server.ReadyOf(server.StateOf(c.dir))); err == nil {
			return
		}
		select {
		case err := <-ended:
			ended <- err // its cleanup tells
			c.t.FailNow()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// typeDocument types every command of a document as it stands there, and returns
// how many there are. The test command of the README is what .ci/run runs.
func typeDocument(t *testing.T, document string) (typed int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := newTerminal(t)
	if document == "docs/production.md" { // which has people copy it from beside the document
		text, err := os.ReadFile(filepath.Join(c.root, "docs", "production", "laptop.conf"))
		if err == nil {
			err = os.WriteFile(filepath.Join(c.dir, "laptop.conf"), []byte(c.withFreePorts(string(text))), 0o600)
		}
		if err == nil {
			err = os.Symlink(clustertest.Binary(t), filepath.Join(c.bin, "nats-server"))
		}
		noError(t, err)
	}
	if document == "docs/conformance.md" {
		c.run(ctx, "go install ./cmd/bcpmesh-lab")
	}
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

// Every command of the README and of the walkthroughs works as it stands there, but
// for the ports. The README has people build the program; in the other documents it
// is the one under test, as in scripts. The long form has all of them.
func TestCommandsOfDocumentsWork(t *testing.T) {
	t.Parallel()
	for document, least := range map[string]int{ // commands, or they are not in blocks of sh any more
		"README.md": 12, "docs/agents.md": 20, "docs/approvers.md": 15, "docs/audit.md": 31, "docs/conformance.md": 1,
		"docs/bridges.md": 10, "docs/operators.md": 26, "docs/permissions.md": 6, "docs/production.md": 42,
	} {
		if !bcptest.Long() && document != "README.md" && document != "docs/agents.md" {
			continue
		}
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			typed := typeDocument(t, document)
			failIf(t, typed < least, "typed only %d commands: are they still in blocks of sh?", typed)
		})
	}
}
