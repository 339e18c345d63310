package mailbox

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goimap "github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	user = "anna@example.org"
	key  = `canary-"of"\the-key`
)

// certificate is that of the name example.com, and the pool that believes it.
var certificate = sync.OnceValues(func() (tls.Certificate, *x509.CertPool) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.TLS.Certificates[0], roots
})

// here resolves every name to this machine.
type here struct{}

func (here) Lookup(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// quick are the limits of always with a quick clock.
func quick() copyLimits {
	l := defaults()
	l.silence, l.poll = 20*time.Second, time.Millisecond
	return l
}

// options are those of a copier of a server at an address.
func options(t testing.TB, address, folder string, l copyLimits) (CopyOptions, *bcptest.Log) {
	t.Helper()
	_, roots := certificate()
	_, port, err := net.SplitHostPort(address)
	noError(t, err)
	server := must(guard.ParseMailServer("imaps://" + user + "@example.com:" + port + "/INBOX"))
	policy, _ := guard.ParsePolicy([]string{"example.com:" + port})
	out := &bcptest.Log{}
	return CopyOptions{
		Server: server, Key: func() (string, error) { return key, nil }, Folder: folder, Logger: hclog.New(&hclog.LoggerOptions{Output: out}), limits: l,
		Dialer: &fetch.Dialer{
			Policy: func() guard.Policy { return policy }, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: here{}, Roots: roots,
		},
	}, out
}

func copier(t testing.TB, address, folder string, l copyLimits) (*Copier, *bcptest.Log) {
	t.Helper()
	o, out := options(t, address, folder, l)
	c := must(NewCopier(o))
	return c, out
}

// once connects and looks once.
func once(t testing.TB, c *Copier) error {
	t.Helper()
	s, closed, err := c.connect(t.Context())
	if err != nil {
		return err
	}
	defer closed()
	return c.pass(s)
}

// real is a server that is not ours, with a mailbox of a user.
type real struct {
	t       testing.TB
	address string
	user    *imapmemserver.User
	heard   *bcptest.Log // what clients said and what it answered
}

func realServer(t testing.TB, messages ...string) *real {
	t.Helper()
	r := &real{t: t, user: imapmemserver.NewUser(user, key), heard: &bcptest.Log{}}
	noError(t, r.user.Create("INBOX", nil))
	mem := imapmemserver.New()
	mem.AddUser(r.user)
	server := imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return mem.NewSession(), nil, nil
		},
		InsecureAuth: true, DebugWriter: r.heard, Logger: log.New(io.Discard, "", 0),
	})
	ours, _ := certificate()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{ours}, NextProtos: []string{"imap"}})
	noError(t, err)
	r.address = listener.Addr().String()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	r.add(messages...)
	return r
}

func (r *real) add(messages ...string) {
	r.t.Helper()
	for _, m := range messages {
		must(r.user.Append("INBOX", literal{strings.NewReader(m)}, &goimap.AppendOptions{}))
	}
}

// remove removes the messages of a range of numbers.
func (r *real) remove(set string) {
	r.t.Helper()
	s := imapmemserver.NewUserSession(r.user)
	must(s.Select("INBOX", &goimap.SelectOptions{}))
	var uids goimap.UIDSet
	for text := range strings.SplitSeq(set, ",") {
		uid := must(strconv.Atoi(text))
		uids.AddNum(goimap.UID(uid))
	}
	noError(r.t, s.Store(nil, uids, &goimap.StoreFlags{Op: goimap.StoreFlagsAdd, Silent: true, Flags: []goimap.Flag{goimap.FlagDeleted}}, nil))
	noError(r.t, s.Expunge(nil, nil))
	noError(r.t, s.Close())
}

type literal struct{ *strings.Reader }

func (l literal) Size() int64 { return l.Reader.Size() }

// inMaildir returns the messages of a Maildir in the order of their names.
func inMaildir(t testing.TB, folder string) []string {
	t.Helper()
	entries := must(os.ReadDir(filepath.Join(folder, newFolder)))
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
	var all []string
	for _, e := range entries {
		b := must(os.ReadFile(filepath.Join(folder, newFolder, e.Name())))
		all = append(all, string(b))
	}
	return all
}

// mail is a message of a number.
func mail(n int) string {
	return fmt.Sprintf("From: Bo <bo@example.net>\r\nSubject: Message %d\r\nDate: Mon, 02 Mar 2026 08:05:10 +0000\r\n\r\n%s\r\n", n, strings.Repeat(fmt.Sprintf("Line of %d. ", n), 1+n%40))
}

func mails(from, to int) (all []string) {
	for n := from; n <= to; n++ {
		all = append(all, mail(n))
	}
	return all
}

// scripted is a server that says what it likes to each connection.
func scripted(t testing.TB, serve func(t testing.TB, c *client)) (address string) {
	t.Helper()
	ours, _ := certificate()
	listener := must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{ours}}))
	var working sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	working.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			working.Go(func() {
				defer func() { _ = conn.Close() }()
				serve(t, &client{Conn: conn, r: bufio.NewReader(conn)})
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		working.Wait()
	})
	return listener.Addr().String()
}

// client is who talks with a scripted server.
type client struct {
	net.Conn
	r     *bufio.Reader
	heard string // the last command
}

// say writes lines, which may be refused: a client leaves when it likes.
func (c *client) say(format string, args ...any) bool {
	_, err := fmt.Fprintf(c, format+"\r\n", args...)
	return err == nil
}

// hear reads a command, and returns its tag and the rest.
func (c *client) hear() (tag, command string) {
	line, _ := c.r.ReadString('\n')
	tag, c.heard, _ = strings.Cut(strings.TrimSpace(line), " ")
	return tag, c.heard
}

// recorded is a connection to a server that says what it said before, and hears nothing.
type recorded struct {
	net.Conn
	r io.Reader
}

func (r *recorded) Read(b []byte) (int, error)       { return r.r.Read(b) }
func (r *recorded) Write(b []byte) (int, error)      { return len(b), nil }
func (r *recorded) SetReadDeadline(time.Time) error  { return nil }
func (r *recorded) SetWriteDeadline(time.Time) error { return nil }

func must[T any](v T, err error) T { return bcptest.Must(v, err) }
