//go:build !unix

package bench

import (
	"errors"
	"time"
)

// ProcessorTime is what this process has used so far; it is measured on Unix only.
func ProcessorTime() (time.Duration, error) {
	return 0, errors.New("processor time is measured on Unix only")
}
