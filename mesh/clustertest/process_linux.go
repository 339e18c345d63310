package clustertest

import "syscall"

// attached ties a process to this one: it is killed when we die without a word.
func attached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
