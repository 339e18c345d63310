package mcp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// scope is the scope of the token. With it the middleware names the scheme in the
// WWW-Authenticate of a refusal.
const scope = "agent"

// Handler serves hosts over streamable HTTP, at any path, with [Guard]. A request to a
// loopback address has to name one in its Host: a browser of this machine may have been
// made to send it.
func (s *Server) Handler(token string) http.Handler {
	protocol := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.mcp }, &sdk.StreamableHTTPOptions{
		SessionTimeout: sessionIdle, MaxRequestBodyBytes: maxMessage,
	})
	return Guard(token, protocol)
}

// Guard requires the token, one word, in requests; with an empty one all are refused.
// Even with the token, a web page of another origin may change nothing.
func Guard(token string, next http.Handler) http.Handler {
	guarded := auth.RequireBearerToken(only(token), &auth.RequireBearerTokenOptions{Scopes: []string{scope}, AllowMissingExpiration: true})(next)
	return http.NewCrossOriginProtection().Handler(guarded)
}

// only verifies one token, in constant time.
func only(token string) auth.TokenVerifier {
	want := sha256.Sum256([]byte(token))
	return func(_ context.Context, given string, r *http.Request) (*auth.TokenInfo, error) {
		got := sha256.Sum256([]byte(given))
		if token == "" || len(r.Header.Values("Authorization")) != 1 || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{Scopes: []string{scope}}, nil
	}
}
