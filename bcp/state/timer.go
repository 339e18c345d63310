package state

import (
	"cmp"
	"container/heap"
	"sort"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// deadlines is a heap of what may run out of time. Apply drops the entries of things that
// ended when they come up, so that the first can be decided at its time.
type deadlines []timer

type timer struct {
	at    int64
	query bcp.QueryID
	item  bcp.ItemID
	cron  int // from 1; 0 for none
	// void says that it is of a query that the definitions do not ask any more
	void bool
	// channel and subscription are of a window that ends
	channel      bcp.ChannelKey
	subscription bcp.SubscriptionID
}

func (d deadlines) Len() int { return len(d) }

func (d deadlines) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

func (d deadlines) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(d[i].at, d[j].at), cmp.Compare(d[i].query, d[j].query), cmp.Compare(d[i].item, d[j].item), cmp.Compare(d[i].cron, d[j].cron),
		d[i].channel.Compare(d[j].channel), cmp.Compare(d[i].subscription, d[j].subscription)) < 0
}

func (d *deadlines) Push(x any) { *d = append(*d, x.(timer)) }

func (d *deadlines) Pop() any {
	old := *d
	last := old[len(old)-1]
	*d = old[:len(old)-1]
	return last
}

// dueAfterFirst returns the timers up to a time without the first, in order.
func (d deadlines) dueAfterFirst(at int64) deadlines {
	var due deadlines
	for _, t := range d[1:] {
		if t.at <= at {
			due = append(due, t)
		}
	}
	sort.Sort(due)
	return due
}

// NextDue returns when DecideDue next has something to decide: an alert that waits for
// its record has been due since the last decision.
func (s *State) NextDue() (at time.Time, ok bool) {
	if len(s.crossed) > 0 || len(s.alerts) > 0 {
		return time.Unix(0, s.last.Time), true
	}
	if len(s.deadline) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, s.deadline[0].at), true
}

func (s *State) addTimer(t timer) { heap.Push(&s.deadline, t) }

// obsolete reports whether what t was set for has ended.
func (s *State) obsolete(t timer) bool {
	switch {
	case t.cron > 0:
		return s.crons[t.cron-1].due != t.at
	case t.item != "":
		return s.items[t.item] == nil
	case t.subscription != "":
		ch := s.allChannels[t.channel]
		return ch.findPushes(t.subscription).findBatch(t.at) == nil
	}
	q := s.queries[t.query]
	return q == nil || !q.reserves() || !t.void && t.at != q.deadline
}
