package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// kernelDocument writes the files of docs/kernel.md, by their names in the text, into an
// empty folder, and returns it with the commands and the Go program of the document.
func kernelDocument(t *testing.T) (folder string, commands []string, program []byte) {
	t.Helper()
	document := must(os.ReadFile("../../docs/kernel.md"))(t)
	_, section, _ := bytes.Cut(document, []byte("\n## In a mesh\n"))
	section, _, _ = bytes.Cut(section, []byte("\n## "))
	blocks := regexp.MustCompile("(?s)```[a-z]+\n(.*?)```").FindAllSubmatch(section, -1)
	names := []string{"agents/desk.md", "agents/kim.md", "agents/ann.md", "agents/mailer.md", "tools/mail.yaml", "mail.sh", "answer.sh", "plans.json"}
	stopIf(t, len(blocks) != len(names)+1, "%d blocks", len(blocks))
	folder = t.TempDir()
	for i, name := range names {
		writeFiles(t, folder, map[string]string{name: string(blocks[i][1])})
	}
	programs := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindAllSubmatch(document, -1)
	stopIf(t, len(programs) != 1, "%d Go programs", len(programs))
	return folder, strings.Split(strings.TrimSpace(string(blocks[len(names)][1])), "\n"), programs[0][1]
}

// typeCommands types commands of the document.
func typeCommands(t *testing.T, folder string, commands []string) {
	t.Helper()
	var up *process
	for _, command := range commands {
		switch command {
		case "bcpmesh up":
			up = startProcess(t, folder, filepath.Join(folder, ".bcpmesh"), "127.0.0.1:0")
		case "bcpmesh explain RUN": // the id is another one each time
		default:
			shell := exec.Command("sh", "-c", command)
			shell.Dir = folder
			out, err := shell.CombinedOutput()
			stopIf(t, err != nil, "%s: %v\n%s", command, err, out)
		}
	}
	up.end(t)
}

// Who types what docs/kernel.md says of a mesh, in an empty folder, has a run that sends
// a mail.
func TestKernelDocumentRuns(t *testing.T) {
	t.Parallel()
	folder, commands, _ := kernelDocument(t)
	typeCommands(t, folder, commands)
	sent, err := os.ReadFile(filepath.Join(folder, "sent.txt"))
	failIf(t, err != nil || strings.Count(string(sent), "\n") != 1 || !strings.Contains(string(sent), `{"body":"lunch moved to noon","to":"kim@example.org"}`),
		"sent %q, %v", sent, err)
}

// The tool of docs/kernel.md has at most 20 lines, and a run calls it.
func TestKernelDocumentTool(t *testing.T) {
	t.Parallel()
	folder, commands, program := kernelDocument(t)
	lines := bytes.Count(program, []byte("\n"))
	failIf(t, lines > 20, "it has %d lines", lines)
	source := filepath.Join(folder, "post.go")
	noError(t, os.WriteFile(source, program, 0o600))
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "post"), source) // here, where the module is
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	services := must(os.ReadFile(filepath.Join(folder, "tools/mail.yaml")))(t)
	mail, send, moved := strings.Cut(string(services), "  - name: send_email\n")
	stopIf(t, !moved, "tools/mail.yaml has no send_email")
	writeFiles(t, folder, map[string]string{
		"tools/mail.yaml": mail, "tools/post.yaml": "service: post\ncommand: [./post]\nsandbox: none\ntools:\n  - name: send_email\n" + send,
	})
	typeCommands(t, folder, commands)
	done, err := os.ReadFile(filepath.Join(folder, "post.outcomes"))
	failIf(t, err != nil || bytes.Count(done, []byte("\n")) != 1 || !bytes.Contains(done, []byte(`{"ok":true}`)),
		"done %q, %v", done, err)
}
