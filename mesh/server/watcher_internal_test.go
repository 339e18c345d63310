package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	natsserver "github.com/nats-io/nats-server/v2/server"
)

// watched is a watcher with a server of which the test says what it lists.
type watched struct {
	*watcher
	t      *testing.T
	list   func() []uint64
	events []string // "began 1", "ended 1"
}

func newWatched(t *testing.T) *watched {
	w := &watched{t: t}
	list := func() (openConnections, error) {
		if w.list == nil {
			return openConnections{}, errors.New("no answer")
		}
		open := openConnections{All: true}
		for _, number := range w.list() {
			open.List = append(open.List, openConnection{ID: ClientID{"S", number}})
		}
		return open, nil
	}
	w.watcher = newWatcher(func(string) (Party, bool) { return Party{Agent: "main"}, true }, list)
	w.Report(func(c Connection) {
		what := map[bool]string{true: "began", false: "ended"}[c.Connected]
		w.events = append(w.events, fmt.Sprint(what, " ", c.ClientID.Number))
	})
	return w
}

// says has the server tell of a connection.
func (w *watched) says(kind string, number uint64) {
	w.t.Helper()
	var event natsserver.ConnectEventMsg
	event.Type, event.Server.ID, event.Client.ID = kind, "S", number
	data := must(json.Marshal(event))
	w.Event(data)
}

func (w *watched) look(list func() []uint64) {
	w.t.Helper()
	w.list = list
	noError(w.t, w.Look())
}

func (w *watched) want(events ...string) {
	w.t.Helper()
	diff := cmp.Diff(events, w.events)
	failIf(w.t, diff != "", "%v", diff)
	w.events = nil
}

// A server tells of an end first, and takes the connection off its list then.
//
// covers A-RECONN
func TestWhatHasEndedDoesNotBegin(t *testing.T) {
	t.Parallel()
	const began, ended = natsserver.ConnectEventMsgType, natsserver.DisconnectEventMsgType
	w := newWatched(t)
	w.says(began, 1)
	w.says(ended, 1)
	w.look(func() []uint64 { return []uint64{1} })
	w.want("began 1", "ended 1")

	w.says(began, 2)
	w.look(func() []uint64 {
		w.says(ended, 2)
		w.says(ended, 3)
		return []uint64{2, 3, 4}
	})
	w.want("began 2", "ended 2", "began 4")

	w.says(ended, 5)
	w.says(began, 5)
	w.look(func() []uint64 { return []uint64{4, 5} })
	w.want()

	// Where it was only not listed, it was not the server's word.
	w.look(func() []uint64 { return nil })
	w.look(func() []uint64 { return []uint64{4} })
	w.want("ended 4", "began 4")
}

func TestEndedConnectionsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	const ended = 3*maxGone + 1
	for number := range uint64(ended) {
		w.removeConnection(ClientID{"S", number})
	}
	n := len(w.gone) + len(w.goneBefore)
	failIf(t, n < maxGone || n > 2*maxGone, "%d are remembered", n)
	w.look(func() []uint64 { return []uint64{0, ended - maxGone, ended - 1} })
	w.want("began 0")
}

// covers A-RECONN
func TestEndThatWasNotHeardIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		looks := 0
		w.look(func() []uint64 {
			if looks++; looks == 1 {
				return []uint64{1, 2}
			}
			return []uint64{2}
		})
		s := &Server{logger: hclog.NewNullLogger(), quit: make(chan struct{}), watcher: w.watcher}
		s.keeping.Go(s.lookNowAndThen)
		time.Sleep(lookInterval + 1)
		close(s.quit)
		s.keeping.Wait()
		w.want("began 1", "began 2", "ended 1")
	})
}

// A list in which another server has nothing for a connection is read.
func TestListWithNothingInIt(t *testing.T) {
	t.Parallel()
	var open openConnections
	open.add("S", []*natsserver.ConnInfo{nil, {Cid: 7}})
	if len(open.List) != 1 || open.List[0].ID != (ClientID{"S", 7}) {
		t.Errorf("%+v", open.List)
	}
}
