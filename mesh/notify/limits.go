package notify

import "time"

const (
	// webhookTimeout and mailTimeout bound one attempt, commandTimeout how long a command runs.
	webhookTimeout = 10 * time.Second
	mailTimeout    = 30 * time.Second
	commandTimeout = 30 * time.Second
	// lookInterval is how often a route checks for what is due; it also does when
	// something is recorded.
	lookInterval = time.Second
	// burst is how many messages a route sends before it combines them.
	burst = 5
	// firstPause is the pause after a failure, each longer than the one before up to lastPause.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// maxNotices bounds those of one message; of the rest it has the number.
	maxNotices = 50
	// maxSecret bounds a secret, in bytes.
	maxSecret = 4 << 10
	// maxReply bounds how much of a server's reply is read.
	maxReply = 4 << 10
	// itemsTimeout is the timeout for reading the open items.
	itemsTimeout = 10 * time.Second
	// maxUrgent bounds the queued alerts without a record, and lastTry how long the end
	// of a mesh waits for them.
	maxUrgent = 8
	lastTry   = 3 * time.Second
	// maxSeen bounds the items that are known to have been viewed; more are sent again.
	maxSeen = 10_000
)
