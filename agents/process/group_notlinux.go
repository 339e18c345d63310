//go:build !linux

package process

import (
	"os"
	"syscall"
)

// dieWithUs does nothing: if we crash, a process goes on. This system cannot prevent that.
func dieWithUs(*syscall.SysProcAttr) {}

// bond would kill the group when we end.
type bond struct{}

func newBond() (bond, error)       { return bond{}, nil }
func (bond) tie(*os.Process) error { return nil }
func (bond) cut()                  {}

// awaitEnd would wait without collecting, which is not reliable here: Darwin's
// waitid also returns for a process that was only stopped
// (golang.org/issue/19314).
func awaitEnd(*os.Process) bool { return false }
