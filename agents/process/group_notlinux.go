//go:build unix && !linux

package process

import (
	"os"
	"syscall"
)

// ownGroup gives a process its own session, and so its own process group: one
// signal reaches everything that it starts. It has no terminal, which a new
// group alone would not prevent: output to /dev/tty would reach the operator
// unescaped. If we crash, it goes on; this system cannot prevent that.
func ownGroup(attr *syscall.SysProcAttr) { attr.Setsid = true }

// bond would kill the group when we end.
type bond struct{}

func newBond() (bond, error)       { return bond{}, nil }
func (bond) tie(*os.Process) error { return nil }
func (bond) cut()                  {}

// awaitEnd would wait without collecting, which is not reliable here: Darwin's
// waitid also returns for a process that was only stopped
// (golang.org/issue/19314).
func awaitEnd(*os.Process) bool { return false }
