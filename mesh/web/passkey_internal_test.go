package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// nobody are people none of whom has enrolled, of a mesh that is away.
func nobody(t *testing.T) *People {
	at := func() (string, agents.Options, error) { return "", agents.Options{}, errors.New("the mesh is away") }
	return &People{Folder: t.TempDir(), At: at, Logger: hclog.NewNullLogger()}
}

// The pages of a site bear the policy and keep browsers on TLS; none but the login and the
// enrolment shows anything to strangers, no code logs in, and no other name is served.
//
// covers A-FAKEUI
func TestRoutesOfASite(t *testing.T) {
	t.Parallel()
	announced := 0
	s := site{Server: newServer("443", Config{Site: &Site{Origin: "https://mesh.example.org", TLS: &tls.Config{}, People: nobody(t)}, Announce: func(string) { announced++ }})}
	ask := func(method, path, host string, form url.Values) *http.Response {
		r := request(method, path, "", form)
		r.Host = host
		return s.do(r)
	}
	for pattern := range s.routes() {
		_, path, ok := strings.Cut(pattern, " ")
		if !ok {
			path = pattern
		}
		for _, method := range []string{"GET", "POST"} {
			got := ask(method, strings.NewReplacer("{$}", "", "{", "", "}", "").Replace(path), "mesh.example.org", nil)
			if h := got.Header; h.Get("Content-Security-Policy") != policy || h.Get("Strict-Transport-Security") == "" || !strings.Contains(h.Get("Permissions-Policy"), "publickey-credentials-get=(self)") {
				t.Errorf("%s %s: headers %v", method, path, h)
			}
			failIf(t, got.StatusCode == http.StatusOK && path != loginPath && path != enrolPath && !strings.HasPrefix(path, "/assets/"),
				"%s %s: 200 for a stranger", method, path)
		}
	}
	for _, host := range []string{"localhost:443", "127.0.0.1:443", "mesh.example.org:443", "mesh.example.org.", "evil.example.org", ""} {
		got := ask("GET", "/login", host, nil)
		failIf(t, got.StatusCode != http.StatusMisdirectedRequest, "%q: %d", host, got.StatusCode)
	}
	if got := ask("POST", "/login", "mesh.example.org", url.Values{"token": {s.logins.token}}); got.StatusCode != http.StatusForbidden || len(got.Cookies()) > 0 || announced > 0 {
		t.Errorf("a code logs in, or was announced %d times: %d", announced, got.StatusCode)
	}
	key := "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf-_4AbaxFPK5SV3wDGVSt0QzBKQ2hbNHB3NeECAzEPlbBSzk9vIbTkkjnEzx-bUCCiIhMUf8UmXp16JlE7t4mA"
	for path, says := range map[string]string{"/enrol?as=%3Cb%3E": "You will decide about what is held with a passkey", "/enrol?as=kim": "as kim with"} {
		page, err := io.ReadAll(ask("GET", path, "mesh.example.org", nil).Body)
		failIf(t, err != nil || !strings.Contains(string(page), says) || strings.Contains(string(page), "<b>"),
			"%s: %s", path, page)
	}
	if got := ask("POST", "/enrol", "mesh.example.org", url.Values{"token": {"x"}, "id": {"AAAA"}, "public_key": {key}}); got.StatusCode != http.StatusBadGateway && got.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a mesh that is away: %d", got.StatusCode)
	}
}

// What somebody signs to log in is made by this process, good for five minutes, and once.
func TestNonces(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	d, other := logins{now: func() time.Time { return now }}, logins{now: func() time.Time { return now }}
	failIf(t, d.use("") || d.use(other.nonce()), "a nonce is taken that another process made, or nobody")
	first, second, third := d.nonce(), d.nonce(), d.nonce()
	failIf(t, first == second || !d.use(first) || d.use(first) || d.use(second[:len(second)-1]) || d.use(second+"A") || d.use(second+"\n"),
		"a nonce is the same as another, works twice, or when it was changed")
	if now = now.Add(nonceLife - 1); !d.use(second) || d.use(second) {
		t.Error("a nonce is refused within its time, or works twice at its end")
	}
	if now = now.Add(1); d.use(third) || d.use(first) {
		t.Error("a nonce works after its time")
	}
	now = now.Add(nonceLife)
	last := d.nonce()
	failIf(t, !d.use(last) || len(d.nonces.used) != 1, "%d nonces are kept that do not matter any more", len(d.nonces.used))
}

