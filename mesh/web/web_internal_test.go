package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

const testPort = "4280"

// site is a server with decisions about which an agent chose every text.
type site struct {
	*Server
	codes []string
	now   time.Time
	away  bool
}

func newSite(text string) *site {
	s := &site{now: time.Unix(1_800_000_000, 0)}
	s.Server = newServer(testPort, Config{Scenes: func() []Scene { return hostileScenes(text) }, Announce: func(address string) {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" || u.Host != "localhost:"+testPort || u.Path != "/login" {
			panic("not an address of this server: " + address)
		}
		s.codes = append(s.codes, u.Query().Get("code"))
	}})
	s.logins.now = func() time.Time { return s.now }
	definition := hostileDefinition(text)
	s.mesh.Store(&Mesh{Connected: func() bool { return !s.away }, Definition: func() *bcp.Mesh { return definition },
		Proof: func() Proof { return Proof{Checkpoint: text + "\n" + text + "\n" + text, Signed: s.now, Key: text} }})
	s.views.mesh = s.mesh.Load()
	s.views.known, s.views.at = hostileKnown(text, s.now), time.Now().Add(time.Hour)
	for i, kind := range bcp.DecisionKinds() {
		for j, verdict := range []bcp.Outcome{bcp.Accept, bcp.Hold, bcp.Reject} {
			s.history.add(uint64(3*i+j+1), &bcp.Decision{Seq: uint64(3*i + j + 1), Time: 1, Kind: kind, Verdict: verdict, Agent: "main", Controller: "main", Reader: "mailer",
				Justification: text, Family: text, Note: text, Field: text, Event: text, Key: text, Query: bcp.QueryID(text), Delivery: bcp.DeliveryID(text),
				Item: bcp.ItemID(text), Subscription: bcp.SubscriptionID(text), Session: bcp.SessionID(text), Code: bcp.ValidationFailed, Reason: bcp.ReasonValue,
				Run: &bcp.RunChange{Run: text, From: bcp.AgentName(text), Kernel: bcp.AgentName(text), Code: text}})
		}
	}
	return s
}

// hostileScenes has a text wherever a story may have one.
func hostileScenes(text string) []Scene {
	exchanges := []Exchange{
		{Seq: 1, Asked: text, Said: text, Hijacked: true, Quotes: true, Verdict: bcp.Reject, Why: text},
		{Seq: 2, Asked: text, Said: text, Hijacked: true, Quotes: true, Verdict: bcp.Accept, Heard: text + text, HeardQuotes: true},
		{Seq: 3, Said: text, Hijacked: true, Verdict: bcp.Hold},
	}
	return []Scene{{Number: 1, From: text, Subject: text, Planted: text, Exchanges: exchanges}, {Number: 2, From: text, Subject: text}}
}

// hostileDefinition has a text wherever a definition may have one.
func hostileDefinition(text string) *bcp.Mesh {
	key := bcp.ChannelKey{Controller: "main", Reader: "mailer"}
	return &bcp.Mesh{Name: text, Agents: []bcp.Agent{
		{Name: "mailer", Reader: true, BaseTaint: bcp.TaintHigh, Model: text, Network: text, File: text, Description: text},
		{Name: "main", Controller: true, Reader: true, Model: text, Network: text, File: text},
	}, Channels: []bcp.Channel{{ChannelKey: key, Subscriptions: []bcp.Subscription{{ID: bcp.SubscriptionID(text)}}}}}
}

// hostileKnown has a text wherever the answers of a mesh may have one.
func hostileKnown(text string, now time.Time) *known {
	room := bcp.Room{Epoch: 1, Budgets: []bcp.BudgetRoom{{Key: text, Limit: 9 * bcp.Bit, Left: bcp.Bit}, {Key: "budget_bits", Limit: 9 * bcp.Bit, Left: bcp.Bit}}}
	forecast := bcp.Forecast{Controller: "main", Reader: "mailer", Queries: room, Pushes: room}
	foreign := forecast
	foreign.Controller, foreign.Reader = bcp.AgentName("c"+text), bcp.AgentName("r"+text)
	return &known{
		forecasts: []bcp.Forecast{forecast, foreign},
		sessions: []bcp.SessionView{{Controller: "main", Session: bcp.SessionID(text), Status: text, BegunBy: text, Sources: []string{text},
			Channels: []bcp.SessionChannel{{Reader: bcp.AgentName(text), Held: 1}}}},
		agents: []status.Agent{{Agent: "mailer", State: status.Crashed, NotStarted: text, Command: &status.Command{Failures: 2, Exit: text, LastLine: text}}},
		ledger: []bcp.LedgerLine{{Controller: "main", Reader: "mailer", Epoch: 1, Time: now}},
	}
}

