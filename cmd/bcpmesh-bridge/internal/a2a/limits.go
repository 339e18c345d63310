package a2a

import "time"

const (
	// maxBody bounds a response, in bytes, and maxHeader its header.
	maxBody   = 256 << 10
	maxHeader = 64 << 10
	// cardAge is how long a card counts as looked at.
	cardAge = time.Minute
	// firstPoll is the pause before a task is polled; it grows up to lastPoll.
	firstPoll, lastPoll = 200 * time.Millisecond, 2 * time.Second
	defaultPause        = time.Second
	dialTimeout         = 10 * time.Second
	maxIdle             = 16
)
