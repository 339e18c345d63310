package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// reservedPort is an address that nobody else can take, and that refuses connections
// until listen is called.
func reservedPort(t *testing.T) (address string, listen func() net.Listener) {
	t.Helper()
	fd := must(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0))(t)
	file := os.NewFile(uintptr(fd), "reserved")
	t.Cleanup(func() { _ = file.Close() })
	noError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound := must(syscall.Getsockname(fd))(t)
	at := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: bound.(*syscall.SockaddrInet4).Port}
	return at.String(), func() net.Listener {
		noError(t, syscall.Listen(fd, 16))
		l := must(net.FileListener(file))(t)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
}

// forward connects whoever comes with another address.
func forward(l net.Listener, to string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			_ = in.Close()
			continue
		}
		for _, ends := range [][2]net.Conn{{in, out}, {out, in}} {
			go func() {
				_, _ = io.Copy(ends[0], ends[1])
				_ = ends[0].Close()
			}()
		}
	}
}

// A host may start its server before the mesh is up: the server says so, answers the host
// at once, and has its tools as soon as there is a mesh. A host that leaves meanwhile ends
// it.
func TestMCPWaitsForItsMesh(t *testing.T) {
	t.Parallel()
	m, creds := mcpFiles(t)
	address, listen := reservedPort(t)
	const told = "; waiting for it (bcpmesh up starts it)"
	start := func() (*exec.Cmd, io.WriteCloser, io.ReadCloser) {
		program := exec.Command("bcpmesh", "mcp", "--creds", creds("main"), "--url", "nats://"+address)
		in := must(program.StdinPipe())(t)
		out := must(program.StdoutPipe())(t)
		talk := must(program.StderrPipe())(t)
		noError(t, program.Start())
		line, err := bufio.NewReader(talk).ReadString('\n')
		stopIf(t, err != nil || !strings.HasSuffix(strings.TrimSpace(line), told), "it says %q, %v", line, err)
		go func() { _, _ = io.Copy(io.Discard, talk) }()
		return program, in, out
	}

	program, in, _ := start()
	noError(t, in.Close())
	expect(t, program.Wait(), nil, "its host left, and it ended with")

	program, in, out := start()
	at := must(url.Parse(m.URL()))(t)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session := must(client.Connect(t.Context(), &sdk.IOTransport{Reader: out, Writer: in}, nil))(t)
	got := session.InitializeResult()
	failIf(t, !strings.HasPrefix(got.Instructions, "You are a Controller"), "before there is a mesh it says %q", got.Instructions)
	go forward(listen(), at.Host)
	expect(t, toolsOf(t, session), "BCPBudget BCPInbox BCPQuery BCPSubscribe", "it")
	_ = session.Close() // its pipes close with the program
	expect(t, program.Wait(), nil, "it ended with")
}

// A host that leaves with queries open did nothing wrong, and no log says so: the
// queries come again.
func TestMCPEndsQuietlyWithOpenQueries(t *testing.T) {
	t.Parallel()
	m, creds := mcpFiles(t)
	session := func(name string, talk *bytes.Buffer, file string) *sdk.ClientSession {
		program := exec.Command("bcpmesh", "mcp", "--creds", file, "--url", m.URL())
		program.Stderr = talk
		client := sdk.NewClient(&sdk.Implementation{Name: name, Version: "1"}, nil)
		s := must(client.Connect(t.Context(), &sdk.CommandTransport{Command: program}, nil))(t)
		t.Cleanup(func() {
			if program.ProcessState == nil {
				_ = s.Close() // the test failed before
			}
		})
		return s
	}
	call := func(s *sdk.ClientSession, tool string, arguments map[string]any) string {
		result := must(s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments}))(t)
		return result.Content[0].(*sdk.TextContent).Text
	}
	var mine, theirs bytes.Buffer
	main := session("main", &mine, creds("main"))
	reader := session("researcher", &theirs, creds("researcher"))
	asked := call(main, "BCPQuery", map[string]any{"target": "researcher", "category": 1, "fields": []any{map[string]any{"name": "urgent", "type": "boolean"}}})
	waits := call(reader, "BCPQueries", map[string]any{"wait_seconds": 50})
	stopIf(t, !strings.Contains(waits, `"query_id":"q`), "%s, and then %s", asked, waits)
	for _, s := range []*sdk.ClientSession{reader, main} {
		err := s.Close()
		failIf(t, err != nil, "%v", err)
	}
	for _, talk := range []string{mine.String(), theirs.String()} {
		failIf(t, strings.Contains(talk, "ERROR"), "a host left, and the log says %s", talk)
	}
}
