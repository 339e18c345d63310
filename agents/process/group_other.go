//go:build !unix

package process

import (
	"os"
	"syscall"
)

// Here is no process group that a signal reaches: the process alone is killed,
// without a word before, and what it started may go on. Files are inherited only
// where a program asks for it.

func ownGroup(*syscall.SysProcAttr) {}

func hideFiles() error { return nil }

func awaitEnd(*os.Process) bool { return false }

func terminateGroup(leader *os.Process) { _ = leader.Kill() }

func killGroup(leader *os.Process) { _ = leader.Kill() }

func groupExists(*os.Process) bool { return false }
