package definition_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// A command runs as the user of the mesh, who can read keys and journal, only where its
// definition accepts that in so many words, or where it begins with a program that is
// known to run others as somebody else or apart.
//
// covers P7.5
func TestCommandsThatNobodyAccepted(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]bcp.Sandbox{ // 0: refused
		"command: [./c]":                                      0,
		"command: [python3, c.py]":                            0,
		"command: [/bin/sh, -c, sudo -u c ./c]":               0,
		"command: [env, sudo, -u, c, ./c]":                    0,
		"command: [./sudo, -u, c, ./c]":                       0, // somebody's own program
		"command: [bin/docker, run, c]":                       0,
		"command: [sudo, ./c]":                                0, // as root
		"command: [sudo, -u, root, ./c]":                      0,
		"command: [sudo, -u]":                                 0,
		"command: [sudo, -u, '', ./c]":                        0,
		"command: [sudo, -u, '#0', ./c]":                      0,
		"command: [sudo, --user=root, ./c]":                   0,
		"command: [sudo, --users=c, ./c]":                     0,
		"command: [sudo, -u, -n, ./c]":                        0,
		"command: [setpriv, --no-new-privs, ./c]":             0,
		"command: [systemd-run, --user, ./c]":                 0,
		"command: [su, c, -c, ./c]":                           0,
		"command: [dockerd]":                                  0,
		"command: ['']":                                       0,
		"command: [./c]\nsandbox: none":                       bcp.SandboxNone,
		"command: [./c]\nsandbox: own":                        bcp.SandboxOwn,
		"command: [./c]\nsandbox: required\nfiles: [lib]":     bcp.SandboxRequired,
		"command: [su, c, -c, ./c]\nsandbox: own":             bcp.SandboxOwn,
		"command: [sudo, -u, c, ./c]":                         bcp.SandboxOwn,
		"command: [/usr/bin/sudo, -n, -u, c, ./c]":            bcp.SandboxOwn,
		"command: [sudo, -uc, ./c]":                           bcp.SandboxOwn,
		"command: [sudo, --user=c, ./c]":                      bcp.SandboxOwn,
		"command: [sudo, --user, c, ./c]":                     bcp.SandboxOwn,
		"command: [doas, -u, c, ./c]":                         bcp.SandboxOwn,
		"command: [setpriv, --reuid=c, ./c]":                  bcp.SandboxOwn,
		"command: [systemd-run, --uid=c, ./c]":                bcp.SandboxOwn,
		"command: [docker, run, c]":                           bcp.SandboxOwn,
		"command: [/usr/bin/bwrap, --unshare-all, ./c]":       bcp.SandboxOwn,
		"command: [ssh, reader@elsewhere, ./c]":               bcp.SandboxOwn,
		"command: [docker, run, c]\nsandbox: none":            bcp.SandboxNone, // it says more than is known
		"description: it is started by somebody else, or not": 0,
	} {
		mesh, report := definition.Parse(map[string][]byte{"c.md": []byte("---\nname: c\n" + lines + "\n---\n")})
		if !strings.HasPrefix(lines, "command") {
			if mesh == nil || mesh.Agents[0].Sandbox != 0 {
				t.Errorf("%s: %v", lines, report)
			}
			continue
		}
		if want == 0 {
			if len(report.Errors) != 1 || report.Errors[0].Code != definition.CodeCommandUser || report.Errors[0].Line != 3 {
				t.Errorf("%s: %v", lines, report)
			}
			continue
		}
		if mesh == nil || mesh.Agents[0].Sandbox != want {
			t.Errorf("%s: %v, want %s", lines, report, want)
		}
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
	mesh, report := definition.Load(folder, definition.Commands(find))
	if mesh != nil || len(report.Errors) != 1 {
		t.Fatalf("%v", report)
	}
	if got, want := report.Errors[0].String(), `agents/b.md:4:10: command: it cannot be started: there is no \x1b[2Jsuch program`; got != want || report.Errors[0].Code != definition.CodeNoCommand {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	if mesh, report = definition.Load(folder); mesh == nil {
		t.Errorf("nobody asked for it: %v", report)
	}
}
