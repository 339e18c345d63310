package agents

import (
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
)

// Stats counts messages that a client did not pass to a handler.
type Stats struct {
	// Duplicates are repeated messages: acknowledged or answered again, not handled
	// again.
	Duplicates uint64
	// Foreign had another agent's reply subject and were dropped.
	Foreign uint64
	// Malformed were not understood and were dropped.
	Malformed uint64
	// Overflow are messages that came while too many waited; the gateway sends them
	// again.
	Overflow uint64
}

type counters struct{ duplicates, foreign, malformed, overflow atomic.Uint64 }

func (c *counters) stats() Stats {
	return Stats{
		Duplicates: c.duplicates.Load(), Foreign: c.foreign.Load(),
		Malformed: c.malformed.Load(), Overflow: c.overflow.Load(),
	}
}

// count adds one and logs at 1, 2, 4, 8 and so on, so that a flood does not
// fill the log. No part of a message is logged.
func count(counter *atomic.Uint64, log hclog.Logger, what string) {
	if n := counter.Add(1); n&(n-1) == 0 {
		log.Warn(what, "count", n)
	}
}
