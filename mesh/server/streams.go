package server

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// The server's own handling of failed streams is not enough for a journal. After
// a failed write it answers no publishers until it has opened the stream again.
// After a flipped bit in a stream's description, it skips the stream.

// reopenPause is the minimum time between two reopenings of the streams.
const reopenPause = time.Second

// openAgain closes the streams, and opens them until that works or the server
// stops. newest is as in [keeper.dropIndexes].
func (s *Server) openAgain(config Config, newest int, reason string) {
	s.logger.Error("closing the streams, and opening them again", "reason", reason)
	if err := s.server.ShutdownJetStream(); err != nil {
		s.logger.Error("closing the streams", "error", err)
	}
	config.Unwritten(reason)
	for !s.reopen(config, newest, saysUnsynced(reason)) && s.pause(reopenPause) {
	}
	config.Unwritten("the streams were closed")
}

// lookAt looks at blocks until one is not believable, or the server ends.
func (s *Server) lookAt(blocks []string) {
	for _, name := range blocks {
		if !plausible(name) {
			select {
			case s.damaged <- name:
			case <-s.quit:
			}
			return
		}
		select {
		case <-s.quit:
			return
		default:
		}
	}
}

// reopen opens the streams as a start does: from the disk, ignoring the
// server's memory. After a failed sync the contents of the disk are unknown.
func (s *Server) reopen(config Config, newest int, unsynced bool) bool {
	if unsynced {
		if err := s.keeper.rewriteNewest(); err != nil {
			s.logger.Error("writing again what was not synced", "error", err)
			return false
		}
	}
	err := s.keeper.begin()
	if err == nil {
		_, err = s.keeper.dropIndexes(newest)
	}
	if err != nil {
		s.logger.Error("opening the streams again", "error", err)
		return false
	}
	err = s.server.EnableJetStream(&natsserver.JetStreamConfig{
		StoreDir: StreamsOf(config.StateDir), SyncAlways: config.SyncAlways, SyncInterval: config.SyncInterval,
		MaxMemory: -1, MaxStore: config.MaxStore, Strict: true,
	})
	if err = errors.Join(err, s.checkStreams()); err == nil {
		err = s.keeper.end()
	}
	if err != nil {
		s.logger.Error("opening the streams again", "error", err)
		_ = s.server.ShutdownJetStream() // as far as it runs
	}
	return err == nil
}

// checkStreams says which streams could not be opened, and why.
func (s *Server) checkStreams() error {
	err := s.keeper.check()
	if line := s.log.unopened.Swap(nil); err != nil && line != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(*line))
	}
	return err
}

// pause is false when the server ends.
func (s *Server) pause(d time.Duration) bool {
	select {
	case <-s.quit:
		return false
	case <-time.After(d):
		return true
	}
}

// Sync writes a stream of the gateway's account to disk, if the server does that
// only at intervals.
func (s *Server) Sync(stream string) error { return s.keeper.sync(stream) }

// dropDescriptions removes the descriptions of skipped streams. They only say
// how to keep a stream: when the streams of the mesh are created, they are
// written again, and the messages are found there. It reports whether there were
// any.
func (s *Server) dropDescriptions() (dropped bool) {
	for _, e := range s.server.Healthz(&natsserver.HealthzOptions{Details: true}).Errors {
		if e.Type != natsserver.HealthzErrorStream || !saysUnrecovered(e.Error) {
			continue
		}
		err := s.keeper.dropDescription(e.Account, filepath.Base(e.Stream))
		s.logger.Warn("the description of a stream is damaged; writing a new one", "stream", e.Stream, "error", err)
		dropped = true
	}
	return dropped
}
