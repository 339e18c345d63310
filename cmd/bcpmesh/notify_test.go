package main_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/mesh/notify/notifytest"
)

// put writes a file of a folder, and the folders on the way to it.
func put(t *testing.T, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Something that is held reaches a webhook, a mail server and a command; also when all three
// refuse it at first and the mesh is killed in between.
//
// covers P4.6, A-CRASH
func TestNotificationsOutliveAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var refuse atomic.Bool
	var posts atomic.Int64
	tried := make(chan struct{}, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		switch {
		case refuse.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
			select {
			case tried <- struct{}{}:
			default:
			}
		case err == nil && strings.Contains(string(b), `"item_held"`) && r.Header.Get("Idempotency-Key") != "":
			posts.Add(1)
		}
	}))
	defer hook.Close()
	mails := notifytest.NewMailServer(t)
	put(t, dir, "hook.url", hook.URL+"\n")
	put(t, dir, "mesh.yaml", fmt.Sprintf(`notify:
  - {name: hook, webhook: "file:hook.url"}
  - {name: mail, mail_server: %q, mail_from: mesh@example.org, mail_to: [ann@example.org]}
  - {name: program, command: [sh, -c, "test ! -e refuse && echo held >> told"]}
`, mails.Address))
	put(t, dir, "agents/main.md", `---
name: main
bcp_channels:
  - peer: mail
    role: controller
    max_category: 3
    budget_bits: 10000
    subscriptions:
      - {id: digest, category: 3, directive: "Sum it up.", max_words: 10}
---
`)
	put(t, dir, "agents/mail.md", "---\nname: mail\nbcp_channels: [{peer: main, role: reader}]\n---\n")
	state := filepath.Join(dir, ".bcpmesh")
	programs := func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "told")) // before the first there is none
		return strings.Count(string(b), "\n")
	}
	toldBy := func() [3]int { return [3]int{int(posts.Load()), len(mails.Mails()), programs()} }
	await := func(before [3]int, since time.Time) {
		t.Helper()
		for {
			now := toldBy()
			if now[0] > before[0] && now[1] > before[1] && now[2] > before[2] {
				t.Logf("told by all three after %s", time.Since(since))
				return
			}
			if time.Since(since) > stepPatience {
				t.Fatalf("told %v, and %v before", now, before)
			}
			time.Sleep(time.Millisecond) // between two looks
		}
	}
	hold := func() {
		t.Helper()
		cmd := exec.Command("bcpmesh", "publish", "main", "digest", `{"summary":"nothing is new"}`, "--dir", dir)
		if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "held") {
			t.Fatalf("%v: %s", err, out)
		}
	}

	p := startProcess(t, dir, state, "127.0.0.1:0")
	before, begin := toldBy(), time.Now()
	hold()
	await(before, begin)

	refuse.Store(true)
	mails.Refuse("@")
	put(t, dir, "refuse", "")
	before = toldBy()
	hold()
	<-tried
	p.kill(t)
	if now := toldBy(); now != before {
		t.Errorf("told %v while all refuse, and %v before", now, before)
	}
	refuse.Store(false)
	mails.Refuse("")
	if err := os.Remove(filepath.Join(dir, "refuse")); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	p = startProcess(t, dir, state, "127.0.0.1:0")
	await(before, begin)
	p.end(t)
	if strings.Contains(p.stderr.String(), hook.URL) {
		t.Errorf("the log has a secret: %s", p.stderr)
	}
}
