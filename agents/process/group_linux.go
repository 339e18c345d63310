package process

import (
	"os"
	"syscall"
)

// ownGroup gives a process its own session, and so its own process group: one
// signal reaches everything that it starts. It has no terminal, which a new
// group alone would not prevent: output to /dev/tty would reach the operator
// unescaped. It is killed if we crash.
func ownGroup(attr *syscall.SysProcAttr) { attr.Setsid, attr.Pdeathsig = true, syscall.SIGKILL }

// awaitEnd waits until a child has ended, without collecting it, and reports
// whether it did.
func awaitEnd(child *os.Process) bool {
	const onePID = 1 // P_PID, which package syscall lacks
	for {
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, onePID, uintptr(child.Pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if err != syscall.EINTR {
			return err == 0
		}
	}
}
