package web

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// listen opens a stream as a page does; header changes what a page sends.
func (s *site) listen(t *testing.T, address, cookie, query string, header map[string]string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	place, cookie, _ := strings.Cut(cookie, " ")
	r := must(http.NewRequestWithContext(ctx, "GET", address+"/"+place+"/events"+query, nil))
	r.Host = "localhost:" + testPort
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.AddCookie(&http.Cookie{Name: s.cookie, Value: cookie})
	for key, value := range header {
		r.Header.Set(key, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	reply := must(client.Do(r))
	t.Cleanup(func() { _ = reply.Body.Close() }) // what it says was read, or does not matter
	return reply
}

func nextMessage(t *testing.T, lines *bufio.Scanner) (m news) {
	t.Helper()
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			noError(t, json.Unmarshal([]byte(text), &m, json.RejectUnknownMembers(true)))
			return m
		}
	}
	t.Fatal("the stream has ended: ", lines.Err())
	return m
}

// A page that is live hears of each decision once, from those on that it does not show,
// as plain text; what is too much is counted. No other site and nobody without a session
// may listen, and there is an end to how many do.
//
// covers P2.5, A-FAKEUI
func TestEvents(t *testing.T) {
	t.Parallel()
	s, cookie := loggedIn(t, "\x1b]0;x\x07\u202e<script>alert(1)</script>")
	server := httptest.NewServer(s.http.Handler)
	t.Cleanup(server.Close)
	for _, header := range []map[string]string{{"Sec-Fetch-Site": ""}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "none"}} {
		got := s.listen(t, server.URL, cookie, "", header)
		failIf(t, got.StatusCode != http.StatusForbidden, "%v: %d", header, got.StatusCode)
	}
	got := s.listen(t, server.URL, "x", "", nil)
	failIf(t, got.StatusCode != http.StatusSeeOther, "without a session: %d", got.StatusCode)

	total := s.history.total()
	reply := s.listen(t, server.URL, cookie, "?from=0", nil)
	lines := bufio.NewScanner(reply.Body)
	lines.Buffer(nil, 1<<20)
	m := nextMessage(t, lines)
	if want := min(int(total), maxEvents); len(m.Events) != want || m.Missed != int(total)-want || m.Total != total {
		t.Errorf("%d events, %d missed, of %d", len(m.Events), m.Missed, total)
	}
	for _, e := range m.Events {
		failIf(t, strings.ContainsAny(e.Line, "\x1b\x07\u202e"), "%q is not inert", e.Line)
	}
	s.history.add(total+1, &bcp.Decision{Seq: total + 1, Kind: bcp.KindAsk, Verdict: bcp.Accept, Time: 1})
	if m := nextMessage(t, lines); len(m.Events) != 1 || m.Missed != 0 || m.Total != total+1 || m.Events[0].Word != "accept" || !strings.HasPrefix(m.Events[0].Path, "/decisions/") {
		t.Errorf("after one decision: %+v", m)
	}
	for _, from := range []string{"", "?from=99999999", "?from=x"} { // of a server before this one
		again := bufio.NewScanner(s.listen(t, server.URL, cookie, from, nil).Body)
		m := nextMessage(t, again)
		failIf(t, len(m.Events) != 0 || m.Missed != 0, "%q: %+v", from, m)
	}
	s.live.Store(maxStreams - 1)
	got = s.listen(t, server.URL, cookie, "", nil)
	failIf(t, got.StatusCode != http.StatusOK, "a stream below the limit: %d", got.StatusCode)
	got = s.listen(t, server.URL, cookie, "", nil)
	failIf(t, got.StatusCode != http.StatusServiceUnavailable, "one stream too many: %d", got.StatusCode)
	close(s.ending)
	for lines.Scan() {
		failIf(t, strings.HasPrefix(lines.Text(), "data"), "after the end: %s", lines.Text())
	}
}
