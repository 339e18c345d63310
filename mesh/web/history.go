package web

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// maxHistory is how many of the newest decisions are kept, over all shards.
const maxHistory = 20_000

// entry is a decision of a shard.
type entry struct {
	shard int
	bcp.Decision
}

// history keeps the newest decisions in the order in which they came. Its methods may
// be called concurrently. A decision that is kept is never changed.
type history struct {
	mu      sync.RWMutex
	entries []*entry     // oldest first, at most 2*maxHistory, of which the last maxHistory count
	failed  map[int]bool // shards whose audit cannot be read
}

func (h *history) add(shard int, d *bcp.Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.entries) == 2*maxHistory {
		h.entries = append(make([]*entry, 0, 2*maxHistory), h.entries[maxHistory:]...)
	}
	h.entries = append(h.entries, &entry{shard, *d})
}

func (h *history) fail(shard int, failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		h.failed = map[int]bool{}
	}
	h.failed[shard] = failed
}

// all returns what is kept, oldest first, and whether the audit of some shard cannot be
// read. The caller must not change it.
func (h *history) all() (entries []*entry, failed bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.entries[max(0, len(h.entries)-maxHistory):len(h.entries):len(h.entries)], slices.Contains(slices.Collect(maps.Values(h.failed)), true)
}

func (h *history) find(shard int, seq uint64) *entry {
	entries, _ := h.all()
	for _, e := range slices.Backward(entries) {
		if e.shard == shard && e.Seq == seq {
			return e
		}
	}
	return nil
}

// channel is what the newest decisions say of a channel.
type channel struct {
	key       bcp.ChannelKey
	shard     int
	balance   bcp.Balance
	accepted  int
	refused   int
	held      int
	taint     bcp.Taint // of its newest delivery; unknown where none was seen
	decisions []*entry  // newest first
}

// channels sums up decisions by channel, in the order of their names.
func channels(entries []*entry) []*channel {
	type place struct {
		shard int
		key   bcp.ChannelKey
	}
	found := map[place]*channel{}
	for _, e := range entries {
		key, ok := e.Channel()
		if !ok {
			continue
		}
		at := place{e.shard, key}
		c := found[at]
		if c == nil {
			c = &channel{key: key, shard: e.shard}
			found[at] = c
		}
		if e.Balance != (bcp.Balance{}) {
			c.balance = e.Balance
		}
		if e.Delivery != "" && e.Taint != bcp.TaintUnknown {
			c.taint = e.Taint
		}
		switch e.Verdict {
		case bcp.Accept:
			c.accepted++
		case bcp.Reject:
			c.refused++
		case bcp.Hold:
			c.held++
		}
		c.decisions = append(c.decisions, e)
	}
	list := make([]*channel, 0, len(found))
	for _, c := range found {
		slices.Reverse(c.decisions)
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *channel) int {
		return cmp.Or(cmp.Compare(a.key.Controller, b.key.Controller), cmp.Compare(a.key.Reader, b.key.Reader), cmp.Compare(a.shard, b.shard))
	})
	return list
}
