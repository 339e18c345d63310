//go:build !unix

package process

import (
	"os"
	"syscall"
)

// Here no signal reaches a process group: only the process is killed, without a
// warning, and what it started may go on. Files are inherited only if a program
// asks for that.

func ownGroup(attr *syscall.SysProcAttr) { dieWithUs(attr) }

func hideFiles() error { return nil }

func terminateGroup(leader *os.Process) { _ = leader.Kill() }

func killGroup(leader *os.Process) { _ = leader.Kill() }

func groupExists(*os.Process) bool { return false }
