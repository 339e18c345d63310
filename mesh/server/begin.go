package server

import (
	"errors"
	"fmt"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/mesh/server/store"
)

// The server reads its operator's keys when it starts, and neither a reload of its
// options nor new claims change them. So if these keys change, or the keys of this
// process, the server restarts behind the proxy: everybody is disconnected, and
// reconnects after the monitor, which identifies clients.

// again asks for a restart of the server.
type again struct {
	bundle accounts.Bundle
	done   chan error // with room for one
}

// begin starts the server with the config's bundle.
func (s *Server) begin(config Config) error {
	options, err := serverOptions(config)
	if err != nil {
		return err
	}
	if options.AccountResolver, err = newResolver(config); err != nil {
		return err
	}
	server, err := natsserver.NewServer(options)
	if err != nil {
		return err
	}
	s.log.failed.Store(nil)
	server.SetLoggerV2(s.log, false, false, false)
	s.server.Store(server)
	if err := s.keeper.Begin(); err != nil {
		return err
	}
	rest, err := s.keeper.DropIndexes(store.BlocksAtStart)
	if err != nil {
		return err
	}
	server.Start()
	if err := s.log.fatal(); err != nil {
		return err
	}
	if !server.ReadyForConnections(readyTimeout) {
		return errors.New("it was not ready in time")
	}
	if err := s.checkStreams(); err != nil {
		return err
	}
	if !s.dropDescriptions() {
		if err := s.keeper.End(); err != nil {
			return err
		}
	}
	if err := knowAccounts(config, server); err != nil {
		return err
	}
	s.keeping.Go(func() { s.lookAt(rest) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operator, s.held = config.Bundle.Operator, map[string]accounts.Account{}
	for _, account := range config.Bundle.Accounts {
		s.held[account.Name] = account
	}
	return nil
}

// knowAccounts makes the server read the claims of all accounts, which are large.
// Otherwise it would read them for their first agents, and again for each that
// comes meanwhile.
func knowAccounts(config Config, server *natsserver.Server) error {
	for _, account := range config.Bundle.Accounts {
		if _, err := server.LookupAccount(account.PublicKey); err != nil {
			return fmt.Errorf("account %s: %w", account.Name, err)
		}
	}
	return nil
}

// halt ends the server, if there is one, and returns when it has ended.
func (s *Server) halt() {
	if server := s.server.Load(); server != nil {
		server.Shutdown()
		server.WaitForShutdown()
	}
}

// keepRunning reopens the streams whenever one could not be written, and restarts
// the server on request, until it stops.
func (s *Server) keepRunning(config Config) {
	for {
		select {
		case <-s.quit:
			return
		case again := <-s.again:
			again.done <- s.beginAgain(&config, again.bundle)
			continue
		case reason := <-s.log.unwritten:
			s.openAgain(config, store.BlocksAtStart, "a stream could not be written: "+reason)
		case block := <-s.damaged:
			s.openAgain(config, 0, "a block is damaged: "+block)
		}
		if !s.pause() {
			return
		}
	}
}

var errEnding = errors.New("it is ending")

// beginAgain restarts the server with another bundle. It retries until that
// works: meanwhile the permissions that the bundle removes stay removed.
func (s *Server) beginAgain(config *Config, next accounts.Bundle) error {
	if _, begins := s.difference(next); !begins {
		return nil // somebody who has gone asked for the same
	}
	config.Bundle = next
	s.logger.Warn("the keys of the mesh have changed: the server begins again, and agents come back by themselves")
	s.entrance.turns.pauseTurns()
	for {
		s.entrance.moving.Lock()
		s.halt()
		config.Unwritten("the server begins again")
		err := s.begin(*config)
		s.entrance.moving.Unlock()
		if err == nil {
			config.Unwritten("the server has begun again")
			return nil
		}
		s.logger.Error("beginning again", "error", err)
		if !s.pause() {
			return errEnding
		}
	}
}
