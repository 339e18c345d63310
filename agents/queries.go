package agents

import (
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// queries is the subscription by which a Reader takes queries: all that come, or those
// that the server gives to this connection of several that share them (PROTOCOL P9.5).
type queries struct {
	nc       *nats.Conn
	pattern  string
	messages chan *nats.Msg

	mu      sync.Mutex // guards what follows
	current *nats.Subscription
	over    bool
}

// share takes queries in the other way, if it is another, and returns when the server
// does as well. The old subscription ends before the new one begins, since of two copies
// of a query the second would use up its answer; in between the gateway hears that nobody
// listens. What is on its way by then still comes.
func (q *queries) share(shared bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over || shared == (q.current.Queue != "") {
		return nil
	}
	queue := ""
	if shared {
		queue = bcp.QueryQueue
	}
	if err := q.current.Drain(); err != nil {
		return err
	}
	next, err := q.nc.ChanQueueSubscribe(q.pattern, queue, q.messages)
	if err != nil {
		return err
	}
	q.current = next
	return q.nc.FlushTimeout(flushTimeout)
}

func (q *queries) shared() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.current.Queue != ""
}

// end ends the subscription; with the connection it has ended already.
func (q *queries) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	_ = q.current.Unsubscribe()
}
