package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
)

// The server's own handling of failed streams is not enough for a journal. After
// a failed write it answers no publishers until it has opened the stream again.
// After a flipped bit in a stream's description, it skips the stream.

// reopenPause is the minimum time between two reopenings of the streams.
const reopenPause = time.Second

// unwrittenFormats are the formats of the server's lines about a stream that was not
// written: it says so nowhere else, and once after each time that it has opened the stream.
// [TestUnwrittenStreamsAreOpenedAgain] notices if another version has other words.
var unwrittenFormats = []string{"JetStream stream '%s > %s' critical write error: %v", "Filesystem permission denied while writing msg, disabling JetStream: %v"}

// unopenedLine begins a log line about a stream that cannot be opened.
const unopenedLine = "  Error recreating stream "

// openAgain closes the streams, and opens them until that works or the server
// stops. newest is as in [keeper.dropIndexes].
func (s *Server) openAgain(config Config, newest int, reason string) {
	s.logger.Error("closing the streams, and opening them again", "reason", reason)
	if err := s.server.Load().ShutdownJetStream(); err != nil {
		s.logger.Error("closing the streams", "error", err)
	}
	config.Unwritten(reason)
	for !s.reopen(config, newest, strings.Contains(reason, " critical write error: sync ")) && s.pause() {
	}
	config.Unwritten("the streams were closed")
}

// lookAt looks at blocks until one is not believable, or the server ends.
func (s *Server) lookAt(blocks []string) {
	for _, name := range blocks {
		if !isPlausibleBlock(name) {
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
		if err := rewriteNewestBlocks(config.storeDir()); err != nil {
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
	err = s.server.Load().EnableJetStream(&natsserver.JetStreamConfig{
		StoreDir: config.storeDir(), SyncAlways: config.SyncAlways, SyncInterval: config.SyncInterval,
		MaxMemory: -1, MaxStore: config.MaxStore, Strict: true,
	})
	if err = errors.Join(err, s.checkStreams()); err == nil {
		err = s.keeper.end()
	}
	if err != nil {
		s.logger.Error("opening the streams again", "error", err)
		_ = s.server.Load().ShutdownJetStream() // as far as it runs
	}
	return err == nil
}

// rewriteNewestBlocks rewrites the newest block of each stream. After a failed sync the
// system shows its memory, and no later sync writes that to disk: a power cut would lose
// it, and everything stored after it.
func rewriteNewestBlocks(storeDir string) error {
	folders, err := blocks(filepath.Join(storeDir, natsserver.JetStreamStoreDir))
	if err != nil {
		return err
	}
	for _, files := range folders {
		if err := rewrite(files[len(files)-1]); err != nil {
			return err
		}
	}
	return nil
}

// Sync writes a stream of the gateway's account to disk, if the server does that
// only at intervals.
func (s *Server) Sync(stream string) error {
	folders, err := filepath.Glob(filepath.Join(s.keeper.streams, "*", "streams", stream, "msgs"))
	if err == nil && len(folders) != 1 {
		err = errors.New("it has no folder")
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", stream, err)
	}
	files, err := filepath.Glob(filepath.Join(folders[0], "*.blk"))
	if err != nil {
		return fmt.Errorf("sync %s: %w", stream, err)
	}
	for _, name := range files {
		err = errors.Join(err, syncFile(name))
	}
	if err = errors.Join(err, durable.SyncFolder(folders[0])); err != nil {
		return fmt.Errorf("sync %s: %w", stream, err)
	}
	return nil
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// rewrite makes no copy: none may be left of what is erased later.
func rewrite(name string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	return errors.Join(err, f.Sync(), f.Close())
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
func (s *Server) pause() bool {
	select {
	case <-s.quit:
		return false
	case <-time.After(reopenPause):
		return true
	}
}

// dropDescriptions removes the descriptions of skipped streams. They only say
// how to keep a stream: when the streams of the mesh are created, they are
// written again, and the messages are found there. It reports whether there were
// any.
func (s *Server) dropDescriptions(storeDir string) (dropped bool) {
	for _, e := range s.server.Load().Healthz(&natsserver.HealthzOptions{Details: true}).Errors {
		if e.Type != natsserver.HealthzErrorStream || !strings.HasSuffix(e.Error, "could not be recovered") {
			continue
		}
		folder := filepath.Join(storeDir, natsserver.JetStreamStoreDir, e.Account, "streams", filepath.Base(e.Stream))
		var failed error
		for _, name := range []string{natsserver.JetStreamMetaFile, natsserver.JetStreamMetaFileSum} {
			if err := os.Remove(filepath.Join(folder, name)); !errors.Is(err, fs.ErrNotExist) {
				failed = errors.Join(failed, err)
			}
		}
		s.logger.Warn("the description of a stream is damaged; writing a new one", "stream", e.Stream, "error", failed)
		dropped = true
	}
	return dropped
}
