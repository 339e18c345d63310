//go:build unix

package bench

import (
	"syscall"
	"time"
)

// ProcessorTime is what this process has used so far; it is measured on Unix only.
func ProcessorTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