func (s *site) do(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	return w.Result()
}

// outer reports whether a path is of no session.
func outer(path string) bool {
	return strings.HasPrefix(path, loginPath) || strings.HasPrefix(path, enrolPath) || strings.HasPrefix(path, "/assets/")
}

// request asks for a page in the place of a session, with its cookie: "PLACE VALUE".
func request(method, path, cookie string, body url.Values) *http.Request {
	place, cookie, _ := strings.Cut(cookie, " ")
	if place != "" && !outer(path) {
		path = "/" + place + path
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body.Encode()))
	r.Host = "localhost:" + testPort
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: "bcpmesh-" + testPort, Value: cookie})
	}
	return r
}

// logIn returns the place and the value of a cookie, or nothing if the code is refused.
func (s *site) logIn(t *testing.T, code string) string {
	t.Helper()
	cookies := s.do(request("POST", "/login", "", url.Values{"token": {code}})).Cookies()
	if len(cookies) == 0 {
		return ""
	}
	if c := cookies[0]; len(cookies) > 1 || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Name != "bcpmesh-"+testPort {
		t.Errorf("cookies %v", cookies)
	}
	return cookieOf(cookies[0])
}

// loggedIn is a site where a text is whatever an agent chose, and the cookie of a session.
func loggedIn(t *testing.T, text string) (*site, string) {
	t.Helper()
	s := newSite(text)
	s.logins.renew()
	cookie := s.logIn(t, s.codes[0])
	stopIf(t, cookie == "", "the code was refused")
	return s, cookie
}

// shows returns a page.
func (s *site) shows(t *testing.T, path, cookie string) string {
	t.Helper()
	body := must(io.ReadAll(s.do(request("GET", path, cookie, nil)).Body))
	return string(body)
}

func cookieOf(c *http.Cookie) string { return strings.Trim(c.Path, "/") + " " + c.Value }

var pagesShown = []string{"/", "/approvals", "/approvals/i1", "/agents", "/agents/mailer", "/agents/main", "/agents/x", "/sessions", "/audit?id=x", "/audit", "/audit?page=2", "/audit?agent=main&kind=ask", "/audit?verdict=none",
	alertsPath, "/channels/main/mailer", "/channels/x/y", "/decisions/1", "/decisions/2", "/decisions/3", "/decisions/99999", "/decisions/x/1", "/nothing", "/proof", storyPath}

// Every route, of whatever method and outcome, bears the policy; none but the login
// shows anything without a session.
//
// covers A-FAKEUI
func TestRoutes(t *testing.T) {
	t.Parallel()
	s, cookie := loggedIn(t, "x")
	paths := slices.Clone(pagesShown)
	for _, pattern := range slices.AppendSeq(slices.Collect(maps.Keys(s.inner())), maps.Keys(s.routes())) {
		_, path, ok := strings.Cut(pattern, " ")
		if ok {
			paths = append(paths, strings.NewReplacer("{$}", "", "{controller}", "a", "{reader}", "b", "{seq}", "1", "{agent}", "mailer", "{id}", "q1", "{session}", "s1", "{item}", "i1").Replace(path))
		}
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "HEAD", "PUT"} {
			for _, who := range []string{cookie, ""} {
				if method == "POST" && path == "/logout" && who != "" {
					continue
				}
				got := s.do(request(method, path, who, nil))
				h := got.Header
				if h.Get("Content-Security-Policy") != policy || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(path, "/assets/") && h.Get("Cache-Control") != "no-store" ||
					h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cross-Origin-Opener-Policy") != "same-origin" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Permissions-Policy") == "" {
					t.Errorf("%s %s: headers %v", method, path, h)
				}
				body := must(io.ReadAll(got.Body))
				failIf(t, who == "" && strings.Contains(string(body), "mailer"),
					"%s %s shows a channel without a session", method, path)
				failIf(t, who == "" && got.StatusCode == http.StatusOK && path != "/login" && !strings.HasPrefix(path, "/assets/"),
					"%s %s: 200 without a session", method, path)
			}
		}
	}
}

