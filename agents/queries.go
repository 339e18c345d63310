package agents

import (
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// queries is a Reader's subscription to queries: to all, or to those that the server
// gives this connection of several that share them (PROTOCOL P9.5).
type queries struct {
	nc       *nats.Conn
	pattern  string
	messages chan *nats.Msg

	mu      sync.Mutex // guards what follows
	current *nats.Subscription
	over    bool
}

// share switches between the two ways of taking queries if necessary, and returns when
// the server has confirmed it. The old subscription ends before the new one begins, since
// the second of two copies of a query would use up its answer; in between the gateway
// finds no listener. Queries already on their way still come.
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
