package supervisor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh/supervisor"
)

// A process has no open file of ours, also not one that we got from whoever
// started us, which no Go program marks as its own. It has a session of its own,
// and so no terminal.
//
// covers P7.5
func TestProcessHasNoFileOfOurs(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	inherited, err := syscall.Dup(int(file.Fd())) // a copy is not closed by exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	b := newBench(t, supervisor.Config{})
	c := b.start("main")
	if len(c.Files) > 0 {
		t.Errorf("a process got %q", c.Files)
	}
	if c.Session != strconv.Itoa(c.PID) {
		t.Errorf("process %d is in session %s", c.PID, c.Session)
	}
}

// No process outlives a mesh that is killed.
//
// covers P7.5
func TestProcessEndsWithItsMesh(t *testing.T) {
	t.Parallel()
	s := newSwitchboard(t)
	p := program("", "mesh", s.path)
	mesh := exec.Command(p.Command[0], p.Command[1:]...)
	if err := mesh.Start(); err != nil {
		t.Fatal(err)
	}
	c := s.accept()
	c.do("ignore")
	if err := mesh.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = mesh.Wait()
	c.gone()
}
