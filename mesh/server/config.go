package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
)

const (
	defaultListen       = "127.0.0.1:0"
	defaultSyncInterval = time.Minute
	defaultMaxPayload   = 1 << 20
	// maxPending bounds what the server holds for a client that does not read;
	// beyond it the client is disconnected.
	maxPending = 16 << 20
	// maxSubjectTokens bounds the work of matching a subscription. The mesh's
	// own have at most seven.
	maxSubjectTokens = 16
)

// Errors of Start.
var (
	// ErrInUse says that another process runs on this state folder.
	ErrInUse = errors.New("another server runs on this state folder")
	// ErrPlaintext says that the address can be reached from elsewhere, and
	// that there is no TLS.
	ErrPlaintext = errors.New("listening beyond loopback needs TLS")
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
	// Bundle is whom to let in.
	Bundle accounts.Bundle
	// TLS is required of clients where it is set.
	TLS *tls.Config
	// Logger takes the server's own lines; nil discards them.
	Logger hclog.Logger
	// SyncAlways writes every record to disk before it is acknowledged.
	// Otherwise records of the last SyncInterval (default one minute) may be
	// lost when the machine, not only the process, fails.
	SyncAlways   bool
	SyncInterval time.Duration
	// MaxPayload bounds one message, in bytes. Default and most: 1 MiB and
	// 8 MiB.
	MaxPayload int
	// Denials is called for refusals, one at a time and from one goroutine. It
	// should return soon: refusals are counted together meanwhile. Nil
	// discards them.
	Denials func(Denial)
	// AllowNetworkWithoutTLS lets the server listen beyond loopback without
	// TLS: everything that agents say can be read and changed on the way.
	AllowNetworkWithoutTLS bool
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
	if c.MaxPayload == 0 {
		c.MaxPayload = defaultMaxPayload
	}
	if c.Denials == nil {
		c.Denials = func(Denial) {}
	}
	return c
}

// check refuses a filled config that cannot be run safely.
func (c Config) check() (host string, port int, err error) {
	host, port, err = splitAddress(c.Listen)
	switch {
	case err != nil:
		return "", 0, err
	case c.TLS == nil && !c.AllowNetworkWithoutTLS && !isLoopback(host):
		return "", 0, fmt.Errorf("%w: %s", ErrPlaintext, c.Listen)
	case c.StateDir == "":
		return "", 0, errors.New("a state folder is required")
	case c.Bundle.Operator == "" || len(c.Bundle.Accounts) == 0 || c.Bundle.Monitor.JWT == "":
		return "", 0, errors.New("a bundle of accounts is required")
	case c.SyncInterval < 0:
		return "", 0, errors.New("the sync interval is negative")
	case c.MaxPayload < 1<<10 || c.MaxPayload > 8<<20:
		return "", 0, errors.New("the payload limit is not between 1 KiB and 8 MiB")
	}
	return host, port, nil
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

// isLoopback takes no host name but localhost: what others resolve to may
// change. An empty host means every interface.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
