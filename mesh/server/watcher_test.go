package server_test

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// late is a connection over which subscriptions, and what follows them, reach the
// server when they are let.
type late struct {
	net.Conn
	pings chan bool // of those that wait

	mu   sync.Mutex
	held []byte
	let  bool
}

func (l *late) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.let || len(l.held) == 0 && !bytes.Contains(data, []byte("SUB ")) {
		return l.Conn.Write(data)
	}
	l.held = append(l.held, data...)
	for range bytes.Count(data, []byte("PING")) {
		l.pings <- true
	}
	return len(data), nil
}

func (l *late) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.let = true
	_, err := l.Conn.Write(l.held)
	return err
}

// covers A-RECONN
func TestNobodyIsMissedBeforeTheMonitorHears(t *testing.T) {
	t.Parallel()
	b := start(t)
	first, again, back := true, make(chan bool), make(chan *late, 1)
	noError(t, b.MonitorOver(func(connection net.Conn) net.Conn {
		if first {
			first = false
			return connection
		}
		<-again
		l := &late{Conn: connection, pings: make(chan bool, 16)}
		back <- l
		return l
	}))
	events := b.watch()
	noError(t, b.LoseMonitor())
	b.connect("main", bcp.RoleController)
	close(again)
	l := next(t, back)
	// One is of the client library; behind the other its subscriptions are in place.
	for range 2 {
		select {
		case <-l.pings:
		case e := <-events:
			t.Fatalf("it looked before it could hear: %+v", e)
		case <-time.After(patience):
			t.Fatal("it did not wait until it could hear")
		}
	}
	b.connect("relay", bcp.RoleController)
	noError(t, l.release())
	came := []bcp.AgentName{next(t, events).Agent, next(t, events).Agent}
	slices.Sort(came)
	equal(t, []bcp.AgentName{"main", "relay"}, came)
	none(t, events)
}
