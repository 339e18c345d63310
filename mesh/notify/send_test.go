package notify

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

func testMessage() Message {
	return Test(office(), everything(), time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC))
}

// A webhook gets each shape with an idempotency key, and what it says of itself gets into no
// error.
func TestWebhook(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
		if status/100 == 3 {
			w.Header().Set("Location", "http://127.0.0.1:1/"+canary)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, canary)
	}))
	defer server.Close()
	m := testMessage()
	route := everything()
	route.Webhook = bcp.SecretName{Variable: "HOOK"}
	place := Place{Environ: []string{"HOOK=" + server.URL + "/T0KEN-IN-PATH"}}
	for format, want := range map[bcp.WebhookFormat]string{
		bcp.WebhookJSON:  `"says":"this is a test`,
		bcp.WebhookSlack: `{"text":"*office: this is a test of the notification route desk*\n08:00:00Z info: this is a test`,
		bcp.WebhookNtfy:  "08:00:00Z info: this is a test of the notification route desk\n",
		bcp.WebhookTeams: `"contentType":"application/vnd.microsoft.card.adaptive"`,
	} {
		route.Format = format
		noError(t, Send(t.Context(), route, place, &m, nil))
		failIf(t, !strings.Contains(body, want) || got.Header.Get("Idempotency-Key") != m.ID || got.Method != http.MethodPost,
			"%s: %s, %v", format, body, got.Header)
		if format == bcp.WebhookNtfy && (got.Header.Get("Title") != m.Title || got.Header.Get("Priority") != "low") {
			t.Errorf("ntfy: %v", got.Header)
		}
	}
	for code, want := range map[int]string{500: "the webhook answers 500", 302: "the webhook answers 302", 404: "the webhook answers 404"} {
		status = code
		err := Send(t.Context(), route, place, &m, nil)
		failIf(t, err == nil || err.Error() != want, "%d: %v", code, err)
	}
	place.Environ = []string{"HOOK=http://127.0.0.1:1/T0KEN-IN-PATH"} // the port of a closed server could be another test's by now
	err := Send(t.Context(), route, place, &m, nil)
	failIf(t, err == nil || Reason(err) != "the webhook refuses connections", "away: %v", err)
}

// A URL that is not a webhook's is refused before anything is sent, and is in no error.
func TestWebhookURL(t *testing.T) {
	t.Parallel()
	m := testMessage()
	route := everything()
	route.Webhook = bcp.SecretName{Variable: "HOOK"}
	for _, url := range []string{"", "http://example.org/T0KEN", "ftp://127.0.0.1/T0KEN", "T0KEN", "https://", "http://127.0.0.1.example.org/T0KEN", "http://%zz/T0KEN", strings.Repeat("T0KEN", 1000)} {
		place := Place{Environ: []string{"HOOK=" + url}}
		for _, err := range []error{Check(route, place), Send(t.Context(), route, place, &m, nil)} {
			failIf(t, err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "T0KEN"), "%.40q: %v", url, err)
		}
	}
	for _, url := range []string{"https://example.org/T0KEN", "http://127.0.0.1:9/T0KEN", "http://[::1]:9/", "http://localhost/"} {
		err := Check(route, Place{Environ: []string{"HOOK=" + url}})
		failIf(t, err != nil, "%s: %v", url, err)
	}
}

// A secret prints as nothing of it, and comes from one place alone.
func TestSecrets(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(folder, "pw"), []byte("  hunter2\n"), 0o600))
	place := Place{Folder: folder, Environ: []string{"PW=first", "PW=second", "EMPTY="}}
	for name, want := range map[bcp.SecretName]secret{{Variable: "PW"}: "second", {File: "pw"}: "hunter2", {File: filepath.Join(folder, "pw")}: "hunter2"} {
		got, err := place.read(name)
		failIf(t, err != nil || got != want, "%s: %v", name, err)
	}
	for _, name := range []bcp.SecretName{{}, {Variable: "P"}, {Variable: "EMPTY"}, {File: "missing"}, {File: "."}} {
		got, err := place.read(name)
		failIf(t, err == nil || got != "", "%s is read", name)
	}
	s := secret("hunter2")
	all := fmt.Sprintf("%v %s %q %x %#v %d %v", s, s, s, s, s, s, []any{s})
	failIf(t, strings.Contains(all, "hunter") || strings.Contains(all, "68756e74"), "a secret is printed")
}

