//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Detect returns what this machine supports.
func Detect() Support { return Support{System: runtime.GOOS + "/" + runtime.GOARCH} }

func (s Spec) enter([]string) error { return Detect().Missing() }

// Inside reports false.
func Inside() bool { return false }

// UserNamespaces reports false.
func UserNamespaces() bool { return false }

func ownNetwork() *syscall.SysProcAttr { return nil }

// Listen fails.
func Listen(*exec.Cmd) (theirs *os.File, accept func() (net.Listener, error), err error) {
	return nil, nil, Detect().Missing()
}
