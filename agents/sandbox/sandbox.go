// Package sandbox confines a program before it runs. The program can read its
// own files and those of the system, write nothing, reach no network and no
// other process, and gain no privileges. It can communicate only over the
// streams that it inherits and, with [Spec.Local], over one TCP port that its
// keeper listens to.
//
// [Spec.Command] starts a helper of this module, which calls [Enter] to
// confine itself and then becomes the program. On Linux this uses Landlock
// (files, TCP, signals) and seccomp (system calls), and needs no privileges;
// a Local one also needs user namespaces, for a network of its own.
// Other systems have no sandbox, and [Support.Missing] says so.
//
// It is not a virtual machine: the program shares the kernel, the processor
// and the clock. It can see that a file exists, its size and when it was
// changed. It can start any number of processes, which are confined like it.
package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/go-json-experiment/json"
)

// Spec says what is confined, and what it may read.
type Spec struct {
	// Path is the program's file, and Args its argv. Path need not be absolute; it is not looked up.
	Path string   `json:"path"`
	Args []string `json:"args"`
	// Read are files and folders that it may read, with all that is below. Those of the system ([System]) and Path are
	// among them. Without [Spec.Alone], files of the system and below Read may be executed.
	Read []string `json:"read,omitzero"`
	// Alone leaves out the files of the system: a static program that starts no other.
	Alone bool `json:"alone,omitzero"`
	// Memory bounds what the program allocates, in bytes (RLIMIT_DATA); 0 is no bound.
	Memory int64 `json:"memory,omitzero"`
	// Local gives the program a network of its own, in which it can connect to [Address] and nowhere else. Its keeper
	// takes the connections, by [Listen].
	Local bool `json:"local,omitzero"`
	// NoScopes has signals filtered as on kernels whose Landlock does not know them. For tests.
	NoScopes bool `json:"no_scopes,omitzero"`
}

// Address is where a program with [Spec.Local] finds its keeper. It is TCP, in a network where nobody else is.
const Address = "127.0.0.1:3128"

// maxFiles is how many files a confined program may have open.
const maxFiles = 512

// Command returns the command that runs the program confined. helper is the argv of a program that passes its last
// argument to [Enter]. The environment and the streams are the caller's to set.
func (s Spec) Command(helper []string) (*exec.Cmd, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: helper[0], Args: append(append([]string{}, helper...), string(text))}
	if s.Local {
		cmd.SysProcAttr = ownNetwork()
	}
	return cmd, nil
}

// Enter confines this process by a spec of [Spec.Command] and executes the program in its place. It returns only if
// that fails; then nothing of the program has run.
func Enter(spec string, environ []string) error {
	var s Spec
	if err := json.Unmarshal([]byte(spec), &s, json.RejectUnknownMembers(true)); err != nil {
		return errors.New("the sandbox's description is not understood")
	}
	if err := Detect().Missing(); err != nil {
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

// System are the files and folders of the system that a confined program may read and execute, if they exist.
func System() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store",
		"/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/openssl.cnf",
	}
}

// Support is what this machine offers for a sandbox.
type Support struct {
	System string `json:"system"` // linux, darwin, …, and the architecture
	// Landlock is the version of its interface, 0 for none.
	Landlock int  `json:"landlock"`
	Seccomp  bool `json:"seccomp"`
	// UserNamespaces says whether this user may make one, of [UserNamespaces]. Only [Spec.Local] needs one.
	UserNamespaces bool `json:"user_namespaces"`
}

// minLandlock is the first version that keeps files from being cut short (Linux 6.2).
const minLandlock = 3

// Missing says why programs cannot be confined here, or returns nil.
func (s Support) Missing() error {
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

// Remedy says what to do where [Support.Missing] is not nil.
const Remedy = "run the command in a container, as another user or in a virtual machine, and say `sandbox: own`"