// Foreign names of this machine, cross-site posts, and bodies that are too large are
// refused.
func TestForeignRequests(t *testing.T) {
	t.Parallel()
	s := newSite("x")
	s.logins.renew()
	for _, host := range []string{"evil.example", "evil.example:" + testPort, "localhost", "localhost:1", "localhost." + ":" + testPort, ""} {
		r := request("GET", "/login", "", nil)
		r.Host = host
		got := s.do(r)
		failIf(t, got.StatusCode != http.StatusMisdirectedRequest, "host %q: %d", host, got.StatusCode)
	}
	for _, host := range []string{"127.0.0.1:" + testPort, "[::1]:" + testPort} {
		r := request("GET", "/audit?page=2", "", nil)
		r.Host = host
		if got := s.do(r); got.StatusCode != http.StatusPermanentRedirect || got.Header.Get("Location") != "http://localhost:"+testPort+"/audit?page=2" {
			t.Errorf("host %q: %d %v", host, got.StatusCode, got.Header)
		}
		r = request("POST", "/login", "", url.Values{"token": {s.codes[0]}})
		r.Host = host
		got := s.do(r)
		failIf(t, got.StatusCode != http.StatusMisdirectedRequest, "post to host %q: %d", host, got.StatusCode)
	}
	for key, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		r := request("POST", "/login", "", url.Values{"token": {s.codes[0]}})
		r.Header.Set(key, value)
		got := s.do(r)
		failIf(t, got.StatusCode != http.StatusForbidden || len(got.Cookies()) > 0, "%s %s: %d", key, value, got.StatusCode)
	}
	got := s.do(request("POST", "/login", "", url.Values{"pad": {strings.Repeat("x", 64<<10)}, "token": {s.codes[0]}}))
	failIf(t, len(got.Cookies()) > 0, "a body beyond the limit logs in")
	failIf(t, s.logIn(t, s.codes[0]) == "", "the code was used up by a refused request")
}

// Browsers send a cookie of localhost to whoever listens there, on any port: the one of a
// session goes only to whoever is asked for its place, which no page, no other server and
// no header says.
//
// covers A-FAKEUI, A-PLACE
func TestSessionIsOfItsPlace(t *testing.T) {
	t.Parallel()
	s, first := loggedIn(t, "x")
	second := s.logIn(t, s.codes[1])
	place, value, _ := strings.Cut(first, " ")
	other, _, _ := strings.Cut(second, " ")
	failIf(t, len(place) < minToken || place == other || strings.Contains(value, place), "places %q and %q", place, other)
	jar := must(cookiejar.New(nil))
	at := &url.URL{Scheme: "http", Host: "localhost:" + testPort, Path: "/login"}
	jar.SetCookies(at, []*http.Cookie{s.sessionCookie(value, place, 0)})
	for _, path := range []string{"/", "/approvals", "/" + other + "/", "/" + place} {
		failIf(t, len(jar.Cookies(&url.URL{Scheme: "http", Host: "localhost:9", Path: path})) > 0,
			"another port gets the cookie at %s", path)
	}
	for _, cookie := range []string{" " + value, other + " " + value, place[1:] + " " + value, place + " ", place + " " + value + "x"} {
		for _, path := range []string{"/", "/approvals", "/approvals/i1"} {
			if got := s.do(request("GET", path, cookie, nil)); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != loginPath {
				t.Errorf("%s with %q: %d", path, cookie, got.StatusCode)
			}
		}
	}
	// All links of a page stay in its place.
	for _, link := range regexp.MustCompile(`(?:href|action)="([^"]*)"`).FindAllStringSubmatch(s.shows(t, "/", first), -1) {
		to := link[1]
		failIf(t, to != "#main" && to != stylePath && !strings.HasPrefix(to, "/"+place+"/"), "a link to %s", to)
	}
}

