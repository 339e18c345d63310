package stdio

import "time"

// Limits of a program's output and input.
const (
	// maxAnswer is the maximum size of a program's answer, in bytes.
	maxAnswer = 64 << 10
	// maxRuns is how often a program is run for one query before the query stays
	// unanswered.
	maxRuns = 3
	// DefaultTimeout is how long one run may take unless the caller says otherwise.
	DefaultTimeout = 30 * time.Second
	// runPause is the pause before a program is run again.
	runPause = time.Second

	// maxLine is the maximum length of one line of a served program, in bytes.
	maxLine = 1 << 20
	// maxCalls is how many calls of a program are at work at a time, and MaxHandlers how
	// many of ours it has to answer.
	maxCalls    = 256
	MaxHandlers = 64
	// maxAtWork bounds the calls at work by the bytes of their parameters and of what
	// results are known to have: the next one is read when there is room for it.
	maxAtWork = 64 << 20
	// maxUnread bounds the bytes of lines for whoever does not read them, which nobody waits
	// for either.
	maxUnread = 4 << 20
	// writeTimeout is how long the other side may take to read a line.
	writeTimeout = time.Minute
	// handlerTimeout is the timeout of a served program's answer.
	handlerTimeout = 10 * time.Minute
	// callTimeout is the timeout of a call without one, and maxCallTimeout the maximum
	// that a program may set.
	callTimeout    = time.Minute
	maxCallTimeout = time.Hour
	// finishTimeout is how long a program still gets answers after it has closed its
	// output.
	finishTimeout = 10 * time.Second
)
