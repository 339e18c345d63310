package process

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/go-json-experiment/json"
)

// Sandbox says which program to confine before it runs, and what it may read. It can write nothing, reach no network and
// no other process, and gain no privileges: it communicates over inherited streams alone. On Linux this uses Landlock
// (files, TCP, signals) and seccomp (system calls), and needs no privileges. Other systems have no sandbox, and
// [SandboxSupport.Missing] says so.
//
// It is not a virtual machine: the program shares the kernel, the processor and the clock. It can see that a file
// exists, its size and when it was changed. Without Alone it can start any number of processes, which are confined like
// it, and end with their keeper ([Start]).
type Sandbox struct {
	// Path is the program's file, and Args its argv. Path need not be absolute; it is not looked up.
	Path string   `json:"path"`
	Args []string `json:"args"`
	// Read are files and folders that it may read, with everything below. [Sandbox.Reads] adds Path and those of the
	// system, and all of them may be executed.
	Read []string `json:"read,omitzero"`
	// Alone lets the program start no processes, so that Memory bounds all of it.
	Alone bool `json:"alone,omitzero"`
	// Memory bounds what each process allocates, in bytes (RLIMIT_DATA); 0 is no limit.
	Memory int64 `json:"memory,omitzero"`
	// NoScopes filters signals as for kernels whose Landlock lacks that. For tests.
	NoScopes bool `json:"no_scopes,omitzero"`
}

// Reads are all files and folders that the program may read; those of the system if they exist.
func (s Sandbox) Reads() []string {
	return append(append([]string{s.Path}, s.Read...),
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store",
		"/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/openssl.cnf")
}

const (
	maxFiles = 512     // that a confined program may have open
	maxStack = 8 << 20 // bytes, which RLIMIT_DATA leaves out
)

// Command returns the command that runs the program confined. helper is the argv of a
// program that passes its last argument to [EnterSandbox]. The caller sets the environment and
// the streams.
func (s Sandbox) Command(helper []string) (*exec.Cmd, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: helper[0], Args: append(append([]string{}, helper...), string(text))}, nil
}

// EnterSandbox confines this process according to a spec of [Sandbox.Command] and executes the
// program. It returns only if that fails; then nothing of the program has run.
func EnterSandbox(spec string, environ []string) error {
	var s Sandbox
	if err := json.Unmarshal([]byte(spec), &s, json.RejectUnknownMembers(true)); err != nil {
		return errors.New("the sandbox's description is not understood")
	}
	if err := DetectSandbox().Missing(); err != nil {
		return err
	}
	for i, name := range s.Read {
		absolute, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		s.Read[i] = absolute
	}
	return s.enter(environ)
}

// SandboxSupport is what this machine supports for a sandbox.
type SandboxSupport struct {
	System string `json:"system"` // linux, darwin, …, and the architecture
	// Landlock is its ABI version, 0 for none.
	Landlock int  `json:"landlock"`
	Seccomp  bool `json:"seccomp"`
}

// minLandlock is the first version that prevents truncating files (Linux 6.2).
const minLandlock = 3

// Missing says why programs cannot be confined here, or returns nil.
func (s SandboxSupport) Missing() error {
	switch {
	case runtime.GOOS != "linux":
		return fmt.Errorf("there is no sandbox on %s", runtime.GOOS)
	case s.Landlock == 0:
		return errors.New("this kernel has no Landlock, or it was not enabled at boot (lsm=landlock,…)")
	case s.Landlock < minLandlock:
		return fmt.Errorf("this kernel's Landlock is version %d, and version %d (Linux 6.2) is needed", s.Landlock, minLandlock)
	case !s.Seccomp:
		return errors.New("there are no seccomp filters here")
	}
	return nil
}

// SandboxRemedy says what to do if [SandboxSupport.Missing] is not nil.
const SandboxRemedy = "run the command in a container, as another user or in a virtual machine, and say `sandbox: own`"
