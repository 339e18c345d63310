//go:build unix

package bench

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time of this process so far; it is measured only
// on Unix.
func ProcessorTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