// A browser that goes to localhost finds nobody else, whichever of its addresses it asks;
// where somebody else has one, the pages are not served.
//
// covers A-FAKEUI
func TestBothAddressesOfLocalhostAreHeld(t *testing.T) {
	t.Parallel()
	config := Config{Announce: func(string) {}}
	for listen, other := range map[string]string{"localhost:0": "[::1]", "127.0.0.1:0": "[::1]", "[::1]:0": "127.0.0.1"} {
		config.Listen = listen
		s := must(Listen(config))
		if l, err := net.Listen("tcp", other+":"+s.port); err == nil {
			t.Errorf("%s: somebody else listens at %s", listen, l.Addr())
			l.Close()
		}
		failIf(t, len(s.listeners) != 2, "%s: %d listeners", listen, len(s.listeners))
		err := s.Close()
		failIf(t, err != nil, "%v", err)
		l := must(net.Listen("tcp", other+":0"))
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		config.Listen = strings.TrimSuffix(listen, "0") + port
		if _, err := Listen(config); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s, where somebody else has %s: %v", config.Listen, l.Addr(), err)
		}
	}
}

// A code works once and for five minutes, a session for an hour of rest and twelve in
// all, and until it is left.
func TestLogin(t *testing.T) {
	t.Parallel()
	s := newSite("x")
	in := func(cookie string) bool { return s.do(request("GET", "/", cookie, nil)).StatusCode == http.StatusOK }
	failIf(t, s.logIn(t, "") != "", "an empty code logs in before there is one")
	first := len(s.codes) - 1 // the refusal announced one
	if shown := s.shows(t, "/login?code="+s.codes[first], ""); !strings.Contains(shown, `value="`+s.codes[first]+`"`) || len(s.codes) != first+1 {
		t.Errorf("the address with a code does not show it, or uses it up: %s", shown)
	}
	cookie := s.logIn(t, s.codes[first])
	failIf(t, !in(cookie) || in(cookie+"x") || in(""), "the session is not what opens")
	failIf(t, s.logIn(t, s.codes[first]) != "" || len(s.codes) != first+2,
		"a used code logs in, or there are %d codes", len(s.codes))
	s.now = s.now.Add(tokenLife)
	failIf(t, s.logIn(t, s.codes[first+1]) != "" || len(s.codes) != first+3, "an expired code logs in, or none replaces it")
	s.now = s.now.Add(tokenLife - 1)
	other := s.logIn(t, s.codes[first+2])
	failIf(t, other == "", "a code is refused within its time")
	if s.do(request("POST", "/logout", other, nil)); in(other) || !in(cookie) {
		t.Error("logging out ends another session, or not its own")
	}
	for range 12 {
		s.now = s.now.Add(sessionIdle - 1)
		failIf(t, s.now.Before(time.Unix(1_800_000_000, 0).Add(sessionLife)) != in(cookie), "a session in use at %v", s.now)
	}
	s.logins.renew()
	cookie = s.logIn(t, s.codes[len(s.codes)-1])
	if s.now = s.now.Add(sessionIdle); cookie == "" || in(cookie) {
		t.Error("an idle session opens")
	}
}

// An item's page is the same elements whatever it holds; what it holds stands between
// edges with the words of the session, which its text cannot have, beside bars.
//
// covers P7.2, P2.5, A-FAKEUI
func TestItemSkeleton(t *testing.T) {
	t.Parallel()
	s := newSite("x")
	page := func(text string, kind bcp.ItemKind) string {
		content := must(json.Marshal(map[string]string{"summary": text}))
		v := bcp.ItemView{Item: bcp.Item{ID: "i1", Kind: kind, Controller: "main", Reader: "mailer", Category: 3, Anomalies: []string{text}, Query: bcp.QueryID(text)},
			Source: bcp.Source{Agent: "mailer", Description: text, Network: text, Tools: []string{text}}, Spec: bcp.Spec{Category: 3, Directive: text, MaxWords: 9},
			Justification: text, Content: content, Earlier: []bcp.Release{{Reader: "mailer", Content: content}}}
		if slices.Contains(bcp.RunItemKinds(), kind) {
			v.Effect = &bcp.Effect{Run: "r1", Requester: "main", Step: "s1", Tool: "send", Service: "mail", Description: text, Level: "write",
				Arguments: []bcp.EffectArgument{{Name: "body", Tainted: true}}}
		}
		var b bytes.Buffer
		item := s.itemPage("amber heron", tell.ItemFrames(&v, s.logins.now()), desk{view: v}, "")
		noError(t, pages.ExecuteTemplate(&b, "item", &item))
		return b.String()
	}
	for _, kind := range append(bcp.ChannelItemKinds(), bcp.RunItemKinds()...) {
		want := skeleton(t, strings.NewReader(page("benign", kind)))
		for name, text := range bcptest.Texts {
			if strings.TrimSpace(text) == "" || !utf8.ValidString(text) {
				continue
			}
			shown := page(text, kind)
			got := skeleton(t, strings.NewReader(shown))
			failIf(t, got != want && kind != bcp.ItemProposal, "%s with %s is\n%s\nnot\n%s", kind, name, got, want)
			n := strings.Count(shown, "<strong>amber heron</strong>")
			failIf(t, n%2 != 0 || n < 4, "%s with %s has %d edges", kind, name, n)
		}
	}
}

