package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// bait is what a program can reach that the mesh does not confine. The tests of agents/process try much more.
type bait struct {
	Folder   string `json:"folder"` // with the file secret
	TCP      string `json:"tcp"`
	UDP      string `json:"udp"`
	Unix     string `json:"unix"`
	Abstract string `json:"abstract"`
	Process  int    `json:"process"` // of the same user
}

// newBait lays bait in an empty folder. end closes its sockets.
func newBait(folder string) (b bait, end func(), err error) {
	b = bait{Folder: folder, Unix: filepath.Join(folder, "stream"), Abstract: fmt.Sprintf("@bcpmesh-bait-%d-%d", os.Getpid(), time.Now().UnixNano()), Process: os.Getpid()}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	udp, err2 := net.ListenPacket("udp", "127.0.0.1:0")
	unix, err3 := net.Listen("unix", b.Unix)
	abstract, err4 := net.Listen("unix", b.Abstract)
	if err := errors.Join(err, err2, err3, err4, os.WriteFile(filepath.Join(folder, "secret"), []byte("x"), 0o600)); err != nil {
		return b, nil, err
	}
	b.TCP, b.UDP = tcp.Addr().String(), udp.LocalAddr().String()
	return b, func() {
		for _, c := range []io.Closer{tcp, udp, unix, abstract} {
			_ = c.Close() // nothing was written
		}
	}, nil
}

// reached tries to reach the bait, and returns the names of the attempts that did.
func (b bait) reached() (names []string) {
	dial := func(network, address string) error {
		conn, err := net.DialTimeout(network, address, 10*time.Second)
		if err != nil {
			return err
		}
		_, err = conn.Write([]byte("x"))
		return errors.Join(err, conn.Close())
	}
	for _, attempt := range []struct {
		name string
		try  func() error
	}{
		{"read-file", func() error { _, err := os.ReadFile(filepath.Join(b.Folder, "secret")); return err }},
		{"list-folder", func() error { _, err := os.ReadDir(b.Folder); return err }},
		{"read-environment", func() error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", b.Process)); return err }},
		{"write-file", func() error { return os.WriteFile(filepath.Join(b.Folder, "written"), nil, 0o600) }},
		{"tcp", func() error { return dial("tcp", b.TCP) }},
		{"udp", func() error { return dial("udp", b.UDP) }},
		{"unix", func() error { return dial("unix", b.Unix) }},
		{"unix-abstract", func() error { return dial("unix", b.Abstract) }},
		{"listen", func() error {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			return listener.Close()
		}},
		{"signal", func() error {
			process, err := os.FindProcess(b.Process)
			if err != nil {
				return err
			}
			return process.Signal(syscall.Signal(0))
		}},
	} {
		if attempt.try() == nil {
			names = append(names, attempt.name)
		}
	}
	return names
}
