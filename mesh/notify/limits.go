package notify

import "time"

const (
	// webhookTimeout and mailTimeout bound one attempt, commandTimeout how long a command runs.
	webhookTimeout = 10 * time.Second
	mailTimeout    = 30 * time.Second
	commandTimeout = 30 * time.Second
	// lookInterval is how often a route looks for what is due, beside when something is recorded.
	lookInterval = time.Second
	// burst is how many messages a route sends before it gathers.
	burst = 5
	// firstPause is the pause after a failure, each longer than the one before up to lastPause.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// maxNotices bounds those of one message; of the rest it has the number.
	maxNotices = 50
	// maxSecret bounds a secret, in bytes.
	maxSecret = 4 << 10
	// maxReply bounds what is read of a server's reply.
	maxReply = 4 << 10
	// itemsTimeout bounds a look at what is open.
	itemsTimeout = 10 * time.Second
	// maxUrgent bounds the alerts without a record that wait, and lastTry how long the end of
	// a mesh waits for them.
	maxUrgent = 8
	lastTry   = 3 * time.Second
	// maxSeen bounds the items that are known to have been looked at; beyond it they are told again.
	maxSeen = 10_000
)
