package cell

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Somebody swaps a file, or the folder that it is in, for a link that leads out, again and again while it is read.
//
// covers ALF-7
func TestSwapWhileReading(t *testing.T) {
	t.Parallel()
	for _, swapped := range []string{"sub", "sub/f"} {
		outside := write(t, map[string]string{"f": "canary"})
		dir := write(t, map[string]string{"sub/f": "fine"})
		path, link := filepath.Join(dir, swapped), filepath.Join(t.TempDir(), "link")
		noError(t, os.Symlink(filepath.Join(outside, strings.TrimPrefix(swapped, "sub")), link))
		call := reading(t, dir)
		call(listName, `{"folder":1}`)
		call(listName, `{"folder":2}`)
		stop := make(chan struct{})
		var swapping sync.WaitGroup
		swapping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		})
		fine, gone := 0, 0
		func() {
			defer swapping.Wait()
			defer close(stop)
			for tries := 0; tries < 3_000 || (fine == 0 || gone == 0) && tries < 5_000_000; tries++ {
				o := call(readName, `{"file":3}`)
				switch {
				case o.Failed:
					gone++
				case strings.HasSuffix(o.Untrusted, "\n\nfine"):
					fine++
				default:
					t.Fatal(o.Untrusted)
				}
			}
		}()
		failIf(t, fine == 0 || gone == 0, "%s: read %d times, refused %d times", swapped, fine, gone)
	}
}
