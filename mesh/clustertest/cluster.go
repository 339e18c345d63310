//go:build unix

package clustertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// Config configures a cluster.
type Config struct {
	// Text, if set, returns additional configuration of a node, besides its
	// name, ports, store and routes. folder is the node's own.
	Text func(node int, folder string) string
	// Wire, if set, returns an address that forwards to that of a node. It is called for
	// each other node, and with from -1 for the clients, which know no other address.
	Wire func(from, to int, address string) string
	// Sync is how often stores are written to disk, as in the server's
	// configuration; empty is always.
	Sync string
}

// size is how many nodes there are.
const size = 3

// MaxStore is a node's limit for streams on its disk, in bytes.
const MaxStore = 16 << 30

// Cluster is a cluster that ends with its test. Only the test's goroutine may
// call its methods.
type Cluster struct {
	nodes []*node
}

// node is one server. It keeps its folder and its ports across restarts.
type node struct {
	name, folder, binary    string
	client, monitor, routes string // addresses
	clients                 string // the address that they know

	through []string  // the program that starts it, and its arguments; empty: none
	process *exec.Cmd // nil if it is not running
	ended   chan struct{}
}

// Start runs a cluster until the test ends, and returns once it is healthy.
func Start(t testing.TB, config Config) *Cluster {
	t.Helper()
	if config.Sync == "" {
		config.Sync = "always"
	}
	binary := Binary(t)
	c := &Cluster{}
	folder := t.TempDir()
	for i := range size {
		n := &node{name: fmt.Sprintf("node-%d", i), binary: binary, client: FreeAddress(t), monitor: FreeAddress(t), routes: FreeAddress(t)}
		n.folder = filepath.Join(folder, n.name)
		if n.clients = n.client; config.Wire != nil {
			n.clients = config.Wire(-1, i, n.client)
		}
		c.nodes = append(c.nodes, n)
	}
	for i, n := range c.nodes {
		bcptest.NoError(t, os.Mkdir(n.folder, 0o700))
		bcptest.NoError(t, os.WriteFile(n.config(), []byte(c.text(i, config)), 0o600))
	}
	t.Cleanup(func() { c.end(t) })
	for i := range c.nodes {
		c.Restart(t, i)
	}
	c.AwaitHealthy(t)
	return c
}

func (n *node) config() string { return filepath.Join(n.folder, "nats-server.conf") }

func (n *node) log() string { return filepath.Join(n.folder, "nats-server.log") }

// text is the configuration of a node.
func (c *Cluster) text(i int, config Config) string {
	n := c.nodes[i]
	var routes []string
	for j, other := range c.nodes {
		address := other.routes
		if i != j && config.Wire != nil {
			address = config.Wire(i, j, address)
		}
		if i != j {
			routes = append(routes, fmt.Sprintf("%q", "nats://"+address))
		}
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, "server_name: %q\nlisten: %q\nhttp: %q\n", n.name, n.client, n.monitor)
	if config.Wire != nil {
		fmt.Fprintf(b, "client_advertise: %q\n", n.clients)
	}
	fmt.Fprintf(b, "lame_duck_grace_period: 1s\nlame_duck_duration: 30s\n")
	// Otherwise a node would use the disk's free space when it starts.
	fmt.Fprintf(b, "jetstream: {store_dir: %q, sync_interval: %s, max_memory_store: 1GB, max_file_store: %d}\n", n.folder, config.Sync, MaxStore)
	advertise := n.routes
	if config.Wire != nil { // addresses that nodes announce must not bypass the wires
		advertise = unreachable
	}
	fmt.Fprintf(b, "cluster: {name: clustertest, listen: %q, advertise: %q, routes: [%s]}\n", n.routes, advertise, strings.Join(routes, ", "))
	if config.Text != nil {
		b.WriteString(config.Text(i, n.folder))
	}
	return b.String()
}

// unreachable is an address without a listener.
const unreachable = "127.0.0.1:1"

// Size is how many nodes there are.
func (c *Cluster) Size() int { return len(c.nodes) }

// URL returns the clients' URLs of all nodes, separated by commas.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.nodes))
	for i := range c.nodes {
		urls[i] = c.NodeURL(i)
	}
	return strings.Join(urls, ",")
}

// NodeURL returns the clients' URL of one node.
func (c *Cluster) NodeURL(i int) string { return "nats://" + c.nodes[i].clients }

// PID returns the process id of a running node.
func (c *Cluster) PID(i int) int { return c.nodes[i].process.Process.Pid }

