//go:build unix && !linux

package clustertest

import "syscall"

// attached keeps the signals of a terminal from a process.
func attached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
