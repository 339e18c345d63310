//go:build amd64 || arm64

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// scopesLandlock is the first version that confines signals and abstract sockets.
const scopesLandlock = 6

// DetectSandbox returns what this machine supports.
func DetectSandbox() SandboxSupport {
	s := SandboxSupport{System: runtime.GOOS + "/" + runtime.GOARCH, Seccomp: hasFilters()}
	if version, err := llsys.LandlockGetABIVersion(); err == nil {
		s.Landlock = version
	}
	return s
}

// InSandbox reports whether this process cannot gain privileges and has its system calls filtered, as [EnterSandbox] leaves it. A
// container may do so, too.
func InSandbox() bool {
	alone, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || alone != 1 {
		return false
	}
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return err == nil && mode == unix.SECCOMP_MODE_FILTER
}

// enter confines this process, in an order in which each step is still allowed, and
// executes the program.
func (s Sandbox) enter(environ []string) error {
	runtime.LockOSThread() // the capabilities of the executing thread are dropped
	for resource, limit := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxFiles, unix.RLIMIT_STACK: maxStack, unix.RLIMIT_DATA: uint64(s.Memory)} {
		if resource == unix.RLIMIT_DATA && s.Memory == 0 {
			continue
		}
		if err := lower(resource, limit); err != nil {
			return fmt.Errorf("limit the program's resources: %w", err)
		}
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	rules, err := s.rules()
	if err != nil {
		return err
	}
	if err := landlock.V11.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("restrict files: %w", err)
	}
	if err := loadFilter(s.Alone, s.NoScopes || DetectSandbox().Landlock < scopesLandlock); err != nil {
		return fmt.Errorf("restrict system calls: %w", err)
	}
	err = unix.Exec(s.Path, s.Args, environ)
	return fmt.Errorf("%s cannot be executed: %w", s.Path, err)
}

// lower sets a limit of this process for good.
func lower(resource int, limit uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return err
	}
	limit = min(limit, now.Max)
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit})
}

// dropCapabilities drops root's capabilities. With no_new_privs, executing a program
// does not restore them.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	var none [2]unix.CapUserData // of 32 capabilities each
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}

// rules returns the rules for the program's files.
func (s Sandbox) rules() ([]landlock.Rule, error) {
	rules := []landlock.Rule{landlock.RWFiles("/dev/null").IgnoreIfMissing(), landlock.ROFiles("/dev/zero", "/dev/urandom", "/dev/random").IgnoreIfMissing()}
	for i, name := range s.Reads() {
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && i > len(s.Read):
		case err != nil:
			return nil, fmt.Errorf("what the program may read: %w", err)
		case info.IsDir():
			rules = append(rules, landlock.RODirs(name))
		default:
			rules = append(rules, landlock.ROFiles(name))
		}
	}
	return rules, nil
}
