package server

import (
	"encoding/json"
	"maps"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

const (
	// kickTimeout bounds the wait for a server that disconnects a client.
	kickTimeout = 5 * time.Second
	// lookInterval is how often connections are looked at: one may have been listed
	// whose end was told before it could be heard.
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
// come from the key that issued its creds, never from what the client says of
// itself. That a connection began does not mean that its subscriptions are in
// place.
type Connection struct {
	Party
	// Connected is true where it began, false where it ended.
	Connected bool
	ClientID  ClientID
	UserKey   string // public key of its creds
	Host      string // that it comes from
	Reason    string // the server's words, where it ended and they were heard
}

// OpenConnection is one that a server lists.
type OpenConnection struct {
	ID                    ClientID
	Issuer, UserKey, Host string
}

// OpenConnections are those of the servers that were asked.
type OpenConnections struct {
	List []OpenConnection
	// All: what is not listed has ended. Otherwise that is so at the servers of Of
	// alone.
	All bool
	Of  map[string]bool
}

// Watcher tells of the connections of agents and people, one at a time: it puts a
// server's events and each look at what is open in one order. Its methods may be
// used concurrently.
type Watcher struct {
	party   func(issuer string) (Party, bool)
	list    func() (OpenConnections, error)
	looking sync.Mutex

	mu     sync.Mutex
	handle func(Connection)
	open   map[ClientID]Connection // were shown and have not ended
	// gone and goneBefore hold connections whose end was heard: a server lists them for
	// a moment yet. The newest are in gone, up to maxGone.
	gone, goneBefore map[ClientID]bool
}

// NewWatcher returns one that calls handle, which should return soon. Party tells
// whose scope an issuer key is, and list what is open.
func NewWatcher(party func(issuer string) (Party, bool), list func() (OpenConnections, error), handle func(Connection)) *Watcher {
	return &Watcher{party: party, list: list, handle: handle, open: map[ClientID]Connection{}, gone: map[ClientID]bool{}}
}

// Stop ends the calls of handle, which must not call it.
func (w *Watcher) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handle = func(Connection) {}
}

// Event takes what a server says on [subjects.Connections].
func (w *Watcher) Event(data []byte) {
	// The event of a beginning has a part of the fields.
	var event natsserver.DisconnectEventMsg
	if json.Unmarshal(data, &event) != nil {
		return
	}
	id := ClientID{Server: event.Server.ID, Number: event.Client.ID}
	switch event.Type {
	case natsserver.ConnectEventMsgType:
		w.addConnection(OpenConnection{ID: id, Issuer: event.Client.IssuerKey, UserKey: event.Client.User, Host: event.Client.Host})
	case natsserver.DisconnectEventMsgType:
		w.removeConnection(id)
		w.ended(id, event.Reason)
	}
}

func (w *Watcher) addConnection(o OpenConnection) {
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

// removeConnection has a connection not begin any more. It is not for one that only is not listed: its
// server may come back with it.
func (w *Watcher) removeConnection(id ClientID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.gone) >= maxGone {
		w.gone, w.goneBefore = map[ClientID]bool{}, w.gone
	}
	w.gone[id] = true
}

func (w *Watcher) ended(id ClientID, reason string) {
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

// Look tells of the connections that have begun or ended without an event.
func (w *Watcher) Look() error {
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
