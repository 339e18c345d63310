package stdio

import "time"

const (
	// maxAnswer bounds what a program may print as its answer, in bytes.
	maxAnswer = 64 << 10
	// maxRuns is how often a program is run for one query before it stays unanswered.
	maxRuns = 3
	// DefaultTimeout is how long one run may take unless the caller says otherwise.
	DefaultTimeout = 30 * time.Second
	// runPause is the pause before a program is run again.
	runPause = time.Second
)
