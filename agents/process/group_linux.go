package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithUs has a process killed if we crash.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// bond is a pipe that nobody but we have open. If we end, however that happens, its
// ends are closed one after the other, and closing the first one makes the kernel send
// the owner of the other, which is the group, SIGKILL. Pdeathsig reaches the leader alone,
// and has to be enough in the moment before the tie.
type bond [2]int

func newBond() (b bond, err error) {
	return b, os.NewSyscallError("pipe2", unix.Pipe2(b[:], unix.O_CLOEXEC))
}

// tie makes a group the owner of the pipe. Which end is closed first depends on the
// kernel, so it owns both.
func (b bond) tie(leader *os.Process) error {
	for _, end := range b {
		for _, set := range [][2]int{{unix.F_SETOWN, -leader.Pid}, {unix.F_SETSIG, int(unix.SIGKILL)}, {unix.F_SETFL, unix.O_ASYNC}} {
			if _, err := unix.FcntlInt(uintptr(end), set[0], set[1]); err != nil {
				return os.NewSyscallError("fcntl", err)
			}
		}
	}
	return nil
}

// cut closes the pipe, which kills what is left of a group that is tied to it.
func (b bond) cut() {
	for _, end := range b {
		_ = unix.Close(end) // nothing was written
	}
}

// awaitEnd waits until a child has ended, without collecting it, and reports
// whether it did.
func awaitEnd(child *os.Process) bool {
	for {
		err := unix.Waitid(unix.P_PID, child.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}
