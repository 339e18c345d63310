package mesh_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/notify"
)

// hook is a webhook, and the messages that it took.
type hook struct {
	*httptest.Server
	taken chan notify.Message

	mu     sync.Mutex
	refuse bool
	tries  chan struct{} // has room for one
}

func newHook(t *testing.T) *hook {
	h := &hook{taken: make(chan notify.Message, 100), tries: make(chan struct{}, 1)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m notify.Message
		b, err := io.ReadAll(r.Body)
		failIf(t, err != nil || json.Unmarshal(b, &m) != nil, "%s: %v", b, err)
		h.mu.Lock()
		refuse := h.refuse
		h.mu.Unlock()
		if refuse {
			w.WriteHeader(http.StatusServiceUnavailable)
			select {
			case h.tries <- struct{}{}:
			default:
			}
			return
		}
		h.taken <- m
	}))
	t.Cleanup(h.Close)
	return h
}

// next returns the next notice of something held that was not returned before.
func (h *hook) next(t *testing.T, seen map[string]bool) notify.Notice {
	t.Helper()
	for {
		select {
		case m := <-h.taken:
			for _, n := range m.Notices {
				if !seen[n.ID] && n.Kind == bcp.AlertHeld { // a disk may be full
					seen[n.ID] = true
					return n
				}
			}
		case <-time.After(patience):
			t.Fatal("nothing is told")
		}
	}
}

// held has something wait, and returns its item.
func held(t *testing.T, m *meshtest.Mesh, mailer side) bcp.ItemID {
	t.Helper()
	before := m.Count(func(d *bcp.Decision) bool { return d.Verdict == bcp.Hold })
	mailer.Push(t, "main", "digest", `{"summary":"nothing is new"}`, "")
	return m.WaitCount(t, before+1, func(d *bcp.Decision) bool { return d.Verdict == bcp.Hold })[before].Item
}

func notified(yaml string, environ ...string) (map[string]string, func(*mesh.Config)) {
	files := pair(100_000)
	files["mesh.yaml"] = "approvers: [ann]\nauditors: []\nnotify:\n" + yaml
	return files, func(c *mesh.Config) { c.Environ = append(os.Environ(), environ...) }
}

// What is held is told, with its id on the route of who may decide it; what is not taken is
// told after a restart, and doctor can see it meanwhile.
//
// covers P4.6
func TestHeldItemsAreTold(t *testing.T) {
	t.Parallel()
	h, person := newHook(t), newHook(t)
	files, config := notified("  - {name: desk, webhook: env:DESK}\n  - {name: ann, person: ann, webhook: env:ANN, for: held}\n", "DESK="+h.URL, "ANN="+person.URL)
	m := meshtest.Start(t, files, config)
	_, mailer := connect(t, m)
	item := held(t, m, mailer)
	seen, seenBy := map[string]bool{}, map[string]bool{}
	n := h.next(t, seen)
	holds(t, n.Item == "" && n.Reader == "mailer" && n.Controller == "main" && n.Category == 3, "told %+v", n)
	n = person.next(t, seenBy)
	failIf(t, n.Item != item, "the approver is told %+v, and not of %s", n, item)

	h.mu.Lock()
	h.refuse = true
	h.mu.Unlock()
	second := held(t, m, mailer)
	<-h.tries
	<-h.tries // again: the first is counted
	n = person.next(t, seenBy)
	failIf(t, n.Item != second, "a route that works is told %+v, and not of %s", n, second)
	m.Stop(t)
	status, err := notify.ReadStatus(filepath.Join(m.State, notify.StatusFile))
	if s := status["desk"]; err != nil || s.Failing.IsZero() || s.Why != "the webhook answers 503" || s.Attempts == 0 || !status["ann"].Failing.IsZero() {
		t.Errorf("status %+v, %v", status, err)
	}
	h.mu.Lock()
	h.refuse = false
	h.mu.Unlock()
	m.Start(t)
	h.next(t, seen)
	for _, secret := range []string{h.URL, person.URL, strings.TrimPrefix(h.URL, "http://")} {
		holds(t, !strings.Contains(m.Log(), secret), "the log has %s", secret)
	}
}

// A webhook that hangs, a mail server that says nothing and a command that sleeps slow
// nobody else: neither the decisions, nor the route that works, nor the end of the mesh.
//
// covers P4.6, A-EXHAUST
func TestRoutesThatHangSlowNobody(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	entered := make(chan struct{}, 10)
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-hang }))
	defer silent.Close()
	defer close(hang)
	h := newHook(t)
	files, config := notified(fmt.Sprintf(`  - {name: hangs, webhook: env:HANGS}
  - {name: mute, mail_server: %q, mail_from: a@b, mail_to: [c@d]}
  - {name: sleeps, command: [sleep, "1000"]}
  - {name: works, webhook: env:WORKS, gather: 1s}
`, strings.TrimPrefix(silent.URL, "http://")), "HANGS="+silent.URL, "WORKS="+h.URL)
	m := meshtest.Start(t, files, config)
	main, mailer := connect(t, m)
	held(t, m, mailer)
	<-entered // it hangs from here on
	seen := map[string]bool{}
	h.next(t, seen)
	for range 50 {
		mailer.Push(t, "main", "alerts", `{"urgent":true}`, "")
	}
	main.delivery(t)
	held(t, m, mailer)
	h.next(t, seen)
	begin := time.Now()
	m.Stop(t)
	took := time.Since(begin)
	failIf(t, took > patience/2, "the mesh ended after %s", took)
}

// A held item is told again until somebody has looked at it. A route that comes with a
// reload hears what waits already, and one that goes hears nothing more.
//
// covers P4.6, P1.5
func TestRepeatUntilSeen(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	files, config := notified("  - {name: desk, webhook: env:DESK}\n", "DESK="+h.URL)
	m := meshtest.Start(t, files, config)
	_, mailer := connect(t, m)
	item := held(t, m, mailer)
	h.next(t, map[string]bool{})

	next := *m.Mesh.Definition()
	next.Notify = []bcp.Route{{
		Name: "again", Person: "ann", Webhook: bcp.SecretName{Variable: "DESK"}, Format: bcp.WebhookJSON, Topics: []bcp.NoticeTopic{bcp.TopicHeld},
		Severity: bcp.SeverityWarning, Repeat: 100 * time.Millisecond, Gather: time.Millisecond,
	}}
	must(m.Reload(t.Context(), &next))
	seen := map[string]bool{}
	for range 3 {
		n := h.next(t, seen)
		failIf(t, n.Item != item, "told %+v, and not of %s", n, item)
	}
	ann := approver(t, m, "ann")
	ann.view(t, item)
	// Another item is told alone from here on: what was seen is not told with it.
	second := held(t, m, mailer)
	for told := (notify.Notice{}); told.Item != second; {
		told = h.next(t, seen)
	}
	for range 3 {
		n := h.next(t, seen)
		failIf(t, n.Item != second, "%s is told, which was looked at", n.Item)
	}
}