// skeleton is the elements of a page with the names of their attributes. All text is inert, and no
// link leaves the site.
func skeleton(t bcptest.TB, r io.Reader) string {
	var b strings.Builder
	z := html.NewTokenizer(r)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			checkInert(t, z.Token().Data)
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken, html.CommentToken:
			token := z.Token()
			if token.DataAtom == atom.Mark {
				continue // of characters that are not plain: as many as the text has
			}
			b.WriteString(token.Type.String() + " " + token.Data)
			for _, a := range token.Attr {
				leads := a.Key == "href" || a.Key == "action" || a.Key == "src"
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || leads && a.Val != "#main" && (!strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "//") || strings.ContainsAny(a.Val, "\\\t\r\n")) {
					t.Fatalf("attribute %s=%q", a.Key, a.Val)
				}
				if strings.HasPrefix(a.Key, "aria-") {
					checkInert(t, a.Val)
				}
				b.WriteString(" " + a.Key)
			}
			b.WriteByte('\n')
		}
	}
}

// checkInert checks what people see of a page, where lines of ours end.
func checkInert(t bcptest.TB, text string) {
	stopIf(t, strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !inert.Harmless(r) }), "%q is not inert", text)
}

func (s *site) skeletons(t *testing.T) map[string]string {
	t.Helper()
	s.logins.renew()
	cookie := s.logIn(t, s.codes[len(s.codes)-1])
	found := map[string]string{}
	for _, path := range pagesShown {
		found[path] = skeleton(t, s.do(request("GET", path, cookie, nil)).Body)
	}
	return found
}

// benign has the skeletons of pages without hostile text, once they were made.
var benign struct {
	sync.Once
	skeletons map[string]string
}

func checkSkeletons(t *testing.T, text string) {
	t.Helper()
	benign.Do(func() { benign.skeletons = newSite("benign").skeletons(t) })
	want := benign.skeletons
	for path, got := range newSite(text).skeletons(t) {
		failIf(t, got != want[path], "%s with %q is\n%s\nnot\n%s", path, text, got, want[path])
	}
}

// Hostile text changes no element and no attribute of any page.
//
// covers P2.5, A-FAKEUI
func TestSkeleton(t *testing.T) {
	t.Parallel()
	for _, text := range bcptest.Texts {
		if text != "" {
			checkSkeletons(t, text)
		}
	}
	for _, text := range []string{`"><img src=x onerror=alert(1)>`, `'><svg/onload=alert(1)>`, `</bdi></li></ol></main><h1>Approved`, `javascript:alert(1)`, `{{.}}`,
		`<!--`, `]]>`, `</title><script>alert(1)</script>`, `&lt;script&gt;`, "`-alert(1)-`", `<base href=//evil.example>`, `<meta http-equiv=refresh content=0>`} {
		checkSkeletons(t, text)
	}
}

func FuzzSkeleton(f *testing.F) {
	f.Add(`"><img src=x onerror=alert(1)>`)
	f.Fuzz(func(t *testing.T, text string) {
		if text != "" {
			checkSkeletons(t, text)
		}
	})
}

