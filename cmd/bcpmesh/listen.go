package main

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// listening says where a mesh listens for agents, and what it shows them.
type listening struct {
	address, webSocket string
	ownTLS             bool // by the mesh's own authority
	names              []string
	cert, key          string // PEM files
	plaintext          bool   // beyond loopback without TLS
}

func (l *listening) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.address, "listen", "127.0.0.1:4222", "`HOST:PORT` for agents; port 0 means any free one")
	f.StringVar(&l.webSocket, "websocket", "", "`HOST:PORT` for agents that speak NATS over WebSocket")
	f.BoolVar(&l.ownTLS, "tls", false, "require TLS, with a certificate of the mesh's own authority")
	f.StringArrayVar(&l.names, "tls-name", nil, "with --tls: a further `HOST` that the certificate is for; may be given again")
	f.StringVar(&l.cert, "tls-cert", "", "require TLS, with the certificate in this PEM `FILE`")
	f.StringVar(&l.key, "tls-key", "", "the key of --tls-cert, a PEM `FILE`")
	f.BoolVar(&l.plaintext, "insecure-plaintext", false, "listen beyond loopback without TLS: all can be read and changed on the way")
}

func (l *listening) sealed() bool { return l.ownTLS || l.cert != "" }

// check refuses what makes no sense, before anything is made.
func (l *listening) check() error {
	switch {
	case l.ownTLS && l.cert+l.key != "":
		return usagef("up: --tls makes a certificate, and --tls-cert names one").withHint("leave out one of them")
	case (l.cert == "") != (l.key == ""):
		return usagef("up: --tls-cert and --tls-key go together")
	case len(l.names) > 0 && !l.ownTLS:
		return usagef("up: --tls-name goes with --tls")
	case l.plaintext && l.sealed():
		return usagef("up: --insecure-plaintext and TLS exclude each other").withHint("leave out --insecure-plaintext")
	}
	for _, name := range l.names {
		if net.ParseIP(name) == nil && !hostName.MatchString(name) {
			return usagef("up: --tls-name: %s is neither a host name nor an IP address", quoted(name))
		}
	}
	open := l.sealed() || l.plaintext
	if err := checkListen("--listen", l.address, open); err != nil {
		return err
	}
	if l.webSocket != "" {
		return checkListen("--websocket", l.webSocket, open)
	}
	return nil
}

// reachable reports whether another machine can reach an address.
func (l *listening) reachable() bool {
	for _, address := range []string{l.address, l.webSocket} {
		if host, _, err := net.SplitHostPort(address); err == nil && !loopback(host) {
			return true
		}
	}
	return false
}

// exposed are the flags whose address can be reached without TLS from elsewhere.
func (l *listening) exposed() []string {
	var flags []string
	for _, a := range []struct{ flag, address string }{{"--listen", l.address}, {"--websocket", l.webSocket}} {
		if host, _, err := net.SplitHostPort(a.address); err == nil && !loopback(host) && !l.sealed() {
			flags = append(flags, a.flag+" "+a.address)
		}
	}
	return flags
}

// trust is how those on this machine know the mesh.
type trust struct {
	CA   string `json:"ca,omitempty"`          // PEM file with what they trust
	Name string `json:"server_name,omitempty"` // what the certificate is for, if that is not the URL's host
}

// tls makes what the listeners show, nil for nothing.
func (l *listening) tls(state string, log hclog.Logger) (*tls.Config, trust, error) {
	switch {
	case l.ownTLS:
		authority, err := accounts.OpenAuthority(state, time.Now(), unlock())
		if err != nil {
			return nil, trust{}, authorityFailure(err, state)
		}
		names := l.allNames()
		config, err := server.IssuedTLS(func(now time.Time) (tls.Certificate, error) { return authority.Issue(names, now) }, log)
		if err != nil {
			return nil, trust{}, failf("--tls: %s", err)
		}
		return config, trust{CA: authority.File()}, nil
	case l.cert != "":
		config, err := server.FileTLS(l.cert, l.key, log)
		if err != nil {
			return nil, trust{}, failf("--tls-cert %s: %s", quoted(l.cert), reasonOf(err)).withHint("it needs a certificate and its key, as PEM files; bcpmesh up --tls makes its own")
		}
		names, err := server.NamesOf(config)
		if err != nil || len(names) == 0 {
			return nil, trust{}, failf("--tls-cert %s names no host", quoted(l.cert)).withHint("agents check the host by the certificate's subjectAltName")
		}
		t := trust{CA: absolute(l.cert)}
		if host, _, err := net.SplitHostPort(l.address); err != nil || !slices.Contains(names, host) {
			t.Name = names[0]
		}
		return config, t, nil
	}
	return nil, trust{}, nil
}

func authorityFailure(err error, state string) error {
	f := failf("--tls: %s", err)
	switch {
	case errors.Is(err, accounts.ErrUnsafe):
		return f.withHint("only you may read its key: chmod -R go= %s", state)
	case errors.Is(err, fs.ErrNotExist):
		return f.withHint("a part of it is lost: restore %s/tls from a backup, or remove it, and give agents the new certificate", state)
	}
	return f
}

// allNames are those under which this machine may be reached at the listeners.
func (l *listening) allNames() []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	for _, address := range []string{l.address, l.webSocket} {
		host, _, err := net.SplitHostPort(address)
		switch ip := net.ParseIP(host); {
		case err != nil:
		case host == "" || ip != nil && ip.IsUnspecified():
			names = append(names, machineNames()...)
		default:
			names = append(names, host)
		}
	}
	names = append(names, l.names...)
	slices.Sort(names)
	return slices.Compact(names)
}

// machineNames are this machine's host name and addresses.
func machineNames() []string {
	var names []string
	if name, err := os.Hostname(); err == nil && hostName.MatchString(name) {
		names = append(names, name)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return names
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			names = append(names, network.IP.String())
		}
	}
	return names
}

// checkListen checks an address to listen on before anything is made; open says
// that it may be one beyond loopback. Who listens has the last word on it.
func checkListen(flag, listen string, open bool) error {
	host, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return usagef("up: %s: expected HOST:PORT with a port from 0 to 65535, got %s", flag, quoted(listen)).withHint("for example %s 127.0.0.1:4222", flag)
	}
	if !open && !loopback(host) {
		return beyondLoopback(flag, listen)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func beyondLoopback(flag, listen string) *failure {
	f := failf("%s %s can be reached from other machines, and there is no TLS", flag, quoted(listen))
	if flag == "--metrics" {
		return f.withHint("listen on 127.0.0.1")
	}
	return f.withHint("add --tls, or --tls-cert and --tls-key; or listen on 127.0.0.1")
}
