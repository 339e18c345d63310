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
