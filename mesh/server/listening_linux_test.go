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
	"github.com/bcpmesh/bcpmesh/subjects"
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
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const state, inode, listens = 3, 9, "0A"
			fields := strings.Fields(line)
			if len(fields) <= inode || fields[state] != listens || !sockets[fields[inode]] {
				continue
			}
			var port int
			if _, err := fmt.Sscanf(fields[1][strings.LastIndexByte(fields[1], ':')+1:], "%x", &port); err != nil {
				t.Fatal(err)
			}
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
// nowhere: nothing believes what it says of where it comes from, and its answers go to
// no other agent.
//
// It is not parallel: it finds what all tests have open.
//
// covers A-FLOODRESP, A-REPLYPEER, A-FWD
func TestNoWayAroundTheEntrance(t *testing.T) {
	b := start(t, way{webSocket: true})
	creds := b.issue("researcher", bcp.RoleReader)
	at := listening(t)
	if len(at) != 2 {
		t.Errorf("it listens at %s", at)
	}
	foreign := listen(t, b.connect("mailer", bcp.RoleReader).Conn, subjects.InboxPrefix("mailer")+".>")
	entered := 0
	for _, address := range at {
		for _, scheme := range []string{"nats://", "ws://"} {
			for _, says := range []claims{"", "PROXY TCP4 203.0.113.9 127.0.0.1 1 1\r\n", "PROXY UNKNOWN\r\n"} {
				refused := make(chan error, 16)
				nc, err := nats.Connect(scheme+address, nats.UserCredentialBytes(creds.Text()), nats.NoReconnect(), nats.Timeout(patience),
					nats.SetCustomDialer(says), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
				if err != nil {
					continue
				}
				if says != "" {
					t.Errorf("%s believes %q", address, says)
				}
				entered++
				if err := nc.PublishRequest(subjects.Push("researcher", "main", "alerts"), subjects.InboxPrefix("mailer")+".x", nil); err != nil {
					t.Error(err)
				}
				flush(t, nc)
				if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
					t.Error(err)
				}
				nc.Close()
			}
		}
	}
	if got := foreign(); entered != 2 || len(got) > 0 {
		t.Errorf("it came in %d ways, and %d messages went to another", entered, len(got))
	}
}