// A session ends when the mesh refuses its person, whose connection is closed when nobody
// needs it; one connection serves all sessions of a passkey.
func TestGuests(t *testing.T) {
	t.Parallel()
	over, connected, closed := false, 0, 0
	dial := func(context.Context, accounts.Passkey) (*Person, error) {
		connected++
		return &Person{Name: "kim", Over: func() bool { return over }, Close: func() { closed++ }}, nil
	}
	now := time.Unix(1_800_000_000, 0)
	var g connectedPeople
	d := logins{now: func() time.Time { return now }}
	enter := func() string {
		person := must(g.connect(t.Context(), dial, accounts.Passkey{ID: "a"}))
		id, _, ok := d.open(person)
		stopIf(t, !ok, "no room for a session")
		return id
	}
	knows := func(id string) bool {
		of := d.sessions[id]
		return of != nil && d.knows(id, of.place)
	}
	one, two := enter(), enter()
	failIf(t, connected != 1 || !knows(one) || !knows(two), "%d connections for two sessions", connected)
	d.leave(one)
	if g.closeUnneeded(d.has); closed != 0 || !knows(two) {
		t.Error("a connection is closed that a session needs")
	}
	over = true
	if g.closeUnneeded(d.has); knows(two) || closed != 1 {
		t.Errorf("who is refused is let in, or stays connected: closed %d", closed)
	}
	over = false
	three := enter()
	now = now.Add(sessionIdle)
	if g.closeUnneeded(d.has); connected != 2 || closed != 2 || knows(three) {
		t.Errorf("connected %d, closed %d", connected, closed)
	}
	enter()
	if g.close(); closed != 3 {
		t.Error("a connection outlives the pages")
	}
}

// A text that guessed the words of the session is framed with others.
//
// covers A-FAKEUI
func TestWordsThatWereGuessed(t *testing.T) {
	t.Parallel()
	s, cookie := loggedIn(t, "x")
	_, id, _ := strings.Cut(cookie, " ")
	r := request("GET", "/approvals/i1", cookie, nil)
	for text, guessed := range map[string]bool{"amber heron end": true, "Amber \n HERON": true, "amber": false, "amber, heron": false} {
		s.logins.sessions[id].word = "amber heron"
		got := s.framing(r, []tell.Frame{{Parts: []tell.Part{{Text: "x"}, {Asked: "y", Text: text}}}})
		failIf(t, got != s.visit(r).word || (got != "amber heron") != guessed || len(strings.Fields(got)) != 2,
			"%q is framed with %q", text, got)
	}
	got := s.framing(request("GET", "/approvals/i1", "", nil), nil)
	failIf(t, got != "", "somebody without a session has the words %q", got)
}

// The page of an agent frames what its command printed with words that it does not say.
//
// covers A-FAKEUI
func TestAnAgentThatGuessedTheWords(t *testing.T) {
	t.Parallel()
	s, cookie := loggedIn(t, "I am the operator. amber heron end")
	_, id, _ := strings.Cut(cookie, " ")
	s.logins.sessions[id].word = "amber heron"
	if got := s.do(request("GET", "/agents/mailer", cookie, nil)); got.StatusCode != http.StatusOK || s.logins.sessions[id].word == "amber heron" {
		t.Errorf("%s, framed with the words that it says", got.Status)
	}
}

// As many strangers are looked at at a time as is said, and one more is told to come back.
func TestFewStrangers(t *testing.T) {
	t.Parallel()
	s := site{Server: newServer("443", Config{Site: &Site{Origin: "https://mesh.example.org", People: nobody(t)}})}
	within, leave := make(chan struct{}), make(chan struct{})
	handler := s.few(func(w http.ResponseWriter, _ *http.Request) { within <- struct{}{}; <-leave })
	var all sync.WaitGroup
	for range maxStrangers {
		all.Go(func() { handler(httptest.NewRecorder(), request("POST", "/login", "", nil)) })
		<-within
	}
	w := httptest.NewRecorder()
	if handler(w, request("POST", "/login", "", nil)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one stranger too many: %d", w.Code)
	}
	close(leave)
	all.Wait()
	go handler(httptest.NewRecorder(), request("POST", "/login", "", nil))
	<-within
}

// A page of an item hears that it does not wait any more, of acts that counted and of its
// end alone.
func TestItemIsOver(t *testing.T) {
	t.Parallel()
	s := newSite("x")
	begin := s.history.total()
	for i, d := range []bcp.Decision{
		{Kind: bcp.KindApproval, Verdict: bcp.Accept, Item: "i1"}, {Kind: bcp.KindExpire, Item: "i2"},
		{Kind: bcp.KindApproval, Verdict: bcp.Reject, Item: "i3"}, {Kind: bcp.KindAnswer, Verdict: bcp.Hold, Item: "i4"}, {Kind: bcp.KindExpire},
	} {
		d.Seq = 1000 + uint64(i)
		s.history.add(d.Seq, &d)
	}
	events, _, _ := s.since(begin)
	var over []string
	for _, e := range events {
		over = append(over, e.Over)
	}
	failIf(t, strings.Join(over, " ") != "/approvals/i1 /approvals/i2   ", "over are %q", over)
}
