//go:build unix

package serve

import (
	"os"

	"golang.org/x/sys/unix"
)

// AppendOnly has what a program writes to a file go to its end, also after somebody has cut it. Whoever keeps the log of a
// long-running program with a shell's > and cuts it would otherwise have a file that begins with as many zeros as it had bytes,
// which grep takes for a binary.
func AppendOnly(files ...*os.File) {
	for _, f := range files {
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err == nil {
			_, _ = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags|unix.O_APPEND) // as good as before, if it is refused
		}
	}
}
