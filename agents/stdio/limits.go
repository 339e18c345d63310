package stdio

import "time"

// Limits of what a program may print, say and take.
const (
	// maxAnswer bounds what a program may print as its answer, in bytes.
	maxAnswer = 64 << 10
	// maxRuns is how often a program is run for one query before it stays unanswered.
	maxRuns = 3
	// DefaultTimeout is how long one run may take unless the caller says otherwise.
	DefaultTimeout = 30 * time.Second
	// runPause is the pause before a program is run again.
	runPause = time.Second

	// maxLine bounds one line of a program that is served, in bytes.
	maxLine = 1 << 20
	// maxCalls is how many calls of a program are at work at a time, and MaxHandlers how
	// many of ours it has to answer.
	maxCalls    = 256
	MaxHandlers = 64
	// handlerTimeout is how long a program that is served may take to answer.
	handlerTimeout = 10 * time.Minute
	// callTimeout bounds a call of a program that states no time, and maxCallTimeout the
	// time that it may state.
	callTimeout    = time.Minute
	maxCallTimeout = time.Hour
	// finishTimeout is how long a program that has closed its end is still answered.
	finishTimeout = 10 * time.Second
)
