package agents

// Stats are the counters of a client.
type Stats struct{ Duplicates, Foreign, Malformed, Overflow uint64 }

func (l *listener) Stats() Stats {
	c := &l.counters
	return Stats{c.duplicates.Load(), c.foreign.Load(), c.malformed.Load(), c.overflow.Load()}
}
