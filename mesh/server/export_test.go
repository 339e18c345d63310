package server

import (
	"encoding/json"
	"net"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Login connects inside this process, as a login that it had.
func (s *Server) Login(login accounts.Login) (*nats.Conn, error) {
	return s.connect(func() accounts.Login { return login }, subjects.MonitorInbox, func(*nats.Conn) {}, nats.NoReconnect())
}

// LoseMonitor cuts the connection over which the server tells of others.
func (s *Server) LoseMonitor() error { return s.monitor.ForceReconnect() }

// AdmitAll has the entrance let every key on to the server.
func (s *Server) AdmitAll() {
	s.entrance.mu.Lock()
	defer s.entrance.mu.Unlock()
	s.entrance.admits = func(string) bool { return true }
}

// LoadedAccounts is how many accounts the server has read.
func (s *Server) LoadedAccounts() int { return s.server.NumLoadedAccounts() }

// MonitorOver has the server tell of others over connections that wrap changes.
func (s *Server) MonitorOver(wrap func(net.Conn) net.Conn) error {
	s.monitor.Close()
	var err error
	s.monitor, err = s.connect(func() accounts.Login { return s.bundle().Monitor }, subjects.MonitorInbox, s.monitorIsBack, nats.InProcessServer(wrapped{s.server, wrap}))
	if err != nil {
		return err
	}
	_, err = s.monitor.Subscribe(subjects.Connections, s.showed)
	return err
}

type wrapped struct {
	*natsserver.Server
	wrap func(net.Conn) net.Conn
}

func (w wrapped) InProcessConn() (net.Conn, error) {
	connection, err := w.Server.InProcessConn()
	if err != nil {
		return nil, err
	}
	return w.wrap(connection), nil
}

// Sender returns the public key of the user who sent an approval to the gateway.
// The server adds it to the message, and overwrites the sender's own header; on
// other subjects there is none.
func Sender(m *nats.Msg) (userKey string, ok bool) {
	values := m.Header.Values(natsserver.ClientInfoHdr)
	if len(values) != 1 {
		return "", false
	}
	var info natsserver.ClientInfo
	if err := json.Unmarshal([]byte(values[0]), &info); err != nil || !nkeys.IsValidPublicUserKey(info.User) {
		return "", false
	}
	return info.User, true
}
