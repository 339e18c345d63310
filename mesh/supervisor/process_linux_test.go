package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// A process has no open file of ours, also not one that we got from whoever
// started us, which no Go program marks as its own. It has a session of its own,
// and so no terminal.
//
// covers P7.5
func TestProcessHasNoFileOfOurs(t *testing.T) {
	t.Parallel()
	file := must(os.Create(filepath.Join(t.TempDir(), "secret")))(t)
	defer file.Close()
	inherited := must(syscall.Dup(int(file.Fd())))(t)
	defer syscall.Close(inherited)
	b := newBench(t, Config{})
	c := b.start("main")
	failIf(t, len(c.Files) > 0, "a process got %q", c.Files)
	failIf(t, c.Session != strconv.Itoa(c.PID), "process %d is in session %s", c.PID, c.Session)
}

// No process outlives a mesh that is killed.
//
// covers P7.5
func TestProcessEndsWithItsMesh(t *testing.T) {
	t.Parallel()
	s := newSwitchboard(t)
	p := program("", "mesh", s.path)
	mesh := exec.Command(p.Command[0], p.Command[1:]...)
	noError(t, mesh.Start())
	c := s.accept()
	c.do("ignore")
	noError(t, mesh.Process.Kill())
	_ = mesh.Wait()
	c.gone()
}

// As the init of a container, we collect what a process left behind.
func TestOrphansAreCollected(t *testing.T) {
	t.Parallel()
	const setChildSubreaper = 36 // makes orphans our children, as they are an init's
	_, _, err := syscall.Syscall6(syscall.SYS_PRCTL, setChildSubreaper, 1, 0, 0, 0, 0)
	stopIf(t, err != 0, "%v", err)
	b := newBench(t, Config{})
	c := b.start("main")
	c.do("fork")
	orphan := b.accept()
	c.tell("exit 0")
	b.expect("main", Resting)
	if err := syscall.Kill(orphan.PID, 0); err != syscall.ESRCH {
		t.Errorf("process %d is there: %v", orphan.PID, err)
	}
}
