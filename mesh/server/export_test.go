package server

import (
	"net"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

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
