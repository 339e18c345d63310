package mcp

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Handler serves hosts over streamable HTTP, at any path. It takes requests that
// bear the token, were sent to a loopback address by name or number, and come from
// no web page of another origin: whoever can make a browser of this machine send a
// request has neither. An empty token refuses everything.
func (s *Server) Handler(token string) http.Handler {
	protocol := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.mcp }, &sdk.StreamableHTTPOptions{
		SessionTimeout: sessionIdle, MaxRequestBodyBytes: maxMessage,
	})
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !loopbackHost(r.Host):
			http.Error(w, "this host is not served", http.StatusForbidden)
		case !sameOrigin(r):
			http.Error(w, "requests of other origins are refused", http.StatusForbidden)
		case token == "" || !bears(r, want):
			w.Header().Set("WWW-Authenticate", `Bearer realm="bcpmesh"`)
			http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
		default:
			protocol.ServeHTTP(w, r)
		}
	})
}

// loopbackHost reports whether the Host of a request is this machine: a name that
// an attacker's DNS can point here is not.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// sameOrigin reports whether a request is of no web page, or of one that was
// served here.
func sameOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	return len(origins) == 0 || len(origins) == 1 && origins[0] == "http://"+r.Host
}

// bears compares in a time that tells nothing of the token.
func bears(r *http.Request, want [sha256.Size]byte) bool {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	scheme, given, _ := strings.Cut(values[0], " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(given)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}
