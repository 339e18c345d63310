package web

import (
	"slices"
	"sync"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// maxHistory is how many of the newest decisions are kept.
const maxHistory = 20_000

// entry is a decision.
type entry struct{ bcp.Decision }

// history keeps the newest decisions in the order in which they came. Its methods may
// be called concurrently. Kept decisions are immutable.
type history struct {
	mu      sync.RWMutex
	entries []*entry      // oldest first, at most maxHistory
	failed  bool          // the audit is unreadable
	behind  uint64        // the sequence number after the last
	added   uint64        // decisions, ever
	changed chan struct{} // closed with the next one; nil if nobody waits
}

// add keeps a decision, which has a sequence number in the audit.
func (h *history) add(sequence uint64, d *bcp.Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.behind = sequence + 1
	h.added++
	h.entries = append(h.entries, &entry{Decision: *d})
	h.entries = h.entries[max(0, len(h.entries)-maxHistory):] // what came before goes when append moves the rest
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// changes returns a channel that is closed with the next decision.
func (h *history) changes() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// total returns the number of decisions ever added.
func (h *history) total() uint64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.added
}

// after returns the kept decisions after the first seen ones, and how many were added
// in all.
func (h *history) after(seen uint64) (entries []*entry, total uint64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	n := min(len(h.entries), int(h.added-min(seen, h.added)))
	return slices.Clip(h.entries[len(h.entries)-n:]), h.added
}

// next returns the sequence number after the last added decision, 0 if none was.
func (h *history) next() uint64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.behind
}

func (h *history) fail(failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = failed
}

// all returns the kept decisions, oldest first, and whether the audit cannot be
// read. The caller must not change it.
func (h *history) all() (entries []*entry, failed bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Clip(h.entries), h.failed
}

func (h *history) find(seq uint64) *entry {
	entries, _ := h.all()
	for _, e := range slices.Backward(entries) {
		if e.Seq == seq {
			return e
		}
	}
	return nil
}
