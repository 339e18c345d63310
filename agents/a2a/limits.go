package a2a

import "time"

const (
	// maxBody bounds a response, in bytes, and maxHeader its header.
	maxBody   = 256 << 10
	maxHeader = 64 << 10
	// cardAge is how long a card counts as looked at.
	cardAge = time.Minute
	// firstPoll is how soon a task is looked at again; later each time, lastPoll at most.
	firstPoll, lastPoll = 200 * time.Millisecond, 2 * time.Second
	defaultPause        = time.Second
	dialTimeout         = 10 * time.Second
	maxIdle             = 16
)
