//go:build !linux || !(amd64 || arm64)

package process

import "runtime"

// DetectSandbox returns what this machine supports.
func DetectSandbox() SandboxSupport {
	return SandboxSupport{System: runtime.GOOS + "/" + runtime.GOARCH}
}

func (s Sandbox) enter([]string) error { return DetectSandbox().Missing() }

// InSandbox reports false.
func InSandbox() bool { return false }
