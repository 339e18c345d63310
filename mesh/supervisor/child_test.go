//go:build unix

package supervisor

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The programs of these tests are this binary under other words (they end by
// syscall.Exit, since os.Exit takes a second under the race detector): `exit N`
// ends at once, `child SOCKET [WORD]` connects to the test and does what it is told,
// `mesh SOCKET` supervises a child and nothing else.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "exit":
			code, _ := strconv.Atoi(os.Args[2])
			syscall.Exit(code)
		case "child":
			runChild(os.Args[2])
		case "mesh":
			New(Config{}).Set([]Program{program("agent", "child", os.Args[2])})
			select {}
		}
	}
	goleak.VerifyTestMain(m)
}

func program(agent bcp.AgentName, words ...string) Program {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Program{Agent: agent, Command: append([]string{self}, words...)}
}

// hello is what a child says first.
type hello struct {
	PID, Group int
	Session    string // Linux: its session's id
	Args, Env  []string
	Dir        string
	Stdin      string // what it read there
	Files      []string
	Terminal   bool // /dev/tty can be opened
}

func runChild(socket string) {
	h := hello{PID: os.Getpid(), Group: syscall.Getpgrp(), Args: os.Args[1:], Env: os.Environ(), Files: openFiles()}
	h.Dir, _ = os.Getwd()
	if stat, err := os.ReadFile("/proc/self/stat"); err == nil {
		// pid (name) state ppid pgrp session
		_, rest, _ := strings.Cut(string(stat), ") ")
		h.Session = strings.Fields(rest)[3]
	}
	stdin, err := io.ReadAll(os.Stdin)
	h.Stdin = fmt.Sprintf("%q %v", stdin, err)
	if tty, err := os.Open("/dev/tty"); err == nil {
		h.Terminal = true
		_ = tty.Close()
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		syscall.Exit(90)
	}
	if json.NewEncoder(conn).Encode(h) != nil {
		syscall.Exit(91)
	}
	orders := bufio.NewScanner(conn)
	orders.Buffer(nil, 1<<26)
	for orders.Scan() {
		obey(strings.Fields(orders.Text()))
		if _, err := io.WriteString(conn, "done\n"); err != nil {
			syscall.Exit(92)
		}
	}
	syscall.Exit(93) // the test is over
}

// openFiles are those beyond the three that everybody has, but for what the
// runtime opens itself.
func openFiles() []string {
	entries, _ := os.ReadDir("/proc/self/fd")
	var files []string
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if fd, _ := strconv.Atoi(entry.Name()); err != nil || fd <= 2 || strings.HasPrefix(target, "anon_inode:") || strings.HasPrefix(target, "/sys/fs/cgroup/") {
			continue
		}
		if strings.HasPrefix(target, "/proc/") && strings.HasSuffix(target, "/fd") {
			continue
		}
		files = append(files, target)
	}
	return files
}

func obey(order []string) {
	switch order[0] {
	case "exit":
		code, _ := strconv.Atoi(order[1])
		syscall.Exit(code)
	case "ignore": // SIGTERM
		signal.Ignore(syscall.SIGTERM)
	case "fork": // a child of its own, which holds its output open
		fork(&syscall.SysProcAttr{})
	case "leave": // the same, and out of the process group
		fork(&syscall.SysProcAttr{Setsid: true})
	case "print": // a stream, and what to print there
		text, _ := base64.StdEncoding.DecodeString(order[2])
		to := os.Stdout
		if order[1] == "stderr" {
			to = os.Stderr
		}
		_, _ = to.Write(text)
	case "close": // both streams
		_ = os.Stdout.Close()
		_ = os.Stderr.Close()
	}
}

func fork(attributes *syscall.SysProcAttr) {
	cmd := exec.Command(os.Args[0], os.Args[1], os.Args[2])
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, attributes
	if cmd.Start() != nil {
		syscall.Exit(94)
	}
}

// switchboard is where children connect to.
type switchboard struct {
	t      *testing.T
	path   string
	listen *net.UnixListener
}

func newSwitchboard(t *testing.T) *switchboard {
	t.Helper()
	// The path of a socket is short, that of t.TempDir may not be.
	folder := must(os.MkdirTemp("", "s"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "s")
	listen := must(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	t.Cleanup(func() { _ = listen.Close() })
	return &switchboard{t, path, listen}
}

// child is a process that has connected.
type child struct {
	hello
	t      *testing.T
	conn   net.Conn
	answer *bufio.Reader
}

// accept waits for the next child.
func (s *switchboard) accept() *child {
	s.t.Helper()
	noError(s.t, s.listen.SetDeadline(time.Now().Add(patience)))
	conn, err := s.listen.Accept()
	stopIf(s.t, err != nil, "no child came: %v", err)
	s.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &child{t: s.t, conn: conn, answer: bufio.NewReader(conn)}
	line, err := c.answer.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c.hello)
	}
	stopIf(s.t, err != nil, "a child said no hello: %v", err)
	return c
}

// tell gives an order.
func (c *child) tell(order string) {
	c.t.Helper()
	_, err := io.WriteString(c.conn, order+"\n")
	stopIf(c.t, err != nil, "telling %q: %v", order, err)
}

// do gives an order and waits until it was done, which also shows that the
// child lives.
func (c *child) do(order string) {
	c.t.Helper()
	c.tell(order)
	line, err := c.answer.ReadString('\n')
	stopIf(c.t, line != "done\n", "after %q: %q, %v", order, line, err)
}

func (c *child) print(stream, text string) {
	c.t.Helper()
	c.do("print " + stream + " " + base64.StdEncoding.EncodeToString([]byte(text)))
}

// gone waits until the process has ended: nothing else closes its connection.
func (c *child) gone() {
	c.t.Helper()
	stopIf(c.t, !c.isGone(), "process %d lives on", c.PID)
}

func (c *child) isGone() bool {
	_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	_, err := c.answer.ReadByte()
	return err != nil && !os.IsTimeout(err)
}
