package wires

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

const (
	maxRequest = 4 << 20 // bytes
	maxReply   = 1 << 20
	maxCalls   = 64 // of one reply

	firstByteTimeout = time.Minute
	// maxRetryAfter bounds what a provider may ask to wait for.
	maxRetryAfter = time.Minute
)

// client posts JSON to one provider.
type client struct {
	base string
	key  string
	http *http.Client
}

func newHTTP(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{
			TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:     true,
			ResponseHeaderTimeout: firstByteTimeout,
			TLSHandshakeTimeout:   10 * time.Second,
			MaxIdleConnsPerHost:   4,
			IdleConnTimeout:       90 * time.Second,
		}
	}
	return &http.Client{
		Transport:     transport,
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post sends a request and reads the reply into result. The error is a type of package llm, or of ctx.
func (c *client) post(ctx context.Context, path string, header map[string]string, request, result any) error {
	body, err := json.Marshal(request, json.Deterministic(true))
	if err != nil {
		return llm.Protocol{What: "the request cannot be encoded"}
	}
	if len(body) > maxRequest {
		return llm.TooLong{}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return llm.Protocol{What: "the base URL is none"}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "bcpmesh")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return llm.Overloaded{}
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case response.StatusCode != http.StatusOK:
		return statusError(response, raw)
	case len(raw) > maxReply:
		return llm.Protocol{What: "the reply is longer than 1 MiB"}
	case err != nil:
		return llm.Overloaded{} // it was cut
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return llm.Protocol{What: "the reply is no JSON of this provider"}
	}
	return nil
}

// tooLongMarks are how providers say that a request does not fit, in what they send with 400.
var tooLongMarks = [][]byte{[]byte("context_length_exceeded"), []byte("prompt is too long"), []byte("exceeds the maximum number of tokens"), []byte("maximum context length"), []byte("exceed context limit")}

// statusError says what a status means.
func statusError(r *http.Response, body []byte) error {
	switch code := r.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return llm.Auth{}
	case code == http.StatusTooManyRequests:
		return llm.RateLimited{RetryAfter: retryAfter(r.Header.Get("Retry-After"))}
	case code == http.StatusRequestEntityTooLarge:
		return llm.TooLong{}
	case code == http.StatusRequestTimeout, code == http.StatusConflict, code == http.StatusTooEarly, code >= 500 && code <= 599:
		return llm.Overloaded{}
	case code == http.StatusBadRequest:
		for _, mark := range tooLongMarks {
			if bytes.Contains(body, mark) {
				return llm.TooLong{}
			}
		}
	}
	return llm.Protocol{What: "it answered with status " + strconv.Itoa(r.StatusCode)}
}

// retryAfter reads seconds; a date, as almost nobody sends, counts as nothing.
func retryAfter(value string) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// count reads a number of tokens. Less than none is none.
func count(n int64) int64 { return max(0, n) }
