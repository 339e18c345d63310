package redteam

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// listening returns the ports where this process listens for TCP, as another process of
// its user may find them. Only Linux says it in files.
func (r *Rig) listening() (ports []string) {
	sockets := map[string]bool{}
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		r.abandon("the open files: %v", err)
	}
	for _, file := range files {
		target, _ := os.Readlink(file) // it may be closed by now
		sockets[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.abandon("the open ports: %v", err)
		}
		for line := range strings.Lines(string(text)) {
			const local, state, inode, listens = 1, 3, 9, "0A"
			fields := strings.Fields(line)
			if len(fields) <= inode || fields[state] != listens || !sockets[fields[inode]] {
				continue
			}
			port, err := strconv.ParseUint(fields[local][strings.LastIndexByte(fields[local], ':')+1:], 16, 16)
			if err != nil {
				r.abandon("the open ports: %v", err)
			}
			ports = append(ports, strconv.FormatUint(port, 10))
		}
	}
	return ports
}

// proxied dials and says, as a proxy does, for whom.
type proxied string

func (p proxied) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, patience)
	if err == nil {
		_, err = conn.Write([]byte(p))
	}
	return conn, err
}

// aroundTheEntrance looks with an agent's own creds for another way to the server than
// the entrance, and for one where it may say who it is.
func (r *Rig) aroundTheEntrance() {
	at, err := url.Parse(r.Mesh().URL())
	if err != nil {
		r.abandon("%v", err)
	}
	ports := r.listening()
	if len(ports) == 0 {
		r.skip("this system does not say where a process listens")
	}
	creds := r.Creds(mailer, bcp.RoleReader)
	for _, port := range ports {
		for _, says := range []string{"", "PROXY TCP4 203.0.113.9 127.0.0.1 1 1\r\n", "PROXY UNKNOWN\r\n"} {
			for _, scheme := range []string{"nats", "ws"} {
				if port == at.Port() && says == "" {
					continue // the entrance itself
				}
				conn, err := nats.Connect(scheme+"://127.0.0.1:"+port, nats.UserCredentialBytes(creds), nats.NoReconnect(), nats.Timeout(10*time.Second), nats.SetCustomDialer(proxied(says)))
				if err == nil {
					conn.Close()
					r.Broken("an agent came in at port %s by %s, saying %q: clients are let in at %s", port, scheme, says, at.Port())
				}
			}
		}
	}
}