// decidingPages has a text wherever a page may have one that needs an approver or a passkey.
func (s *site) decidingPages(text string) map[string]page {
	v := bcp.ItemView{Item: bcp.Item{ID: bcp.ItemID(text), Kind: bcp.ItemSummary, Controller: "main", Reader: "mailer", Category: 3}, Justification: text, Content: jsontext.Value(`{"summary":"x"}`)}
	d := desk{root: "/P", view: v, passkey: accounts.Passkey{ID: text}}
	item := s.itemPage("amber heron", tell.ItemFrames(&v, s.now), d, text)
	edit := d.act(bcp.EditItem, bcp.Digest{1}, v.Content)
	shown := map[string]page{
		"item": item, "nobody": {Title: text, Fault: text}, "message": {Title: text, Of: message{text, text, []place{{"/approvals", "x"}, {filter{id: text}.path(1), "y"}}}},
		"approvals": {Of: approvalsData{bcp.AgentName(text), []waiting{{Item: bcp.Item{ID: bcp.ItemID(text), Kind: bcp.ItemKind(text)}, Words: text, Source: text, Age: "1 min", Left: "1 min", Reasons: text}},
			endorsedRows([]bcp.EndorsementView{{Endorsement: bcp.Endorsement{ID: bcp.EndorsementID(text), Controller: bcp.AgentName(text), Subscription: bcp.SubscriptionID(text), Codes: []string{text}}, By: bcp.AgentName(text), UsesLeft: 1, Ended: text}})}},
		"endorse": {Fault: text, Facts: []fact{{Name: "signs", Value: text}}, Frames: item.Frames, Of: endorseData{Path: "/P/x", Back: "/x", Credential: text, UnitName: "Hours", Codes: text,
			Endorsement: bcp.Endorsement{ID: bcp.EndorsementID(text), Controller: bcp.AgentName(text), Reader: bcp.AgentName(text), Subscription: bcp.SubscriptionID(text)}}},
		"marked": {Fault: text, Frames: item.Frames, Of: markedData{[]markedItem{{text, itemPath(bcp.ItemID("i")), []fact{{Name: "edit", Value: text}}, item.Frames[0]}},
			manyAct{"/P" + markedPath, bcp.Approve, text, []act{edit}}, manyAct{"/P" + markedPath, bcp.RejectItem, text, []act{d.act(bcp.RejectItem, bcp.Digest{}, nil)}}}},
		"preview": {Facts: []fact{{Name: "edit", Value: text}}, Frames: framed("amber heron", []tell.Frame{{Label: text, Length: "1", Parts: []tell.Part{{Asked: text, Text: text}}, End: text}}, nil),
			Of: previewData{&edit, text, inert.Text(text), "/x"}},
	}
	for name, p := range shown {
		p.Root, p.Word = "/P", "amber heron"
		shown[name] = p
	}
	shown["login"], shown["passkey"], shown["enrol"] = page{Fault: text, Of: text}, page{Fault: text, Of: passkeyData{"n", "https://mesh.example.org", text}}, page{Fault: text, Of: "kim"}
	shown["enrolled"] = page{Of: enrolledData{Name: bcp.AgentName(text), Words: "six words"}}
	return shown
}

// The pages of people are the same elements whatever is decided, and every page there is is tested with hostile text, here
// or as [pagesShown].
//
// covers P2.5, A-FAKEUI
func TestDecidingSkeletons(t *testing.T) {
	t.Parallel()
	s := newSite("x")
	written := func(name string, p page) string {
		var b bytes.Buffer
		noError(t, pages.ExecuteTemplate(&b, name, &p))
		return skeleton(t, &b)
	}
	benign := s.decidingPages("benign")
	for of, text := range bcptest.Texts {
		if text == "" {
			continue
		}
		for name, p := range s.decidingPages(text) {
			got, want := written(name, p), written(name, benign[name])
			failIf(t, got != want, "%s with %s is\n%s\nnot\n%s", name, of, got, want)
		}
	}
	inMesh := strings.Fields("overview agents agent sessions channel audit decision proof demo")
	for _, of := range pages.Templates() {
		if _, tested := benign[of.Name()]; of.Tree != nil && strings.HasPrefix(of.Tree.Root.String(), `{{template "head" .}}`) && !tested && !slices.Contains(inMesh, of.Name()) {
			t.Errorf("nothing hostile was written into %s", of.Name())
		}
	}
}

