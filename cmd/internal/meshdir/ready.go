package meshdir

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// Known is the URL of a mesh under a name that its certificate is for.
func (r Ready) Known() string {
	u, err := url.Parse(r.URL)
	if err != nil || r.Name == "" {
		return r.URL
	}
	u.Host = net.JoinHostPort(r.Name, u.Port())
	return u.String()
}

// Ready is what a running mesh tells about itself: in the ready file, and in
// the state folder for the client commands.
type Ready struct {
	URL     string `json:"url"`
	State   string `json:"state"`
	PID     int    `json:"pid"`
	Metrics string `json:"metrics,omitempty"` // where they are, if they are served
	Traces  string `json:"traces,omitempty"`  // where they go, if they are sent
	Web     string `json:"web,omitempty"`     // where pages for people are, if they are served
	// Cluster says that the mesh is on a cluster, and has no process here.
	Cluster bool `json:"cluster,omitzero"`
	Trust
}

// Alive reports whether the mesh may still be there: its process is, and the lock of its
// state folder is held. A process that was given the number of one that was killed holds none.
func (r Ready) Alive() bool { return r.Cluster || Alive(r.PID) && locked(r.State) }

// locked reports whether a server runs on a state folder, or may.
func locked(state string) bool {
	lock := flock.New(filepath.Join(state, server.ServerLock), flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLock()
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	_ = lock.Close()
	return !free
}

// MeshName names a mesh in a sentence; "mesh" is the name of one that has none.
func MeshName(def *bcp.Mesh) string {
	if def.Name == "mesh" {
		return "the mesh"
	}
	return "mesh " + def.Name
}

// PrepareReady refuses a ready file that could not be written, and removes the
// one of a mesh that was killed, so that nobody takes it for ours.
func PrepareReady(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parent, err := os.Stat(filepath.Dir(path))
		if err == nil && !parent.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return cli.Failf("--ready-file %s: its folder: %s", cli.Quoted(path), cli.FileReason(err))
		}
		return nil
	case err != nil:
		return cli.Failf("--ready-file %s: %s", cli.Quoted(path), cli.FileReason(err))
	case !info.Mode().IsRegular():
		return cli.Failf("--ready-file %s is there, and is not a file", cli.Quoted(path))
	}
	if about, err := readReady(path); err == nil && !Alive(about.PID) {
		_ = os.Remove(path) // it is written anew in any case
	}
	return nil
}

// Alive reports whether a process with this number is there, ours or not.
func Alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	return !errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// readReady reads what WriteReady wrote.
func readReady(path string) (Ready, error) {
	content, err := cli.ReadSmall(path)
	if err != nil {
		return Ready{}, err
	}
	var about Ready
	return about, json.Unmarshal(content, &about, json.RejectUnknownMembers(true))
}

// RemoveReady removes what this process wrote. A mesh that took the same folder meanwhile has written its own.
func RemoveReady(path string) {
	if about, err := readReady(path); err == nil && about.PID == os.Getpid() {
		_ = os.Remove(path)
	}
}

// WriteReady writes the file whole or not at all.
func WriteReady(path string, about any) error {
	if path == "" {
		return nil
	}
	b, err := json.Marshal(about)
	if err != nil {
		return err
	}
	return disk.Replace(path, append(b, '\n'), 0o600)
}

// HostName matches the name of a host, as certificates carry it.
var HostName = regexp.MustCompile(`^(?i:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(?i:\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// Options are those of a connection that trusts this alone. Where there is
// nothing, the system's authorities are trusted.
func (t Trust) Options() ([]nats.Option, error) {
	roots, err := t.Roots()
	if roots == nil {
		return nil, err
	}
	return []nats.Option{nats.Secure(&tls.Config{RootCAs: roots, ServerName: t.Name, MinVersion: tls.VersionTLS13})}, nil
}

// Roots is what it trusts, nil for what the system does.
func (t Trust) Roots() (*x509.CertPool, error) {
	if t.CA == "" {
		return nil, nil
	}
	_, roots, err := accounts.ReadAuthority(t.CA)
	if err != nil {
		return nil, cli.Failf("the certificate %s cannot be used: %s", cli.Quoted(t.CA), cli.FileReason(err)).WithHint("it is a PEM file; the operator has it, at the path that bcpmesh up shows")
	}
	return roots, nil
}

// Trust is how those on this machine know the mesh.
type Trust struct {
	CA   string `json:"ca,omitempty"`          // PEM file with what they trust
	Name string `json:"server_name,omitempty"` // what the certificate is for, if that is not the URL's host
}

// StandardURL is where `bcpmesh up` serves unless told otherwise.
const StandardURL = "nats://127.0.0.1:4222"

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
	if !open && !guard.Loopback(host) {
		return BeyondLoopback(flag, listen)
	}
	return nil
}

// BeyondLoopback is the failure of a listener that others would reach unencrypted.
func BeyondLoopback(flag, listen string) *cli.Failure {
	if flag == "--metrics" {
		return cli.Failf("%s %s can be reached from other machines, and there is no token", flag, cli.Quoted(listen)).WithHint("add --token-file FILE, or listen on 127.0.0.1")
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
