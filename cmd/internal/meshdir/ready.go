package meshdir

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/home"
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
	// WebSocket is where agents connect over it, if they can.
	WebSocket string `json:"websocket,omitempty"`
	// Cluster says that the mesh is on a cluster, and has no process here.
	Cluster bool `json:"cluster,omitzero"`
	Trust
}

// Alive reports whether the mesh may still be there: its process is, and the lock of its
// state folder is held. A process that was given the number of one that was killed holds none.
func (r Ready) Alive() bool { return r.Cluster || Alive(r.PID) && locked(r.State) }

// locked reports whether a server runs on a state folder, or may.
func locked(state string) bool {
	lock := flock.New(filepath.Join(state, home.ServerLock), flock.SetFlag(os.O_RDONLY))
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
	return durable.Replace(path, append(b, '\n'), 0o600)
}
