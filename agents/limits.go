package agents

import "time"

// Limits of the SDK. Each bounds memory, goroutines or waiting that a peer
// could otherwise choose.
const (
	// flushTimeout bounds the wait for a server that is asked whether it has taken what was
	// sent.
	flushTimeout = 5 * time.Second
	// receiveBuffer is how many messages wait between the connection and a
	// client; more than a gateway has in flight to one agent.
	receiveBuffer = 4096
	// maxQueued is how many deliveries of one channel, or queries, wait for a
	// handler. What comes beyond is not acknowledged and so comes again.
	maxQueued = 1024
	// maxKnown is how many handled deliveries are remembered, so that one that
	// comes again is acknowledged and not handled twice.
	maxKnown = 4096
	// maxAnswers and maxAnswerBytes bound the answers that a Reader remembers,
	// to send them again. The gateway has far fewer open queries a Reader.
	maxAnswers     = 2048
	maxAnswerBytes = 16 << 20

	// maxTold is how many reasons are told aloud of one connection, and maxToldText how
	// many characters of each.
	maxTold     = 64
	maxToldText = 300

	// defaultHandlers is how many handlers of one client run at a time.
	defaultHandlers = 4

	// defaultAttempt is how long one attempt of a request waits: far longer
	// than a durable commit takes, and short for somebody who waits.
	defaultAttempt = 2 * time.Second
	// dialTimeout is how long it may take to connect to one server: longer than one
	// lets a new connection wait to which many come at once, where the client's own
	// 2 s are not.
	dialTimeout = 10 * time.Second
	// firstWait and defaultMaxWait bound the pause between attempts and between
	// reconnects, firstHandlerWait and maxHandlerWait that between two calls of
	// a handler that fails.
	firstWait        = 10 * time.Millisecond
	defaultMaxWait   = 2 * time.Second
	firstHandlerWait = 100 * time.Millisecond
	maxHandlerWait   = 30 * time.Second
	// settled is how long a connection has to last for the next one to be
	// dialled at once; two clients that push each other out do not spin.
	settled = 5 * time.Second

	// auditBatch is how many records an Auditor asks for at a time, auditBytes
	// about how many bytes (the server disconnects who has 16 MiB waiting), and
	// followEvery how often it looks for new ones.
	auditBatch  = 1024
	auditBytes  = 4 << 20
	followEvery = 250 * time.Millisecond
)
