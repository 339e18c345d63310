package mcp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// Over HTTP only who bears the token is served, and no web page: not one of
// another origin, and not one whose name was made to point here.
//
// covers P1.5
func TestHTTPIsGuarded(t *testing.T) {
	t.Parallel()
	m := startMesh(t, desk())
	s, _ := serve(t, m, "main", bcp.RoleController)
	web := httptest.NewServer(s.Handler(token))
	t.Cleanup(web.Close)
	closed := httptest.NewServer(s.Handler(""))
	t.Cleanup(closed.Close)
	port := web.URL[strings.LastIndex(web.URL, ":"):]
	for _, c := range []struct {
		name   string
		url    string
		change func(*http.Request)
		status int
	}{
		{"as it should be", web.URL, func(*http.Request) {}, http.StatusOK},
		{"another path", web.URL + "/mcp", func(*http.Request) {}, http.StatusOK},
		{"localhost by name", web.URL, func(r *http.Request) { r.Host = "localhost" + port }, http.StatusOK},
		{"by its IPv6 number", web.URL, func(r *http.Request) { r.Host = "[::1]" + port }, http.StatusOK},
		{"its own page", web.URL, func(r *http.Request) { r.Header.Set("Origin", web.URL) }, http.StatusOK},
		{"scheme in another case", web.URL, func(r *http.Request) { r.Header.Set("Authorization", "bearer "+token) }, http.StatusOK},
		{"no token", web.URL, func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		{"another token", web.URL, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+"x") }, http.StatusUnauthorized},
		{"half the token", web.URL, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token[:5]) }, http.StatusUnauthorized},
		{"an empty token", web.URL, func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, http.StatusUnauthorized},
		{"another scheme", web.URL, func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token) }, http.StatusUnauthorized},
		{"two tokens", web.URL, func(r *http.Request) { r.Header.Add("Authorization", "Bearer other") }, http.StatusUnauthorized},
		{"the token in the address", web.URL + "?access_token=" + token[:1], func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		{"a server without a token", closed.URL, func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, http.StatusUnauthorized},
		{"a name that was made to point here", web.URL, func(r *http.Request) { r.Host = "evil.example" + port }, http.StatusForbidden},
		{"a name that begins like a number", web.URL, func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, http.StatusForbidden},
		{"another number", web.URL, func(r *http.Request) { r.Host = "192.0.2.1" + port }, http.StatusForbidden},
		{"any number", web.URL, func(r *http.Request) { r.Host = "0.0.0.0" + port }, http.StatusForbidden},
		{"a page of another origin", web.URL, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
		{"a page of another port", web.URL, func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, http.StatusForbidden},
		{"a page without an origin", web.URL, func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		{"a page of another site", web.URL, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		{"a page of another port of this host", web.URL, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		{"a page of this server", web.URL, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, http.StatusOK},
		{"a page that reads without the token", web.URL, func(r *http.Request) {
			r.Method = http.MethodGet
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Del("Authorization")
		}, http.StatusUnauthorized},
		{"too large", web.URL, func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat(" ", 1<<20+1))) }, http.StatusRequestEntityTooLarge},
	} {
		r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader(initialize)))
		r.ContentLength = -1
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		c.change(r)
		transport := &http.Transport{}
		got, err := transport.RoundTrip(r)
		stopIf(t, err != nil, "%s: %v", c.name, err)
		body, _ := io.ReadAll(got.Body)
		_ = got.Body.Close()
		transport.CloseIdleConnections()
		failIf(t, got.StatusCode != c.status, "%s: %s: %s", c.name, got.Status, body)
		if challenge := got.Header.Get("WWW-Authenticate"); (c.status == http.StatusUnauthorized) != strings.HasPrefix(challenge, "Bearer ") {
			t.Errorf("%s: %s with WWW-Authenticate %q", c.name, got.Status, challenge)
		}
		failIf(t, c.status != http.StatusOK && strings.Contains(string(body), "bcpmesh"),
			"%s: it tells what it is: %s", c.name, body)
	}
}
