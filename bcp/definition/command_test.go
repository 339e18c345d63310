package definition_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// A command runs as the user of the mesh, who can read keys and journal, only where its
// definition accepts that in so many words; and whatever it begins with, only its definition
// says that something else confines it.
//
// covers P7.5
func TestCommandsThatNobodyAccepted(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]bcp.Sandbox{ // 0: refused
		"command: [./c]":                                  0,
		"command: ['']":                                   0,
		"command: [sudo, -u, c, ./c]":                     0,
		"command: [docker, run, c]":                       0,
		"command: [./c]\nsandbox: none":                   bcp.SandboxNone,
		"command: [sudo, -u, c, ./c]\nsandbox: own":       bcp.SandboxOwn,
		"command: [./c]\nsandbox: required\nfiles: [lib]": bcp.SandboxRequired,
	} {
		mesh, report := definition.Parse(map[string][]byte{"c.md": []byte("---\nname: c\n" + lines + "\n---\n")})
		refused := len(report.Errors) == 1 && report.Errors[0].Code == definition.CodeCommandUser && report.Errors[0].Line == 3
		failIf(t, refused != (want == 0), "%s: %v", lines, report)
		failIf(t, want != 0 && (mesh == nil || mesh.Agents[0].Sandbox != want), "%s: %v, want %s", lines, report, want)
	}
}

// Whoever asks for it hears of each command that cannot be started, where it stands and
// why.
//
// covers P9.2
func TestCommandsAreLookedFor(t *testing.T) {
	t.Parallel()
	folder := fstest.MapFS{
		"agents/a.md": {Data: []byte("---\nname: a\ncommand: [there]\nsandbox: none\n---\n")},
		"agents/b.md": {Data: []byte("---\nname: b\ndescription: x\ncommand: [missing, word]\nsandbox: none\n---\n")},
		"agents/c.md": {Data: []byte("---\nname: c\n---\n")},
	}
	find := func(command []string, _ bcp.Sandbox) error {
		if command[0] == "missing" && len(command) == 2 {
			return errors.New("there is no \x1b[2Jsuch program")
		}
		return nil
	}
	mesh, report := definition.Site{Find: find}.Load(folder)
	stopIf(t, mesh != nil || len(report.Errors) != 1, "%v", report)
	got, want := report.Errors[0].String(), `agents/b.md:4:10: command: it cannot be started: there is no \x1b[2Jsuch program`
	failIf(t, got != want || report.Errors[0].Code != definition.CodeNoCommand, "%s\nnot\n%s", got, want)
	if mesh, report = definition.Load(folder); mesh == nil {
		t.Errorf("nobody asked for it: %v", report)
	}
}
