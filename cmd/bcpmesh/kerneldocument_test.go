package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Who types what docs/kernel.md says of a mesh, in an empty folder, has a run that sends
// a mail.
func TestKernelDocumentRuns(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/kernel.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := bytes.Cut(document, []byte("\n## In a mesh\n"))
	section, _, _ = bytes.Cut(section, []byte("\n## "))
	blocks := regexp.MustCompile("(?s)```[a-z]+\n(.*?)```").FindAllSubmatch(section, -1)
	names := []string{"agents/desk.md", "agents/kim.md", "agents/ann.md", "agents/mailer.md", "tools/mail.yaml", "mail.sh", "answer.sh", "plans.json"}
	if len(blocks) != len(names)+1 {
		t.Fatalf("%d blocks", len(blocks))
	}
	folder := t.TempDir()
	for i, name := range names {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, blocks[i][1], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var up *process
	for _, command := range strings.Split(strings.TrimSpace(string(blocks[len(names)][1])), "\n") {
		switch command {
		case "bcpmesh up":
			up = startProcess(t, folder, filepath.Join(folder, ".bcpmesh"), "127.0.0.1:0")
		case "bcpmesh kernel explain RUN": // the id is another one each time
		default:
			shell := exec.Command("sh", "-c", command)
			shell.Dir = folder
			if out, err := shell.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
		}
	}
	up.end(t)
	sent, err := os.ReadFile(filepath.Join(folder, "sent.txt"))
	if err != nil || strings.Count(string(sent), "\n") != 1 || !strings.Contains(string(sent), `{"body":"lunch moved to noon","to":"kim@example.org"}`) {
		t.Errorf("sent %q, %v", sent, err)
	}
}