// Store returns the folder of a node's streams.
func (c *Cluster) Store(i int) string { return filepath.Join(c.nodes[i].folder, "jetstream") }

// Through has Restart start a node by another program, such as a tracer, of which it is a
// child: only Kill ends it then. Without a program it is started as the others are.
func (c *Cluster) Through(i int, program ...string) { c.nodes[i].through = program }

// Restart starts a stopped node on its store. It does not wait for it.
func (c *Cluster) Restart(t testing.TB, i int) {
	t.Helper()
	n := c.nodes[i]
	bcptest.StopIf(t, n.process != nil, "%s runs", n.name)
	command := append(slices.Clone(n.through), n.binary, "--config", n.config(), "--log", n.log())
	n.process = exec.Command(command[0], command[1:]...)
	n.process.SysProcAttr = attached()
	bcptest.NoError(t, n.process.Start())
	n.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		_ = process.Wait() // however it ends
		close(ended)
	}(n.process, n.ended)
}

// Kill kills a node: it gets to write nothing more and to say nothing more.
func (c *Cluster) Kill(t testing.TB, i int) {
	t.Helper()
	if n := c.nodes[i]; len(n.through) > 0 && n.process != nil {
		_ = syscall.Kill(-n.process.Process.Pid, syscall.SIGKILL) // the node, with its parent
	} else {
		c.signal(t, i, syscall.SIGKILL)
	}
	c.waitForExit(t, i)
}

// Empty removes the streams of a stopped node from its disk.
func (c *Cluster) Empty(t testing.TB, i int) {
	t.Helper()
	n := c.nodes[i]
	bcptest.StopIf(t, n.process != nil, "%s runs", n.name)
	bcptest.NoError(t, os.RemoveAll(c.Store(i)))
}

// Stop ends a node with an interrupt, and waits until it has.
func (c *Cluster) Stop(t testing.TB, i int) {
	t.Helper()
	c.signal(t, i, syscall.SIGINT)
	c.waitForExit(t, i)
}

// Retire stops a node as for maintenance: it hands over its leaderships and
// closes its store (lame duck mode), and then is interrupted.
func (c *Cluster) Retire(t testing.TB, i int) {
	t.Helper()
	n := c.nodes[i]
	c.signal(t, i, syscall.SIGUSR2)
	Await(t, n.name+" to hand over", func() error {
		select {
		case <-n.ended:
			return nil
		default:
		}
		text, err := os.ReadFile(n.log())
		if err == nil && strings.LastIndex(string(text), "JetStream Shutdown") < strings.LastIndex(string(text), "lame duck mode") {
			err = fmt.Errorf("its log does not say that JetStream was shut down")
		}
		return err
	})
	_ = n.process.Process.Signal(syscall.SIGINT) // it may have ended
	c.waitForExit(t, i)
}

// Pause suspends a node: its connections stay, and nothing moves.
func (c *Cluster) Pause(t testing.TB, i int) {
	t.Helper()
	c.signal(t, i, syscall.SIGSTOP)
}

// Continue resumes a paused node.
func (c *Cluster) Continue(t testing.TB, i int) {
	t.Helper()
	c.signal(t, i, syscall.SIGCONT)
}

func (c *Cluster) signal(t testing.TB, i int, s syscall.Signal) {
	t.Helper()
	n := c.nodes[i]
	bcptest.StopIf(t, n.process == nil, "%s does not run", n.name)
	if err := n.process.Process.Signal(s); err != nil {
		t.Fatalf("%s: %v: its log ends with\n%s", n.name, err, n.lastLines())
	}
}

// waitForExit waits until a node has ended.
func (c *Cluster) waitForExit(t testing.TB, i int) {
	t.Helper()
	n := c.nodes[i]
	select {
	case <-n.ended:
		n.process = nil
	case <-time.After(Patience):
		t.Fatalf("%s does not end: its log ends with\n%s", n.name, n.lastLines())
	}
}

// end kills all nodes, and shows their logs if the test failed.
func (c *Cluster) end(t testing.TB) {
	for _, n := range c.nodes {
		if n.process != nil {
			_ = syscall.Kill(-n.process.Process.Pid, syscall.SIGKILL) // with the program that it was started through
			<-n.ended
		}
		if t.Failed() {
			t.Logf("the log of %s ends with\n%s", n.name, n.lastLines())
		}
	}
}

// lastLines is the end of a node's log: a few lines, unless -v asks for more.
func (n *node) lastLines() string {
	text, err := os.ReadFile(n.log())
	if err != nil {
		return err.Error()
	}
	most := 10
	if testing.Verbose() {
		most = 100
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
