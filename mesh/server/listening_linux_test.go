package server_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// listening returns where this process listens for TCP.
func listening(t *testing.T) (addresses []string) {
	t.Helper()
	sockets := map[string]bool{}
	for _, file := range must(filepath.Glob("/proc/self/fd/*")) {
		target, _ := os.Readlink(file) // it may be closed by now
		sockets[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
	}
	for table, host := range map[string]string{"/proc/self/net/tcp": "127.0.0.1", "/proc/self/net/tcp6": "::1"} {
		text, err := os.ReadFile(table)
		stopIf(t, err != nil && !errors.Is(err, os.ErrNotExist), "%v", err)
		for line := range strings.Lines(string(text)) {
			const state, inode, listens = 3, 9, "0A"
			fields := strings.Fields(line)
			if len(fields) <= inode || fields[state] != listens || !sockets[fields[inode]] {
				continue
			}
			var port int
			must(fmt.Sscanf(fields[1][strings.LastIndexByte(fields[1], ':')+1:], "%x", &port))
			addresses = append(addresses, net.JoinHostPort(host, fmt.Sprint(port)))
		}
	}
	return addresses
}

// claims dials as a stock client behind a proxy does.
type claims string

func (c claims) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	if err != nil || c == "" {
		return conn, err
	}
	// The server speaks first.
	if _, err = conn.Write([]byte(c)); err != nil {
		conn.Close()
	}
	return conn, err
}

// Whatever listens on this machine, an agent with its creds is at the entrance or
// nowhere: nothing believes what it says of where it comes from.
//
// It is not parallel: it finds what all tests have open.
//
// covers A-FLOODRESP, A-FWD
func TestNoWayAroundTheEntrance(t *testing.T) {
	b := start(t)
	creds := b.issue("researcher", bcp.RoleReader)
	at := listening(t)
	expect(t, len(at), 1, "it listens at %s", at)
	entered := 0
	for _, address := range at {
		for _, scheme := range []string{"nats://", "ws://"} {
			for _, says := range []claims{"", "PROXY TCP4 203.0.113.9 127.0.0.1 1 1\r\n", "PROXY UNKNOWN\r\n"} {
				nc, err := nats.Connect(scheme+address, nats.UserCredentialBytes(creds.Text()), nats.NoReconnect(), nats.Timeout(patience),
					nats.SetCustomDialer(says))
				if err != nil {
					continue
				}
				expect(t, says, "", "%s believes", address)
				entered++
				nc.Close()
			}
		}
	}
	failIf(t, entered != 1, "it came in %d ways", entered)
}
