package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// measureUsage says what this process uses. Settled, it first gives back to the
// system what it does not need, so that two measurements compare what is kept
// and not how long ago the garbage was collected.
func measureUsage(settled bool) (u usage, err error) {
	if u.CPU, err = ProcessorTime(); err != nil {
		return u, err
	}
	if settled {
		for range 3 { // a stack that is too large is halved in each
			debug.FreeOSMemory()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		u.Heap = int64(m.HeapInuse + m.StackInuse)
	}
	// Without /proc there is no figure of memory, and everything else works.
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(b)); len(fields) > 1 {
			pages, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return u, fmt.Errorf("/proc/self/statm: %w", err)
			}
			u.RSS = pages * int64(os.Getpagesize())
		}
	}
	return u, nil
}
