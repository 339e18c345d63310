package supervisor

import "time"

// pace says when an agent's command is started again, when it is given up, and how long it
// may take to end.
type pace struct {
	// backoff is the pause after the first failure in a row; each further one doubles it, up
	// to maxBackoff. A random part of up to a quarter is subtracted, so that agents that failed
	// together do not restart together. Also, Wake starts nothing sooner than backoff after its
	// last start.
	backoff, maxBackoff time.Duration
	maxFailures         int // in a row, after which an agent is Unavailable
	// healthy is how long a process must run for earlier failures to be forgotten: as long as
	// the longest backoff, since a program that runs longer than it waits is useful.
	healthy time.Duration
	// cooldown is how long Wake does not start an Unavailable agent. After it, one more failure
	// makes it Unavailable again.
	cooldown time.Duration
	// grace is the time between SIGTERM and SIGKILL, in which a program finishes its work. It is
	// the maximum wait of an operator who stops a mesh.
	grace time.Duration
}

var usual = pace{
	backoff: time.Second, maxBackoff: time.Minute, maxFailures: 5,
	healthy: time.Minute, cooldown: time.Minute, grace: 10 * time.Second,
}
