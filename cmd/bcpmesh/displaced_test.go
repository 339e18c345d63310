package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A mesh whose folder is replaced while it runs ends and says so, since nobody could read what it records, and leaves what its
// successor wrote alone.
//
// covers P11.1
func TestFolderIsReplaced(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir, ready := filepath.Join(root, "mesh"), filepath.Join(root, "ready.json")
	makeMesh := func() {
		t.Helper()
		out, err := exec.Command("bcpmesh", "init", dir).CombinedOutput()
		stopIf(t, err != nil, "%v: %s", err, out)
	}
	start := func(to *os.File) *process {
		t.Helper()
		p := &process{cmd: exec.Command("bcpmesh", "up", dir, "--listen", "127.0.0.1:0", "--ready-file", ready, "--log-level", "info"), stderr: &bytes.Buffer{}}
		p.cmd.Stdout, p.cmd.Stderr = to, to
		noError(t, p.cmd.Start())
		t.Cleanup(func() { _ = p.cmd.Process.Kill() })
		p.awaitReady(t, ready)
		return p
	}
	log := must(os.Create(filepath.Join(root, "log")))(t)
	defer log.Close()
	makeMesh()
	first := start(log)
	for _, name := range []string{dir, ready} {
		err := os.RemoveAll(name)
		for range 100 { // it may be written to meanwhile
			if err == nil {
				break
			}
			err = os.RemoveAll(name)
		}
		noError(t, err)
	}
	makeMesh()
	other := must(os.Create(filepath.Join(root, "other")))(t)
	defer other.Close()
	second := start(other)
	err := first.cmd.Wait()
	failIf(t, err == nil || first.cmd.ProcessState.ExitCode() != 1, "the first mesh ended with %v", err)
	said := must(os.ReadFile(log.Name()))(t)
	failIf(t, !strings.Contains(string(said), "the state folder was removed or replaced while the mesh ran\n") || !strings.Contains(string(said), "restore a backup"),
		"the first mesh said %q", said)
	about, err := readAbout(ready)
	failIf(t, err != nil || about.PID != second.cmd.Process.Pid, "the ready file of the second mesh is %+v, %v", about, err)
	out, err := exec.Command("bcpmesh", "status", "--dir", dir).CombinedOutput()
	failIf(t, err != nil, "the second mesh: %v: %s", err, out)
	second.end(t)
}
