package process

import "time"

const (
	// maxLine bounds how much of one line of output is kept, in bytes, since a
	// program could fill our memory.
	maxLine = 4 << 10
	// maxLines and maxBytes bound what is logged of one process in outputWindow,
	// both streams together, before escaping, which makes it at most five times
	// longer. Otherwise a program could fill the disk.
	maxLines     = 100
	maxBytes     = 64 << 10
	outputWindow = time.Second
	// maxLastLine bounds the last line in a status, in characters, escaped.
	maxLastLine = 200
)

const (
	// outputDelay is how long output is read after the process and its group
	// are gone: somebody who left the group may hold the pipe open for ever.
	outputDelay = time.Second
	// groupDelay is how long a killed group is waited for. Its processes can do
	// nothing any more, but count until init has collected them, and not every
	// container's init does.
	groupDelay = time.Second
	// groupPoll is the pause between two looks at a killed group.
	groupPoll = time.Millisecond
)