// Mail goes to a real server; one recipient that takes it is enough.
func TestMail(t *testing.T) {
	t.Parallel()
	server := newMailServer(t)
	server.locked(func() { server.refuses = "gone@example.org" })
	route := everything()
	route.MailServer, route.MailUser, route.Password = server.Address, "mesh", bcp.SecretName{Variable: "PW"}
	route.MailFrom, route.MailTo = "mesh@example.org", []string{"gone@example.org", "ann@example.org"}
	place := Place{Environ: []string{"PW=hunter2"}}
	m := testMessage()
	noError(t, Send(t.Context(), route, place, &m, nil))
	mails, users := server.got()
	stopIf(t, len(mails) != 1 || len(users) != 1 || users[0] != "\x00mesh\x00hunter2",
		"%d mails, %d logins", len(mails), len(users))
	for _, want := range []string{"From: mesh@example.org\r\n", "Subject: office: this is a test of the notification route desk\r\n", "Message-ID: <" + m.ID + "@example.org>\r\n", "\r\n\r\n08:00:00Z info: this is a test"} {
		failIf(t, !strings.Contains(mails[0], want), "no %q in %s", want, mails[0])
	}
	for ways, want := range map[string][2]string{
		"LOGIN": {"hunter2", "mesh|hunter2|"}, "LOGIN PLAIN": {"hunter2", "\x00mesh\x00hunter2"}, "XOAUTH2 PLAIN": {"Bearer t0ken", "user=mesh\x01auth=Bearer t0ken\x01\x01"}, "PLAIN XOAUTH2": {"hunter2", "\x00mesh\x00hunter2"},
	} {
		server.locked(func() { server.logins = ways })
		if err := Send(t.Context(), route, Place{Environ: []string{"PW=" + want[0]}}, &m, nil); err != nil {
			t.Errorf("%s: %v", ways, err)
		} else if _, users := server.got(); users[len(users)-1] != want[1] {
			t.Errorf("%s: it logs in with %q", ways, users[len(users)-1])
		}
	}
	route.MailTo = []string{"gone@example.org"}
	err := Send(t.Context(), route, place, &m, nil)
	failIf(t, err == nil || err.Error() != "the mail server answers 550", "nobody takes it: %v", err)
	err = Send(t.Context(), route, Place{}, &m, nil)
	failIf(t, err == nil || err.Error() != "env:PW is empty or not there", "without a password: %v", err)
}

// A command gets the message on stdin and a scrubbed environment; how it ended is said.
func TestCommand(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	route := everything()
	m := testMessage()
	place := Place{Folder: folder, Environ: append(os.Environ(), "DESK_WEBHOOK=T0KEN")}
	route.Command = []string{"sh", "-c", "cat > got; env > env"}
	noError(t, Send(t.Context(), route, place, &m, nil))
	got, _ := os.ReadFile(filepath.Join(folder, "got"))
	env, err := os.ReadFile(filepath.Join(folder, "env"))
	failIf(t, err != nil || !strings.Contains(string(got), `"id":"`+m.ID) || strings.Contains(string(env), "T0KEN"),
		"%s\n%s\n%v", got, env, err)
	for command, want := range map[string]string{"exit 3": "the command ended with exit status 3", "kill -9 $$": "the command ended with signal: killed"} {
		route.Command = []string{"sh", "-c", command}
		err := Send(t.Context(), route, place, &m, nil)
		failIf(t, err == nil || err.Error() != want, "%s: %v", command, err)
	}
	route.Command = []string{"no-such-program"}
	err = Send(t.Context(), route, place, &m, nil)
	failIf(t, err == nil || err.Error() != "the command is not found", "missing: %v", err)
	route.Command = nil
	failIf(t, Send(t.Context(), route, place, &m, nil) == nil, "a route without a way sends")
}
