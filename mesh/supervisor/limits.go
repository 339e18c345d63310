package supervisor

import "time"

// Defaults of [Config].
const (
	defaultBackoff     = time.Second
	defaultMaxBackoff  = time.Minute
	defaultMaxFailures = 5
	// defaultHealthy is as long as the longest back-off: a program that runs
	// longer than it waits is of use.
	defaultHealthy  = time.Minute
	defaultCooldown = time.Minute
	// defaultGrace lets a program finish what it is at. An operator who stops
	// a mesh waits that long at most.
	defaultGrace = 10 * time.Second
)

const (
	// maxLine bounds what is kept of one line of output, in bytes: memory of
	// ours that a program can fill.
	maxLine = 4 << 10
	// maxLines and maxBytes bound what is logged of one process in outputWindow,
	// both streams together, before it is escaped, which makes it at most five
	// times longer. A program could fill the disk otherwise.
	maxLines     = 100
	maxBytes     = 64 << 10
	outputWindow = time.Second
	// maxLastLine bounds what a status shows of the last line, in characters, escaped.
	maxLastLine = 200
)
