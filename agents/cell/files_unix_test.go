//go:build unix

package cell

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents/tool"
)

// Links, FIFOs, devices and sockets are not listed, and not opened if they take the place of a file.
//
// covers ALF-7
func TestWhatIsNoFile(t *testing.T) {
	t.Parallel()
	outside := write(t, map[string]string{"secret": "canary"})
	dir := write(t, map[string]string{"real": "x"})
	path := filepath.Join(dir, "real")
	for name, target := range map[string]string{"out": outside, "secret": filepath.Join(outside, "secret"), "up": "..", "null": "/dev/null", "self": "real"} {
		noError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	noError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	call := reading(t, dir)
	o := call(listName, `{"folder":1}`)
	failIf(t, !strings.Contains(o.Untrusted, "has 1 entries.\n2 file"), "%v", o.Untrusted)
	o = call(searchName, `{"text":"canary"}`)
	failIf(t, o.Untrusted != "Nothing was found.\n", "%v", o.Untrusted)
	for _, swap := range []func() error{
		func() error { return syscall.Mkfifo(path, 0o600) },
		func() error { return os.Symlink(filepath.Join(outside, "secret"), path) },
		func() error { return os.Symlink("/dev/zero", path) },
		func() error { return os.Mkdir(path, 0o700) },
		func() error { return nil },
	} {
		noError(t, os.Remove(path))
		noError(t, swap())
		expectFailure(t, call(readName, `{"file":2}`), tool.Gone)
	}
}
