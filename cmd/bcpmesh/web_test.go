package main

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// browser is a person who is logged in.
type browser struct {
	base   string
	place  string // of the pages of its session
	client *http.Client
}

var loginAddress = regexp.MustCompile(`log in at (http://localhost:[0-9]+)/login\?code=([A-Z2-7]+)`)

// serving runs a command until stop, and returns what it says that matches.
func serving(t *testing.T, says *regexp.Regexp, args ...string) (found []string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bcptest.Log
	ended := make(chan int, 1)
	go func() { ended <- runCommandLine(ctx, args, strings.NewReader(""), io.Discard, &stderr, none) }()
	stop = sync.OnceFunc(func() {
		cancel()
		code := <-ended
		failIf(t, code != cli.ExitOK, "%v ends with %d: %s", args, code, stderr.String())
	})
	t.Cleanup(stop)
	for deadline := time.Now().Add(clustertest.Patience); found == nil; time.Sleep(10 * time.Millisecond) {
		if found = says.FindStringSubmatch(stderr.String()); found == nil && time.Now().After(deadline) {
			t.Fatalf("no %s: %s", says, stderr.String())
		}
	}
	return found, stop
}

// browse runs a command that serves pages until stop, and logs in with the address that
// it shows.
func browse(t *testing.T, args ...string) (b *browser, stop func()) {
	t.Helper()
	address, stop := serving(t, loginAddress, args...)
	jar := must(cookiejar.New(nil))(t)
	b = &browser{address[1], "", &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}, Timeout: clustertest.Patience}}
	reply := must(b.client.PostForm(b.base+"/login", url.Values{"token": {address[2]}}))(t)
	if err := reply.Body.Close(); err != nil || reply.StatusCode != http.StatusOK || strings.Count(reply.Request.URL.Path, "/") != 2 {
		t.Fatalf("logging in: %d at %s, %v", reply.StatusCode, reply.Request.URL, err)
	}
	b.place = strings.TrimSuffix(reply.Request.URL.Path, "/")
	return b, stop
}

func (b *browser) get(t *testing.T, path string) (int, string) {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, b.at(path), nil))(t)
	return b.do(t, request)
}

// at is the address of a path: in the place of the session, but for those that are in none.
func (b *browser) at(path string) string {
	if strings.HasPrefix(path, "/login") || strings.HasPrefix(path, "/enrol") || strings.HasPrefix(path, "/assets/") {
		return b.base + path
	}
	return b.base + b.place + path
}

func (b *browser) do(t *testing.T, request *http.Request) (int, string) {
	t.Helper()
	reply := must(b.client.Do(request))(t)
	content, err := io.ReadAll(reply.Body)
	stopIf(t, err != nil || reply.Body.Close() != nil, "%v", err)
	return reply.StatusCode, string(content)
}

// sees waits until a page has all of some texts.
func (b *browser) sees(t *testing.T, path string, texts ...string) string {
	t.Helper()
	var page string
	for deadline := time.Now().Add(clustertest.Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		missing := false
		_, page = b.get(t, path)
		for _, text := range texts {
			missing = missing || !strings.Contains(page, text) && !strings.Contains(html.UnescapeString(page), text)
		}
		if !missing {
			return page
		}
	}
	t.Fatalf("%s does not show %q: %s", path, texts, page)
	return ""
}

// Pages show what happens in a mesh that serves them itself: channels with both counts
// and what is left, the audit, why a push was refused, and how agents are. Nothing that
// was said is on any of them.
//
// covers P2.5, P11.1
func TestPagesOfAMesh(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "office")
	succeed(t, "init", dir)
	b, _ := browse(t, "up", dir, "--listen", "127.0.0.1:0", "--web", "localhost:0")
	if got := execute(t, "", "web", "--dir", dir, "--listen", strings.TrimPrefix(b.base, "http://")); got.code != cli.ExitFailed || !strings.Contains(got.stderr, "another program uses that port") {
		t.Errorf("a port that is taken: %+v", got)
	}
	succeed(t, "publish", "main", "research-alerts", `{"has_breaking_news": true, "priority": "high"}`, "--dir", dir)
	got := execute(t, "", "publish", "main", "research-alerts", `{"has_breaking_news": "kanarienvogel", "priority": "high"}`, "--dir", dir)
	stopIf(t, got.code != cli.ExitRefused, "%+v", got)
	b.sees(t, "/", "main ← researcher", "3 of 1000", "<svg", ">reject<", "0 of 2")
	b.sees(t, "/channels/main/researcher", "budget_bits", "997", "research-alerts")
	page := b.sees(t, "/audit?kind=push&verdict=reject", ">reject<")
	refused := regexp.MustCompile(`href="/[A-Z2-7]{26}(/decisions/[0-9]+)"`).FindStringSubmatch(page)
	stopIf(t, refused == nil, "no decision in %s", page)
	b.sees(t, refused[1], "Rules that were looked at", "refuses", "P3.1")
	b.sees(t, "/agents", "researcher", "not connected")
	b.sees(t, "/sessions", "main")
	b.sees(t, "/proof", "Newest checkpoint", "bcpmesh audit verify FILE")
	for _, path := range []string{"/", "/agents", "/agents/main", "/agents/researcher", "/sessions", "/audit", "/alerts", "/ids/x", "/sessions/x", "/channels/main/researcher", refused[1]} {
		if status, page := b.get(t, path); status != http.StatusOK || strings.Contains(page, "kanarienvogel") {
			t.Errorf("%s: %d, or it has what was said", path, status)
		}
	}
}

// Pages of a mesh elsewhere need an auditor's creds alone, and say what these do not
// show. When the mesh goes they say so, and show it again when it is back; in the
// folder of the mesh also if it is back at another address.
//
// covers P11.1
func TestPagesOfAMeshElsewhere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "office")
	succeed(t, "init", dir)
	at, stop := startMesh(t, dir)
	creds := filepath.Join(t.TempDir(), "alice.creds")
	succeed(t, "creds", "issue", "alice", "--role", "auditor", "--dir", dir, "--out", creds)
	remote, _ := browse(t, "web", "--listen", "localhost:0", "--creds", creds, "--url", at)
	remote.sees(t, "/channels/main/researcher", "budget_bits", "1000")
	remote.sees(t, "/agents", "researcher", "are for the owner of the state folder")
	remote.sees(t, "/proof", "with the owner of the state folder")

	local, end := browse(t, "web", "--listen", "localhost:0", "--dir", dir)
	local.sees(t, "/agents", "not connected")
	stop()
	remote.sees(t, "/", "cannot be reached", "main ← researcher")
	local.sees(t, "/", "cannot be reached")
	startMesh(t, dir)
	checkpoint := succeed(t, "audit", "export", "--checkpoint", "--dir", dir)
	local.sees(t, "/proof", strings.Split(checkpoint, "\n")[2], "records")
	_, page := local.get(t, "/")
	for deadline := time.Now().Add(clustertest.Patience); strings.Contains(page, "cannot be reached"); time.Sleep(50 * time.Millisecond) {
		stopIf(t, time.Now().After(deadline), "the mesh is back, and the page says %s", page)
		_, page = local.get(t, "/")
	}
	end()
}
