package wires

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

const (
	maxRequest = 4 << 20 // bytes
	maxReply   = 1 << 20
	maxCalls   = 64 // of one reply

	// silence is how long a provider may send nothing: before its first byte, and between two.
	silence = time.Minute
	// callTimeout bounds one call of a provider.
	callTimeout = 5 * time.Minute
	// maxRetryAfter bounds how long a provider may ask to wait.
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
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:   true,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     90 * time.Second,
		}
	}
	return &http.Client{
		Transport:     transport,
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// reading is how a wire reads a reply.
type reading interface {
	// whole reads a reply that is one document.
	whole(raw []byte) error
	// event reads one event of a stream, and says whether it was the last.
	event(data []byte) (last bool, err error)
	// complete reports whether a stream may end now.
	complete() bool
	// begun reports whether part of the reply has come.
	begun() bool
}

// post sends a request and reads the reply. The error is a type of package llm, or of
// ctx. Only [llm.RateLimited] and [llm.Overloaded] may be retried, and they are returned
// only before any part of the reply has come.
func (c *client) post(ctx context.Context, path string, header map[string]string, request any, reply reading) error {
	body, err := json.Marshal(request, json.Deterministic(true))
	if err != nil {
		return llm.Protocol{What: "the request cannot be encoded"}
	}
	if len(body) > maxRequest {
		return llm.TooLong{}
	}
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(silence, cancel)
	defer silent.Stop()
	r, err := http.NewRequestWithContext(calling, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return llm.Protocol{What: "the base URL is none"}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "bcpmesh")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := c.http.Do(r)
	if err == nil {
		err = readResponse(response, &heard{response.Body, silent, false}, reply)
	} else {
		var dialing *net.OpError // no listener
		err = llm.Overloaded{Unknown: !errors.As(err, &dialing) || dialing.Op != "dial"}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// heard resets a timeout at each byte.
type heard struct {
	io.Reader
	silent *time.Timer
	some   bool
}

// Read implements [io.Reader].
func (h *heard) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.some = true
		h.silent.Reset(silence)
	}
	return n, err
}

func readResponse(response *http.Response, body *heard, reply reading) error {
	defer func() { _ = response.Body.Close() }()
	var err error
	switch kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); {
	case response.StatusCode != http.StatusOK:
		raw, _ := io.ReadAll(io.LimitReader(body, maxReply))
		return statusError(response, raw)
	case kind == "text/event-stream":
		if err = readEvents(body, reply.event); errors.Is(err, errCut) && reply.complete() {
			return nil
		}
	default:
		var raw []byte
		switch raw, err = io.ReadAll(io.LimitReader(body, maxReply+1)); {
		case len(raw) > maxReply:
			err = errTooMuch
		case err != nil:
			err = errCut
		default:
			err = reply.whole(raw)
		}
	}
	switch {
	case errors.Is(err, errTooMuch):
		return llm.Protocol{What: tooMuch}
	case errors.Is(err, errCut) && !body.some:
		return llm.Overloaded{Unknown: true}
	case errors.Is(err, errCut):
		return llm.Protocol{What: cutOff}
	case reply.begun() && (errors.As(err, new(llm.Overloaded)) || errors.As(err, new(llm.RateLimited))):
		return llm.Protocol{What: cutOff}
	}
	return err
}

// errNotOurs says that a reply does not follow the protocol.
var errNotOurs error = llm.Protocol{What: "the reply is no JSON of this provider"}

// decode reads JSON of a provider.
func decode(raw []byte, into any) error {
	if wire.Crowded(raw) || json.Unmarshal(raw, into) != nil {
		return errNotOurs
	}
	return nil
}

// streamError is an error that a provider sends after it has begun to answer with 200.
type streamError struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

func (e *streamError) err() error {
	switch {
	case e.Type == "rate_limit_error" || e.Status == "RESOURCE_EXHAUSTED":
		return llm.RateLimited{}
	case e.Type == "authentication_error" || e.Type == "permission_error" || e.Status == "UNAUTHENTICATED" || e.Status == "PERMISSION_DENIED":
		return llm.Auth{}
	}
	return llm.Overloaded{}
}

// tooLongMarks are the providers' texts, in a response with 400, for a request that is
// too long.
var tooLongMarks = [][]byte{[]byte("context_length_exceeded"), []byte("prompt is too long"), []byte("exceeds the maximum number of tokens"), []byte("maximum context length"), []byte("exceed context limit")}

// statusError returns the error for a status.
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

// retryAfter parses seconds; a date, which almost nobody sends, is ignored.
func retryAfter(value string) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// count returns a number of tokens, and 0 for a negative one.
func count(n int64) int64 { return max(0, n) }
