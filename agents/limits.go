package agents

import "time"

// Limits of the SDK. Each bounds memory, goroutines or waiting times that a
// peer could otherwise choose.
const (
	// flushTimeout is the timeout for the server's confirmation that it has what was
	// sent.
	flushTimeout = 5 * time.Second
	// receiveBuffer is how many messages wait between the connection and a
	// client; more than a gateway has in flight to one agent.
	receiveBuffer = 4096
	// maxQueued is how many deliveries of one channel, or queries, may wait for
	// a handler. More are not acknowledged, so they come again.
	maxQueued = 1024
	// maxKnown is how many handled deliveries are remembered, so that a
	// repeated one is acknowledged but not handled again.
	maxKnown = 4096
	// maxAnswers and maxAnswerBytes bound the answers that a Reader remembers
	// to send them again. The gateway has far fewer open queries for a Reader.
	maxAnswers     = 2048
	maxAnswerBytes = 16 << 20

	// maxTold is how many reasons are logged for one connection, and maxToldText how
	// many characters of each.
	maxTold     = 64
	maxToldText = 300

	// defaultHandlers is how many handlers of one client run at a time.
	defaultHandlers = 4

	// defaultAttempt is how long one attempt of a request waits: far longer
	// than a durable commit takes, and short for somebody who waits.
	defaultAttempt = 2 * time.Second
	// dialTimeout is the timeout of a connect to one server. It is longer than a
	// server makes connections wait when many come at once; the client's default of
	// 2 s is not.
	dialTimeout = 10 * time.Second
	// firstWait and defaultMaxWait bound the backoff between attempts and
	// between reconnects, firstHandlerWait and maxHandlerWait that between
	// calls of a failing handler.
	firstWait      = 10 * time.Millisecond
	defaultMaxWait = 2 * time.Second
	// refusedWait is the first one after the server refused the credentials; half of it is
	// the shortest.
	refusedWait      = 500 * time.Millisecond
	firstHandlerWait = 100 * time.Millisecond
	maxHandlerWait   = 30 * time.Second
	// settled is how long a connection must last for the next dial to be
	// immediate, so that two clients that push each other out do not spin.
	settled = 5 * time.Second

	// auditBatch is how many records an Auditor asks for at a time, auditBytes
	// about how many bytes (the server disconnects who has 16 MiB waiting), and
	// followEvery how often it looks for new ones.
	auditBatch  = 1024
	auditBytes  = 4 << 20
	followEvery = 250 * time.Millisecond
)
