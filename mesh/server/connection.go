package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// ErrNoClient says that there is no connection of this id.
var ErrNoClient = errors.New("no such connection")

// Party is an agent, or a person, in the role that it connected in. The zero
// value is nobody.
type Party struct {
	Agent bcp.AgentName
	Role  bcp.Role
}

// Connection says that an agent's connection began or ended. Agent and Role
// come from the key that issued its creds, never from what the client says of
// itself. That a connection began does not mean that its subscriptions are in
// place.
type Connection struct {
	Party
	// Connected is true where it began, false where it ended.
	Connected bool
	ClientID  uint64 // names the connection, for [Server.Kick]
	UserKey   string // public key of its creds
	Reason    string // the server's words, where it ended and they were heard
}

// Watch calls handle for every connection of an agent or a person that there
// is, and from then on for each that begins or ends, one at a time. Each
// connection begins once and ends at most once, also where events of it are
// missed. The gateway's own connections are not shown. Handle should return soon. Stop ends the calls; it must not be
// called by handle.
func (s *Server) Watch(handle func(Connection)) (stop func(), err error) {
	w := &watcher{server: s, handle: handle, open: map[uint64]Connection{}}
	subscription, err := s.monitor.Subscribe(subjects.Connections, w.event)
	if err != nil {
		return nil, fmt.Errorf("watch connections: %w", err)
	}
	stop = func() {
		_ = subscription.Unsubscribe()
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.handle = func(Connection) {}
	}
	s.mu.Lock()
	s.watchers[w] = true
	s.mu.Unlock()
	err = s.monitor.Flush()
	if err == nil {
		err = w.look()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("watch connections: %w", err)
	}
	return stop, nil
}

// lookAgain makes up for the events that were missed while the monitor's
// connection was lost.
func (s *Server) lookAgain(*nats.Conn) {
	s.mu.Lock()
	watchers := slices.Collect(maps.Keys(s.watchers))
	s.mu.Unlock()
	for _, w := range watchers {
		if err := w.look(); err != nil {
			s.logger.Error("looking for connections", "error", err)
		}
	}
}

// watcher puts events and each look in one order.
type watcher struct {
	server  *Server
	looking sync.Mutex

	mu     sync.Mutex
	handle func(Connection)
	open   map[uint64]Connection // were shown and have not ended
	// early holds connections whose end was heard during a look, which may
	// still list them. It is nil but then: the order of events is the server's.
	early map[uint64]bool
}

func (w *watcher) event(m *nats.Msg) {
	// The event of a beginning has a part of the fields.
	var event natsserver.DisconnectEventMsg
	if json.Unmarshal(m.Data, &event) != nil {
		return
	}
	switch event.Type {
	case natsserver.ConnectEventMsgType:
		w.began(event.Client.ID, event.Client.IssuerKey, event.Client.User)
	case natsserver.DisconnectEventMsgType:
		w.ended(event.Client.ID, event.Reason)
	}
}

func (w *watcher) began(id uint64, issuer, user string) {
	party, ok := w.server.party(issuer)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, shown := w.open[id]; shown || w.early[id] || !ok {
		return
	}
	c := Connection{Party: party, Connected: true, ClientID: id, UserKey: user}
	w.open[id] = c
	w.handle(c)
}

func (w *watcher) ended(id uint64, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.early != nil { // the list of the look may still have it
		w.early[id] = true
	}
	c, shown := w.open[id]
	if !shown {
		return
	}
	delete(w.open, id)
	c.Connected, c.Reason = false, reason
	w.handle(c)
}

// look shows the connections that have begun or ended without an event.
func (w *watcher) look() error {
	w.looking.Lock()
	defer w.looking.Unlock()
	w.mu.Lock()
	gone := maps.Clone(w.open)
	w.early = map[uint64]bool{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.early = nil
	}()
	// In pages, those behind one that ends meanwhile would be missed.
	list, err := w.server.server.Connz(&natsserver.ConnzOptions{Username: true, Limit: math.MaxInt32})
	if err != nil {
		return err
	}
	for _, c := range list.Conns {
		delete(gone, c.Cid)
		w.began(c.Cid, c.IssuerKey, c.AuthorizedUser)
	}
	for id := range gone {
		w.ended(id, "")
	}
	return nil
}

// Kick disconnects a client. It returns [ErrNoClient] where it is gone.
func (s *Server) Kick(clientID uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := json.Marshal(natsserver.KickClientReq{CID: clientID})
	if err != nil {
		return err
	}
	reply, err := s.monitor.RequestWithContext(ctx, subjects.KickAt(s.server.ID()), request)
	if err != nil {
		return fmt.Errorf("kick a client: %w", err)
	}
	var response natsserver.ServerAPIResponse
	if err := json.Unmarshal(reply.Data, &response); err != nil {
		return fmt.Errorf("kick a client: %w", err)
	}
	if response.Error != nil {
		return fmt.Errorf("kick a client: %w", ErrNoClient)
	}
	return nil
}

// party tells whose scope an issuer key is, also of the definitions before.
func (s *Server) party(issuer string) (Party, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bundles {
		if agent, role, ok := b.ScopeOf(issuer); ok {
			return Party{Agent: agent, Role: role}, true
		}
	}
	return Party{}, false
}

// identify tells who a client is, or was. It must not be called by what the
// server calls.
func (s *Server) identify(clientID uint64) (p Party, userKey string) {
	list, err := s.server.Connz(&natsserver.ConnzOptions{Username: true, CID: clientID, State: natsserver.ConnAll})
	if err != nil || len(list.Conns) != 1 {
		return Party{}, ""
	}
	c := list.Conns[0]
	p, ok := s.party(c.IssuerKey)
	if !ok {
		return Party{}, ""
	}
	return p, c.AuthorizedUser
}
