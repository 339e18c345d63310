//go:build !unix

package bench

import (
	"errors"
	"time"
)

// ProcessorTime returns the processor time of this process so far; it is measured only
// on Unix.
func ProcessorTime() (time.Duration, error) {
	return 0, errors.New("processor time is measured on Unix only")
}
