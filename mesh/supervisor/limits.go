package supervisor

import "time"

// Defaults of [Config].
const (
	defaultBackoff     = time.Second
	defaultMaxBackoff  = time.Minute
	defaultMaxFailures = 5
	// defaultHealthy is as long as the longest backoff: a program that runs
	// longer than it waits is useful.
	defaultHealthy  = time.Minute
	defaultCooldown = time.Minute
	// defaultGrace lets a program finish its work. It is the maximum wait of an
	// operator who stops a mesh.
	defaultGrace = 10 * time.Second
)
