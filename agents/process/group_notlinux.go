//go:build unix && !linux

package process

import (
	"os"
	"syscall"
)

// ownGroup gives a process a session, and so a process group, of its own: one
// signal reaches all that it starts. It has no terminal, which a group alone
// would leave it: what it writes to /dev/tty would reach the operator unescaped.
// When we die without a word it goes on; there is nothing here against that.
func ownGroup(attr *syscall.SysProcAttr) { attr.Setsid = true }

// awaitEnd would wait without collecting, which cannot be relied upon here:
// Darwin's waitid also returns for a process that was only halted
// (golang.org/issue/19314).
func awaitEnd(*os.Process) bool { return false }
