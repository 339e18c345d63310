package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// measureUsage measures this process. With settled, it first returns unneeded
// memory to the system, so that two measurements compare live memory and not
// the time since the last garbage collection.
func measureUsage(settled bool) (u usage, err error) {
	if u.CPU, err = ProcessorTime(); err != nil {
		return u, err
	}
	if settled {
		for range 3 { // each collection halves a stack that is too large
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
