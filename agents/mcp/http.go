package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
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
	return Guard(token, exactIDs(protocol))
}

// exactIDs has the id of a request that the library would round come back byte for byte: it gets a text in its place. Only
// the answer to this request has it.
func exactIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxMessage+1))
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body)) // the rest is too long, or gone
		var m map[string]jsontext.Value
		if err == nil && len(body) <= maxMessage && !wire.Crowded(body) && json.Unmarshal(body, &m) == nil && m["id"].Kind() == '0' && len(m["id"]) <= maxID {
			if _, err := strconv.ParseInt(string(m["id"]), 10, 54); err != nil {
				text := `"` + rand.Text() + `"`
				w = &answerWriter{ResponseWriter: w, text: []byte(`"id":` + text), id: []byte(`"id":` + string(m["id"]))}
				m["id"] = jsontext.Value(text)
				if changed, err := json.Marshal(m, json.Deterministic(true)); err == nil {
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// answerWriter writes the host's id in place of the text that stands for it. The library writes each message at once.
type answerWriter struct {
	http.ResponseWriter
	text, id []byte
}

// Write implements [io.Writer].
func (w *answerWriter) Write(b []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(bytes.Replace(b, w.text, w.id, 1)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Unwrap is for [http.ResponseController].
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
