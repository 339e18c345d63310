package meshdir

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"syscall"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// StandardURL is where `bcpmesh up` serves unless told otherwise.
const StandardURL = "nats://127.0.0.1:4222"

// MeshURL reads the URL of a mesh.
func MeshURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err == nil {
		_, _, err = net.SplitHostPort(u.Host)
	}
	if err != nil || u.Scheme != "nats" && u.Scheme != "tls" && u.Scheme != "ws" && u.Scheme != "wss" {
		return nil, cli.Usagef("--url: expected a URL such as tls://mesh.example.org:4222, got %s", cli.Quoted(text))
	}
	return u, nil
}

// CheckListen checks an address to listen on before anything is made; open says
// that it may be one beyond loopback. Who listens has the last word on it.
func CheckListen(flag, listen string, open bool) error {
	host, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return cli.Usagef("up: %s: expected HOST:PORT with a port from 0 to 65535, got %s", flag, cli.Quoted(listen)).WithHint("for example %s 127.0.0.1:4222", flag)
	}
	if !open && !Loopback(host) {
		return BeyondLoopback(flag, listen)
	}
	return nil
}

// Loopback reports whether host is this machine alone.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// BeyondLoopback is the failure of a listener that others would reach unencrypted.
func BeyondLoopback(flag, listen string) *cli.Failure {
	if flag == "--metrics" {
		return cli.Failf("%s %s can be reached from other machines, and there is no token", flag, cli.Quoted(listen)).WithHint("add --metrics-token FILE, or listen on 127.0.0.1")
	}
	f := cli.Failf("%s %s can be reached from other machines, and there is no TLS", flag, cli.Quoted(listen))
	return f.WithHint("add --tls, or --tls-cert and --tls-key; or listen on 127.0.0.1")
}

// PortTaken looks whether that is why a server did not start.
func PortTaken(listen string) bool {
	l, err := net.Listen("tcp", listen)
	if err == nil {
		_ = l.Close() // it was only tried
	}
	return errors.Is(err, syscall.EADDRINUSE)
}
