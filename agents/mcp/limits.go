package mcp

import "time"

// Limits of a host's requests, and of what waits for it.
const (
	// MaxPending is how many queries wait for a Reader's host at a time. The
	// gateway repeats the others.
	MaxPending = 256
	// maxListed is how many deliveries or queries one call lists: a model reads
	// them all.
	maxListed = 32
	// maxAcknowledged is how many deliveries one call acknowledges.
	maxAcknowledged = 256
	// maxHanded is how many sealed values one call hands to a person: less than the acts of
	// a session that a Controller has in a minute.
	maxHanded = 16
	// maxWait is how long a call waits at most. Hosts give up after a minute.
	maxWait = 50 * time.Second
	// silence is how long a wrapped tool says nothing before its Reader is looked for.
	silence = time.Second
	// maxArguments bounds the arguments of a call, in bytes, and maxMessage a
	// whole message of a host.
	maxArguments = 256 << 10
	maxMessage   = 1 << 20
	// maxID bounds the id of a host's request, in bytes.
	maxID = 256

	// callTimeout is the timeout of one message to the gateway, even across a
	// restart of the mesh, and resultTimeout that of the gateway's verdict on an
	// answer.
	callTimeout   = 30 * time.Second
	resultTimeout = 10 * time.Second
	// arrivalTime is how long an answer waits for its query: a newly connected
	// Reader gets its open queries a moment later.
	arrivalTime = 2 * time.Second
	// finishTimeout is how long a host still gets answers after it has closed its
	// output.
	finishTimeout = 10 * time.Second
	// listTimeout is how long a start waits for the agent's channels or subscriptions.
	listTimeout = 5 * time.Second
	// readyTimeout is how long a host's request about the agent waits for the mesh.
	// Hosts give a list of tools half a minute.
	readyTimeout = 20 * time.Second
	// refreshTime is how often a Controller asks whether its channels have changed.
	refreshTime = 5 * time.Second
	// sessionIdle is how long a session over HTTP lives without a request.
	sessionIdle = 24 * time.Hour
)
