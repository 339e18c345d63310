package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/home"
)

// nightMesh is a mesh whose reader may say anything, and one approver.
var nightMesh = map[string]string{
	"mesh.yaml": "name: night\napprovers: [kim]\nauditors: [kim]\n",
	"agents/main.md": `---
name: main
bcp_channels:
  - peer: mail
    role: controller
    max_category: 3
    budget_bits: 20000
    subscriptions:
      - id: digest
        category: 3
        directive: "Summarise the day's mail."
        max_words: 60
---
`,
	"agents/mail.md": "---\nname: mail\nbcp_channels:\n  - peer: main\n    role: reader\n    max_category: 3\n    budget_bits: 20000\n---\n",
}

// writeNightMesh writes it into a new folder.
func writeNightMesh(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range nightMesh {
		name = filepath.Join(dir, name)
		noError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		noError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	return dir
}

// upMesh runs a mesh in the test and returns what stops it.
func upMesh(t *testing.T, dir string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	var says, talk bytes.Buffer
	go func() {
		ended <- runCommandLine(ctx, []string{"up", dir, "--listen", "127.0.0.1:0"}, strings.NewReader(""), &says, &talk, func(string) string { return "" })
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if code := <-ended; code != cli.ExitOK {
				t.Errorf("up: exit %d: %s", code, &talk)
			}
		})
	}
	t.Cleanup(stop)
	for deadline := time.Now().Add(scriptTimeout); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(home.Ready(home.State(dir))); err == nil {
			return stop
		}
		if time.Now().After(deadline) {
			t.Fatal("the mesh does not start")
		}
	}
}

// keyboard is a person at a terminal that runs a command.
type keyboard struct {
	t     *testing.T
	tty   *os.File
	ended chan int

	mu  sync.Mutex
	out []byte // everything that the terminal was sent
}

// leaves ends what a terminal is sent.
const leaves = "\x04"

func sitDown(t *testing.T, args ...string) *keyboard {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	noError(t, pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}))
	k := &keyboard{t: t, tty: master, ended: make(chan int, 1)}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		b := make([]byte, 64<<10)
		for {
			n, err := master.Read(b)
			k.mu.Lock()
			k.out = append(k.out, b[:n]...)
			k.mu.Unlock()
			if err != nil || bytes.Contains(b[:n], []byte(leaves)) {
				return
			}
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		env := map[string]string{"TERM": "xterm"}
		k.ended <- runCommandLine(ctx, args, slave, slave, slave, func(name string) string { return env[name] })
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-k.ended:
		case <-time.After(scriptTimeout):
			t.Error("it does not end")
		}
		// What reads the keys may outlive the program for a moment: slave closes itself
		// when nobody has it any more.
		if _, err := slave.WriteString(leaves); err != nil {
			t.Error(err)
		}
		<-reading
		_ = master.Close()
	})
	return k
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;:?<>=]*[ -/]*[@-~]|\x1b[\\]P_][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b.")

// sees presses keys, and then waits until all of it is on the screen. The screen
// is drawn anew each time, since a terminal is sent only what changes.
func (k *keyboard) sees(keys string, parts ...string) {
	k.t.Helper()
	k.press(keys)
	deadline := time.Now().Add(scriptTimeout)
	for drawn := 150 * time.Millisecond; ; drawn *= 2 { // on a busy machine it takes long
		k.mu.Lock()
		from := len(k.out)
		k.mu.Unlock()
		k.press("\x0c")
		time.Sleep(drawn)
		k.mu.Lock()
		screen := escapes.ReplaceAllString(string(k.out[from:]), "")
		k.mu.Unlock()
		missing := ""
		for _, part := range parts {
			if !strings.Contains(screen, part) {
				missing = part
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("expected %q on the screen:\n%s", missing, screen)
		}
	}
}

func (k *keyboard) press(keys string) {
	k.t.Helper()
	for _, key := range keys { // one by one, as a person does
		if _, err := k.tty.WriteString(string(key)); err != nil {
			k.t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Real keys on a real terminal, in front of a real mesh.
//
// covers BCP-118, BCP-119, BCP-120, P7.3
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	dir := writeNightMesh(t)
	upMesh(t, dir)
	push := func(words string) {
		t.Helper()
		if got := execute(t, "", "publish", "main", "digest", `{"summary":"`+words+`"}`, "--dir", dir); got.code != cli.ExitOK || !strings.HasPrefix(got.stdout, "held") {
			t.Fatalf("%+v", got)
		}
	}
	push(`First: \u001b[2J\u001b]0;evil title\u0007 two invoices.`)
	k := sitDown(t, "approvals", "watch", "--dir", dir)
	k.sees("", "approvals of kim — 1 wait: 1 summary", "untrusted content from a tainted agent (mail)", "│ first")
	push("Second came in.")
	k.sees("", "2 wait: 2 summary", "│ first")
	k.sees("a", "Release exactly this to main?")
	k.sees("y", "it goes to main", "1 wait: 1 summary", "│ second came in")
	k.sees("r", "Why? mail hears it, main does not.")
	k.sees("qy\r", "mail hears the reason", "nothing waits")

	push("third came in")
	k.sees("", "│ third came in")
	k.sees("e", "> third came in")
	k.sees("no \x13", "your edit, in the spelling that would be released", "│ no third came in")
	k.sees(" y", "edited", "nothing waits")

	// Somebody else decides.
	push("fourth came in")
	k.sees("", "│ fourth came in")
	k.sees("  a", "Release exactly this to main?")
	id := regexp.MustCompile(`i[A-Z0-9]{20,}`).FindString(execute(t, "", "approvals", "--json", "--dir", dir).stdout)
	if got := execute(t, "", "approvals", "reject", id, "--reason", "no", "--dir", dir); got.code != cli.ExitOK {
		t.Fatalf("%+v", got)
	}
	k.sees("", "already_decided: somebody else has decided it")
	k.sees("y", "nothing waits")

	var delivered string
	for deadline := time.Now().Add(scriptTimeout); strings.Count(delivered, "\n") < 2 && time.Now().Before(deadline); {
		delivered += execute(t, "", "inbox", "--dir", dir).stdout
	}
	if !strings.Contains(delivered, "two invoices") || !strings.Contains(delivered, "no third came in") ||
		strings.Contains(delivered, "second") || strings.Contains(delivered, "fourth") {
		t.Errorf("delivered: %s", delivered)
	}
	k.press("q")
	select {
	case code := <-k.ended:
		k.ended <- code
		if code != cli.ExitOK {
			t.Errorf("exit %d", code)
		}
	case <-time.After(scriptTimeout):
		t.Error("q does not quit")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if bytes.Contains(k.out, []byte("evil title\x07")) || bytes.Contains(k.out, []byte("]0;evil")) {
		t.Error("the content reached the terminal")
	}
}

// The mesh goes, and comes back on another port.
func TestWatchComesBack(t *testing.T) {
	t.Parallel()
	dir := writeNightMesh(t)
	stop := upMesh(t, dir)
	k := sitDown(t, "approvals", "watch", "--dir", dir)
	k.sees("", "nothing waits")
	stop()
	k.sees("", "no connection, retrying")
	upMesh(t, dir)
	if got := execute(t, "", "publish", "main", "digest", `{"summary":"back again"}`, "--dir", dir); got.code != cli.ExitOK {
		t.Fatalf("%+v", got)
	}
	k.sees("", "1 wait: 1 summary", "│ back again")
}
