package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// ErrNoClient says that no connection has this id.
var ErrNoClient = errors.New("no such connection")

// Party is an agent, or a person, in the role of its connection. The zero value
// is nobody.
type Party struct {
	Agent bcp.AgentName
	Role  bcp.Role
}

// Watch calls handle for every open connection of an agent or a person, and from then
// on for each that begins or ends, one at a time. Each connection begins once and ends
// at most once, even if events of it are missed: then its end is reported within some
// ten seconds. The gateway's own connections are not reported. handle should return
// soon. stop ends the calls; handle must not call it. Only the last caller hears of them.
func (s *Server) Watch(handle func(Connection)) (stop func(), err error) {
	if err := s.watcher.Look(); err != nil {
		return nil, fmt.Errorf("watch connections: %w", err)
	}
	return s.watcher.Report(handle), nil
}

// monitorIsBack makes up for events missed while the monitor's connection was
// lost.
func (s *Server) monitorIsBack(monitor *nats.Conn) {
	// A client that connects before its subscriptions are in place causes no event, and
	// must be listed.
	_ = monitor.Flush() // if it is lost again, it comes back again
	open, err := s.open()
	if err != nil {
		s.logger.Error("looking for connections", "error", err)
	}
	for _, c := range open.List {
		s.known(c.ID.Number, c.Issuer)
	}
	s.look()
}

// lookNowAndThen looks until the server ends.
func (s *Server) lookNowAndThen() {
	for s.pause(lookInterval) {
		s.look()
	}
}

func (s *Server) look() {
	if err := s.watcher.Look(); err != nil {
		s.logger.Error("looking for connections", "error", err)
	}
}

// showed follows the server's events: the proxy learns who has shown creds.
func (s *Server) showed(m *nats.Msg) {
	var event natsserver.ConnectEventMsg
	if json.Unmarshal(m.Data, &event) == nil && event.Type == natsserver.ConnectEventMsgType {
		s.known(event.Client.ID, event.Client.IssuerKey)
	}
}

func (s *Server) known(clientID uint64, issuer string) {
	who, ok := s.party(issuer)
	client := s.server.GetClient(clientID)
	if !ok || client == nil {
		return
	}
	if address := client.RemoteAddress(); address != nil {
		s.entrance.known(address, who, issuer)
	}
}

// Slow makes the server read an agent slowly for half a minute, in one role:
// beyond two hundred messages a second its messages wait on its side, whatever
// connections it opens meanwhile. It is for an agent that floods.
func (s *Server) Slow(who Party) { s.entrance.slowDown(who) }

// open lists the connections.
func (s *Server) open() (openConnections, error) {
	// With pages, connections after one that ends meanwhile would be missed.
	list, err := s.server.Connz(&natsserver.ConnzOptions{Username: true, Limit: math.MaxInt32})
	if err != nil {
		return openConnections{}, err
	}
	open := openConnections{All: true}
	open.add(s.server.ID(), list.Conns)
	return open, nil
}

// Kick disconnects a client. It returns [ErrNoClient] if it is gone.
func (s *Server) Kick(client ClientID) error { return kick(s.monitor, client) }

// kick makes a client's server disconnect it, over a connection to the system
// account. It returns [ErrNoClient] if the client, or its server, is gone.
func kick(monitor *nats.Conn, client ClientID) error {
	if subjects.KickAt(client.Server) == "" {
		return fmt.Errorf("kick a client: %w", ErrNoClient)
	}
	ctx, cancel := context.WithTimeout(context.Background(), kickTimeout)
	defer cancel()
	request, err := json.Marshal(natsserver.KickClientReq{CID: client.Number})
	if err != nil {
		return err
	}
	reply, err := monitor.RequestWithContext(ctx, subjects.KickAt(client.Server), request)
	var response natsserver.ServerAPIResponse
	if err == nil {
		err = json.Unmarshal(reply.Data, &response)
	}
	if errors.Is(err, nats.ErrNoResponders) || err == nil && response.Error != nil {
		err = ErrNoClient
	}
	if err != nil {
		return fmt.Errorf("kick a client: %w", err)
	}
	return nil
}

// party returns the party of an issuer key, also of the previous definitions.
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

// admits reports whether users of an issuer key, also of the previous definitions, may
// come from outside of this process.
func (s *Server) admits(issuer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.bundles, func(b accounts.Bundle) bool { return b.Admits(issuer) })
}

// identify returns who a client is, or was, and false if the server does not list it.
// It must not be called from the server's callbacks.
func (s *Server) identify(clientID uint64) (who Party, found bool) {
	list, err := s.server.Connz(&natsserver.ConnzOptions{Username: true, CID: clientID, State: natsserver.ConnAll})
	if err != nil || len(list.Conns) != 1 {
		return Party{}, false
	}
	who, _ = s.party(list.Conns[0].IssuerKey)
	return who, true
}
