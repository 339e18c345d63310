//go:build unix

package process

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// hideFiles keeps every open file of ours from a process to be started. Go
// opens files so; this is for those that we got from whoever started us, and
// those of foreign libraries.
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

// groupExists reports whether a group whose leader was collected has a process,
// also one that has ended and that nobody has collected. As the init of a
// container we are the one who has to: orphans become our children.
func groupExists(leader *os.Process) bool {
	for {
		if pid, _ := syscall.Wait4(-leader.Pid, nil, syscall.WNOHANG, nil); pid <= 0 {
			return syscall.Kill(-leader.Pid, 0) == nil
		}
	}
}