// No page is made of strings, no template has a script, a style or a handler of its own, and the style sheet loads nothing.
func TestNoWayAround(t *testing.T) {
	t.Parallel()
	for pattern, wrong := range map[string]string{
		"*.go":         `"text/template"|template\.(HTML|HTMLAttr|CSS|JS|JSStr|Srcset|URL)\b|"golang.org/x/net/html"|io\.WriteString\(w|fmt\.Fprint[a-z]*\(w`,
		"pages/*.html": `(?i)<style|<script( [^t]|>)|\s(style|on[a-z]+|srcdoc|http-equiv|formaction)=|javascript:|<(iframe|object|embed|base|img)\b`,
	} {
		names, err := filepath.Glob(pattern)
		stopIf(t, err != nil || len(names) < 4, "%v %v", names, err)
		for _, name := range names {
			content := must(os.ReadFile(name))
			found := regexp.MustCompile(wrong).Find(content)
			failIf(t, found != nil && !strings.HasSuffix(name, "_test.go"), "%s has %q", name, found)
		}
	}
	found := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(|DOMParser|createContextual|srcdoc|setAttribute\("(on|style)|import`).Find(script)
	failIf(t, found != nil, "page.js has %q", found)
	found = regexp.MustCompile(`(?i)javascript:|@import|url\(|expression\(`).Find(style)
	failIf(t, found != nil, "style.css has %q", found)
}

// The newest decisions are kept and older ones are dropped; a page of them says so.
func TestHistory(t *testing.T) {
	t.Parallel()
	var h history
	for i := range uint64(2*maxHistory + 1) {
		h.add(i+1, &bcp.Decision{Seq: i + 1, Kind: bcp.KindAsk})
	}
	entries, _ := h.all()
	failIf(t, len(entries) != maxHistory || entries[0].Seq != maxHistory+2 || h.find(maxHistory+1) != nil || h.find(maxHistory+2) == nil,
		"%d entries from %d", len(entries), entries[0].Seq)
	failIf(t, h.next() != 2*maxHistory+2, "the next decision is %d", h.next())
}

// Every list says when no new decisions come, and no more once they do.
func TestFault(t *testing.T) {
	t.Parallel()
	s, cookie := loggedIn(t, "x")
	check := func(want string) {
		t.Helper()
		for _, path := range []string{"/", "/agents", "/sessions", "/audit", alertsPath, "/channels/main/mailer", "/decisions/1"} {
			body := s.shows(t, path, cookie)
			failIf(t, strings.Contains(body, `class="fault"`) != (want != "") || !strings.Contains(body, want),
				"%s does not say %q: %s", path, want, body)
		}
	}
	check("")
	s.away = true
	check("cannot be reached")
	s.away = false
	s.history.fail(true)
	check("cannot be read")
	s.history.fail(false)
	check("")
	s.views.known.err = errors.New("no answer")
	check("does not answer")
}

// A server serves this machine alone, from a real port, until its context ends.
func TestServe(t *testing.T) {
	t.Parallel()
	var codes []string
	config := Config{Announce: func(address string) { codes = append(codes, address) }}
	for _, listen := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		config.Listen = listen
		_, err := Listen(config)
		failIf(t, !errors.Is(err, ErrNotLoopback), "%s: %v", listen, err)
	}
	config.Listen = "127.0.0.1:0"
	s := must(Listen(config))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	request := must(http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:"+s.port+"/login", nil))
	request.Host = "localhost:" + s.port
	got, err := http.DefaultClient.Do(request)
	stopIf(t, err != nil || got.StatusCode != http.StatusOK || got.Body.Close() != nil, "%v %v", got, err)
	cancel()
	err = <-ended
	failIf(t, err != nil || len(codes) != 1, "%v, codes %v", err, codes)
}

// A running request is finished when a server stops that has both addresses of localhost.
func TestStopFinishesRequests(t *testing.T) {
	t.Parallel()
	s := must(Listen(Config{Listen: "127.0.0.1:0", Announce: func(string) {}}))
	began, ctx := make(chan struct{}), t.Context()
	s.http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-s.ending
		time.Sleep(200 * time.Millisecond)
	})
	serving, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.run(serving) }()
	go func() { <-began; cancel() }()
	got, err := http.DefaultClient.Do(must(http.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:"+s.port, nil)))
	failIf(t, err != nil || got.Body.Close() != nil, "%v", err)
	noError(t, <-ended)
}

// The story is a page of demonstrations alone, where their login leads; it counts what the Controller hears.
func TestStory(t *testing.T) {
	t.Parallel()
	s := newSite("x")
	s.logins.renew()
	entered := func() *http.Response {
		return s.do(request("POST", "/login", "", url.Values{"token": {s.codes[len(s.codes)-1]}}))
	}
	in := entered()
	to := in.Header.Get("Location")
	failIf(t, to+"/" != in.Cookies()[0].Path+storyPath[1:]+"/", "the login leads to %q", to)
	cookie := cookieOf(in.Cookies()[0])
	page := s.shows(t, storyPath, cookie)
	for _, row := range []string{`attacker wants</th><td class="number">3</td><td class="number">1</td>`, `planted instruction</th><td class="number">2</td><td class="number">1</td>`, "until a person has decided"} {
		failIf(t, !strings.Contains(page, row), "the story has no %q:\n%s", row, page)
	}
	s.scenes = nil
	r := s.do(request("GET", storyPath, cookie, nil))
	failIf(t, r.StatusCode != http.StatusNotFound, "a mesh that is no demonstration: %d", r.StatusCode)
	in = entered()
	to = in.Header.Get("Location")
	failIf(t, to != in.Cookies()[0].Path, "the login leads to %q", to)
	page = s.shows(t, "/", cookie)
	failIf(t, strings.Contains(page, storyPath), "the menu has a story")
}

// Whoever has no definitions sees what is left for pushes, too.
func TestBudgetsWithoutDefinitions(t *testing.T) {
	t.Parallel()
	s, cookie := loggedIn(t, "x")
	s.mesh.Load().Definition = func() *bcp.Mesh { return nil }
	of := s.shows(t, "/channels/main/mailer", cookie)
	failIf(t, !strings.Contains(of, "<td>queries</td>") || !strings.Contains(of, "<td>pushes</td>"), "%v", of)
}

// What a mesh said is shown for a second as it is, and for as long as it is away.
func TestViewsAreKeptForAMoment(t *testing.T) {
	t.Parallel()
	mesh := &Mesh{}
	for name, c := range map[string]struct {
		of        *Mesh
		age       time.Duration
		connected bool
		shown     bool
	}{
		"new": {mesh, viewAge / 2, true, true}, "old": {mesh, 2 * viewAge, true, false}, "of a mesh that is away": {mesh, time.Hour, false, true},
		"of another mesh": {&Mesh{}, 0, true, false},
	} {
		before := &known{}
		v := viewCache{mesh: c.of, known: before, at: time.Now().Add(-c.age)}
		if got := v.current(mesh, c.connected); (got == before) != c.shown {
			t.Errorf("%s: what it said before is shown: %t, want %t", name, got == before, c.shown)
		}
	}
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

// A Controller may have as many channels as a mesh has agents: its page has a picture of all.
func TestPictureOfManyChannels(t *testing.T) {
	t.Parallel()
	var channels []*channel
	for i := range 40_000 {
		channels = append(channels, &channel{key: bcp.ChannelKey{Controller: "main", Reader: bcp.AgentName("reader-" + strconv.Itoa(i))}})
	}
	begin := time.Now()
	p := topology(channels, nil)
	failIf(t, len(p.Flows) != len(channels) || len(p.Boxes) != len(channels)+1, "%d flows, %d boxes", len(p.Flows), len(p.Boxes))
	took := time.Since(begin)
	failIf(t, took > 5*time.Second, "the picture took %v", took)
}

// Each column is ordered by the other, so that few lines cross, and then by name.
func TestPictureCrossesFewLines(t *testing.T) {
	t.Parallel()
	var channels []*channel
	for _, pair := range [][2]bcp.AgentName{{"a", "z"}, {"b", "y"}, {"c", "x"}, {"c", "w"}} {
		channels = append(channels, &channel{key: bcp.ChannelKey{Controller: pair[0], Reader: pair[1]}})
	}
	var names []bcp.AgentName
	for _, box := range topology(channels, nil).Boxes {
		names = append(names, box.Name)
	}
	want := []bcp.AgentName{"w", "x", "y", "z", "c", "b", "a"}
	failIf(t, !slices.Equal(names, want), "%v, want %v", names, want)
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }
