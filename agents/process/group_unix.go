//go:build unix

package process

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// ownGroup gives a process its own session, and so its own process group: one
// signal reaches everything that it starts. It has no terminal, which a new
// group alone would not prevent: output to /dev/tty would reach the operator
// unescaped.
func ownGroup(attr *syscall.SysProcAttr) {
	attr.Setsid = true
	dieWithUs(attr)
}

// hideFiles keeps all our open files from a new process. Go's own are already
// hidden; this is for files inherited from our parent, and those of foreign
// libraries.
func hideFiles() error {
	const folder = "/dev/fd"
	files, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("list our open files: %w", err)
	}
	for _, file := range files {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

func terminateGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGTERM) }

func killGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }

// groupExists reports whether a group whose leader was collected still has a
// process, even an uncollected zombie. As the init of a container we must
// collect it: orphans become our children.
func groupExists(leader *os.Process) bool {
	for {
		if pid, _ := syscall.Wait4(-leader.Pid, nil, syscall.WNOHANG, nil); pid <= 0 {
			return syscall.Kill(-leader.Pid, 0) == nil
		}
	}
}
