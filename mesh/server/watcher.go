package server

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

const (
	// kickTimeout is the timeout for a server to disconnect a client.
	kickTimeout = 5 * time.Second
	// lookInterval is how often connections are listed: one may have been listed
	// although its end had been reported before.
	lookInterval = 10 * time.Second
	// maxGone is how many connections are remembered at least when they have ended:
	// more than end while a list is made.
	maxGone = 1 << 14
)

// ClientID names a connection, among all servers and for ever.
type ClientID struct {
	Server string // public key of the server
	Number uint64
}

// Connection says that an agent's connection began or ended. Agent and Role
// come from the key that issued its creds, never from the client's own words.
// The subscriptions of a new connection may not be in place yet.
type Connection struct {
	Party
	// Connected is true if it began, false if it ended.
	Connected bool
	ClientID  ClientID
	UserKey   string // public key of its creds
	Host      string // of the client
	Reason    string // the server's words, if it ended and they were received
}

// openConnection is a connection in a server's list.
type openConnection struct {
	ID                    ClientID
	Issuer, UserKey, Host string
}

// openConnections are those of the servers that were asked.
type openConnections struct {
	List []openConnection
	// All says that unlisted connections have ended. Otherwise only those of the
	// servers in Of have.
	All bool
	Of  map[string]bool
}

// add adds those of a server's list, which another program may have made.
func (o *openConnections) add(server string, list []*natsserver.ConnInfo) {
	for _, c := range list {
		if c == nil {
			continue
		}
		o.List = append(o.List, openConnection{ID: ClientID{Server: server, Number: c.Cid}, Issuer: c.IssuerKey, UserKey: c.AuthorizedUser, Host: c.IP})
	}
}

// watcher reports the connections of agents and people, one at a time: it puts a
// server's events and lists into one order. Its methods may be used concurrently.
type watcher struct {
	party   func(issuer string) (Party, bool)
	list    func() (openConnections, error)
	looking sync.Mutex

	mu     sync.Mutex
	handle func(Connection)
	open   map[ClientID]Connection // were shown and have not ended
	// gone and goneBefore have connections whose end was reported: servers still list
	// them for a moment. The newest are in gone, up to maxGone.
	gone, goneBefore map[ClientID]bool
}

// newWatcher returns a watcher. party returns the party of an issuer key, and list the
// open connections.
func newWatcher(party func(issuer string) (Party, bool), list func() (openConnections, error)) *watcher {
	return &watcher{party: party, list: list, handle: func(Connection) {}, open: map[ClientID]Connection{}, gone: map[ClientID]bool{}}
}

// Report calls handle, which should return soon, for each connection that is open, the
// oldest first, and from then on for each that begins or ends; nobody else hears of them
// any more. stop ends the calls; handle must not call it.
func (w *watcher) Report(handle func(Connection)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	byNumber := func(a, b Connection) int { return cmp.Compare(a.ClientID.Number, b.ClientID.Number) }
	for _, c := range slices.SortedFunc(maps.Values(w.open), byNumber) {
		handle(c)
	}
	w.handle = handle
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.handle = func(Connection) {}
	}
}

// Event handles a server's message on [subjects.Connections].
func (w *watcher) Event(data []byte) {
	// The event of a beginning has a part of the fields.
	var event natsserver.DisconnectEventMsg
	if json.Unmarshal(data, &event) != nil {
		return
	}
	id := ClientID{Server: event.Server.ID, Number: event.Client.ID}
	switch event.Type {
	case natsserver.ConnectEventMsgType:
		w.addConnection(openConnection{ID: id, Issuer: event.Client.IssuerKey, UserKey: event.Client.User, Host: event.Client.Host})
	case natsserver.DisconnectEventMsgType:
		w.removeConnection(id)
		w.ended(id, event.Reason)
	}
}

func (w *watcher) addConnection(o openConnection) {
	party, ok := w.party(o.Issuer)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, shown := w.open[o.ID]; shown || w.gone[o.ID] || w.goneBefore[o.ID] || !ok {
		return
	}
	c := Connection{Party: party, Connected: true, ClientID: o.ID, UserKey: o.UserKey, Host: o.Host}
	w.open[o.ID] = c
	w.handle(c)
}

// removeConnection keeps a connection from being reported as new. It is not for one that
// is merely unlisted: its server may return with it.
func (w *watcher) removeConnection(id ClientID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.gone) >= maxGone {
		w.gone, w.goneBefore = map[ClientID]bool{}, w.gone
	}
	w.gone[id] = true
}

func (w *watcher) ended(id ClientID, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, shown := w.open[id]
	if !shown {
		return
	}
	delete(w.open, id)
	c.Connected, c.Reason = false, reason
	w.handle(c)
}

// Look reports connections that have begun or ended without an event.
func (w *watcher) Look() error {
	w.looking.Lock()
	defer w.looking.Unlock()
	w.mu.Lock()
	unlisted := maps.Clone(w.open)
	w.mu.Unlock()
	open, err := w.list()
	if err != nil {
		return err
	}
	for _, o := range open.List {
		delete(unlisted, o.ID)
		w.addConnection(o)
	}
	for id := range unlisted {
		if open.All || open.Of[id.Server] {
			w.ended(id, "")
		}
	}
	return nil
}
