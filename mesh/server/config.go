package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	defaultListen       = "127.0.0.1:0"
	defaultSyncInterval = time.Minute
	// maxPayload bounds one message, in bytes.
	maxPayload = 1 << 20
	// maxPending bounds the server's buffer for a client that does not read;
	// beyond it the client is disconnected.
	maxPending = 16 << 20
	// maxClosed bounds the closed connections that the server remembers, so
	// that refused clients can be identified.
	maxClosed = 1024
	// authTime bounds the time until a client has shown its creds, with the
	// handshake of TLS.
	authTime = 3 * time.Second
	// maxSubjectTokens bounds the work of matching a subscription. The mesh's
	// own have at most seven.
	maxSubjectTokens = 16
)

// Errors of Start.
var (
	// ErrInUse says that another process runs on this state folder.
	ErrInUse = errors.New("another server runs on this state folder")
	// ErrPlaintext says that the address is reachable from other hosts and
	// there is no TLS.
	ErrPlaintext = errors.New("listening beyond loopback needs TLS")
	// ErrStreams says that streams exist and cannot be opened; the server's
	// earlier log lines say why.
	ErrStreams = errors.New("streams cannot be opened")
)

// Config says how to run a server. StateDir and Bundle are required; every
// other zero value is a safe default.
type Config struct {
	// Listen is the address of the client port; port 0 means any free one.
	// Default: 127.0.0.1:0. Anything but loopback needs TLS.
	Listen string
	// StateDir is the folder of the streams and of the server's lock. One
	// server runs on it at a time.
	StateDir string
	// Discard names streams that are deleted before the server starts. No key of
	// a mesh may delete one.
	Discard []string
	// Bundle has the users to admit.
	Bundle accounts.Bundle
	// TLS, if set, is required of clients. The proxy terminates it.
	TLS *tls.Config
	// Logger takes the server's own lines; nil discards them.
	Logger hclog.Logger
	// Shut admits no clients before [Server.Open] is called: for a caller that must
	// first work without thousands of them.
	Shut bool
	// SyncAlways writes every record to disk before it is acknowledged.
	// Otherwise records of the last SyncInterval (default one minute) may be
	// lost when the machine, not only the process, fails.
	SyncAlways   bool
	SyncInterval time.Duration
	// MaxStore is the maximum size of all streams together, in bytes: beyond it
	// nothing is stored. 0 means that only the disk limits it.
	MaxStore int64
	// Denials is called for refusals, one at a time and from one goroutine. It
	// should return soon: meanwhile further refusals are counted together. Nil
	// discards them.
	Denials func(Denial)
	// Unwritten is called when a stream could not be written, with the server's
	// line about it, once all streams are closed, and again when they have been
	// opened: pending requests about one get no reply. It should return soon.
	Unwritten func(reason string)
}

// filled returns a copy with defaults in place.
func (c Config) filled() Config {
	if c.Listen == "" {
		c.Listen = defaultListen
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.SyncInterval == 0 {
		c.SyncInterval = defaultSyncInterval
	}
	if c.MaxStore == 0 {
		c.MaxStore = maxStore
	}
	if c.Denials == nil {
		c.Denials = func(Denial) {}
	}
	if c.Unwritten == nil {
		c.Unwritten = func(string) {}
	}
	return c
}

// check refuses a config, with defaults set, that cannot be run safely.
func (c Config) check() error {
	if _, _, err := splitAddress(c.Listen); err != nil {
		return err
	}
	switch {
	case c.exposed():
		return fmt.Errorf("%w: %s", ErrPlaintext, c.Listen)
	case c.StateDir == "":
		return errors.New("a state folder is required")
	case c.Bundle.Operator == "" || len(c.Bundle.Accounts) == 0 || c.Bundle.Monitor.JWT == "":
		return errors.New("a bundle of accounts is required")
	case c.SyncInterval < 0:
		return errors.New("the sync interval is negative")
	case c.MaxStore < 0:
		return errors.New("the limit of the streams is negative")
	}
	return nil
}

// exposed reports whether agents' messages can be read on the way.
func (c Config) exposed() bool {
	host, _, err := splitAddress(c.Listen)
	return c.TLS == nil && (err != nil || !guard.Loopback(host))
}

func splitAddress(address string) (string, int, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("the address is not HOST:PORT: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, errors.New("the port is not a number from 0 to 65535")
	}
	return host, int(port), nil
}
