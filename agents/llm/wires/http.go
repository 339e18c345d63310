package wires

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
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

// address is the URL of a path. A base URL may have the beginning of it already, or all of
// it: vendors name both.
func (c *client) address(path string) string {
	_, host, _ := strings.Cut(c.base, "://")
	_, has, _ := strings.Cut(host, "/")
	for end := len(path); end > 0; end = strings.LastIndexAny(path[:end], "/?") {
		if strings.HasSuffix("/"+has, path[:end]) {
			return c.base + path[end:]
		}
	}
	return c.base + path
}

// reading is how a wire reads a reply that is no error.
type reading interface {
	// event reads one event of a stream, and says whether it was the last; or a reply that is one document.
	event(data []byte) (last bool, err error)
	// complete reports whether a stream may end now, or a document is a reply.
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
	r, err := http.NewRequestWithContext(calling, http.MethodPost, c.address(path), bytes.NewReader(body))
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
		said := &heard{from: response.Body, silent: silent}
		if err = readResponse(response, said, reply); err != nil {
			err = &llm.Answered{Err: err, Status: response.StatusCode, Said: c.words(said.first)}
		}
	} else {
		var dialing *net.OpError // no listener
		err = llm.Overloaded{Unknown: !errors.As(err, &dialing) || dialing.Op != "dial"}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// heard resets a timeout at each byte, and keeps the beginning of what is read, where a provider says what is wrong.
type heard struct {
	from   io.Reader
	silent *time.Timer
	first  []byte
}

const keptReply = 4 << 10

// Read implements [io.Reader].
func (h *heard) Read(b []byte) (int, error) {
	n, err := h.from.Read(b)
	if n > 0 {
		h.silent.Reset(silence)
	}
	h.first = append(h.first, b[:min(n, keptReply-len(h.first))]...)
	return n, err
}

// words are what a provider says of an error: its message, or the beginning of its answer, on a line of at most 200 columns.
// There are none if a secret, or a part of the key, is in its answer.
func (c *client) words(body []byte) string {
	e, _ := errorIn(body)
	said := cmp.Or(string(e.Message), string(body))
	for _, text := range []string{string(body), said} {
		if unescaped, err := url.QueryUnescape(text); err == nil {
			text += unescaped
		}
		if guard.HasSecret([]byte(text)) || c.quotesKey(text) {
			return ""
		}
	}
	return inert.Cut(inert.Line(strings.Join(strings.Fields(strings.ToValidUTF8(said, "")), " ")), maxSaid)
}

const (
	maxSaid    = 200 // columns of a provider's words
	partOfAKey = 8   // bytes of the key that nobody is shown
)

// quotesKey reports whether a text has so much of the key that somebody might use it.
func (c *client) quotesKey(text string) bool {
	for i := 0; i+partOfAKey <= len(c.key); i++ {
		if strings.Contains(text, c.key[i:i+partOfAKey]) {
			return true
		}
	}
	return c.key != "" && strings.Contains(text, c.key)
}

func readResponse(response *http.Response, body *heard, reply reading) error {
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 { // NestJS answers a POST with 201
		raw, _ := io.ReadAll(io.LimitReader(body, maxReply))
		e, is := errorIn(raw)
		if !is {
			e = providerError{Message: words(raw)}
		}
		return e.err(response.StatusCode, retryAfter(response.Header.Get("Retry-After")))
	}
	err := readBody(response.Header.Get("Content-Type"), bufio.NewReader(body), reply)
	switch {
	case errors.Is(err, errCut) && reply.complete():
		return nil
	case errors.Is(err, errTooMuch):
		return llm.Protocol{What: tooMuch}
	case errors.Is(err, errCut) && len(body.first) == 0:
		return llm.Overloaded{Unknown: true}
	case errors.Is(err, errCut):
		return llm.Protocol{What: cutOff}
	case reply.begun() && (errors.As(err, new(llm.Overloaded)) || errors.As(err, new(llm.RateLimited))):
		return llm.Protocol{What: cutOff}
	}
	return err
}

// readBody reads a stream, or one document: some endpoints send the other of the two, or an error, under either type.
func readBody(contentType string, body *bufio.Reader, reply reading) error {
	kind, _, _ := mime.ParseMediaType(contentType)
	if mark, _ := body.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = body.Discard(len(mark))
	}
	first, _ := body.Peek(1)
	for len(first) > 0 && strings.Contains(" \t\r\n", string(first)) {
		_, _ = body.Discard(1)
		first, _ = body.Peek(1)
	}
	name, _ := body.Peek(len("retry:"))
	event := func(data []byte) (last bool, err error) {
		if e, is := errorIn(data); is {
			return false, e.err(http.StatusOK, 0)
		}
		return reply.event(data)
	}
	field, _, _ := strings.Cut(string(name), ":")
	if streams := kind == "text/event-stream" || len(field) < len(name) && slices.Contains([]string{"", "id", "data", "event", "retry"}, field); streams && string(first) != "{" && string(first) != "[" {
		return readEvents(body, event)
	}
	raw, err := io.ReadAll(io.LimitReader(body, maxReply+1))
	switch {
	case len(raw) > maxReply:
		return errTooMuch
	case err != nil:
		return errCut
	}
	if _, err = event(raw); err == nil && !reply.complete() {
		return llm.Protocol{What: "the reply has nothing in it, or no end"}
	}
	return err
}

const byteOrderMark = "\ufeff"

// errNotOurs says that a reply does not follow the protocol.
var errNotOurs error = llm.Protocol{What: "the reply is no JSON of this provider"}

// decode reads JSON of a provider. What of a text is no Unicode is replaced.
func decode(raw []byte, into any) error {
	if wire.Crowded(raw) || json.Unmarshal(raw, into, jsontext.AllowInvalidUTF8(true)) != nil {
		return errNotOurs
	}
	return nil
}

// number is a count of tokens or an index. One that is not a whole number, or is below zero, is 0: it is no reason to lose a
// reply.
type number int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(b []byte) error {
	whole, err := strconv.ParseInt(string(wire.WholeNumbers(bytes.Trim(b, `"`))), 10, 64)
	if err != nil {
		whole = 0
	}
	*n = number(max(0, whole))
	return nil
}

// label is the name of something, which some endpoints number.
type label string

// UnmarshalJSON implements json.Unmarshaler.
func (l *label) UnmarshalJSON(b []byte) error {
	switch jsontext.Value(b).Kind() {
	case '"':
		return decode(b, (*string)(l))
	case '0':
		*l = label(b)
	}
	return nil
}

// providerError is an error that a provider sends, with whatever status, or a document that has one.
type providerError struct {
	Object  string         `json:"object"`
	Type    string         `json:"type"`
	Code    jsontext.Value `json:"code"` // a word, or a status
	Status  jsontext.Value `json:"status"`
	Message words          `json:"message"`
	Error   jsontext.Value `json:"error"`
}

// words are a text, or whatever JSON stands in its place.
type words string

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(b []byte) error {
	*w = words(written(b))
	return nil
}

// firstOf returns the first of a list, as which Google's compatible endpoint sends an error, or what it got.
func firstOf(raw []byte) []byte {
	var list []jsontext.Value
	if jsontext.Value(raw).Kind() == '[' && decode(raw, &list) == nil && len(list) > 0 {
		return list[0]
	}
	return raw
}

// errorIn returns the error that a document is or has. Is it none, there may be a message all the same.
func errorIn(raw []byte) (e providerError, is bool) {
	if decode(firstOf(raw), &e) != nil {
		return providerError{}, false
	}
	switch e.Error.Kind() {
	case '"':
		return providerError{Message: cmp.Or(words(written(e.Error)), e.Message)}, true
	case '{':
		inner := providerError{}
		if decode(e.Error, &inner) != nil {
			inner.Message = words(e.Error)
		}
		inner.Message = cmp.Or(inner.Message, e.Message)
		return inner, true
	}
	return e, e.Object == "error" || e.Type == "error"
}

// err returns the error. One that came with status 200 has the status that it says.
func (e *providerError) err(status int, after time.Duration) error {
	for _, code := range []jsontext.Value{e.Code, e.Status} {
		if n, err := strconv.Atoi(strings.Trim(string(code), `"`)); err == nil && status == http.StatusOK && n >= 400 && n <= 599 {
			status = n
		}
	}
	words := strings.ToLower(e.Type + " " + string(e.Code) + " " + string(e.Status))
	has := func(marks ...string) bool {
		return slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(words, mark) })
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || has("authentication_error", "permission_error", "invalid_api_key", "unauthenticated", "permission_denied") || wrongKey.MatchString(string(e.Message)):
		return llm.Auth{}
	case status == http.StatusTooManyRequests || has("rate_limit", "resource_exhausted", "too_many_requests"):
		return llm.RateLimited{RetryAfter: after}
	case status == http.StatusRequestEntityTooLarge || has("request_too_large") || tooLong.MatchString(words+" "+strings.ToLower(string(e.Message))):
		return llm.TooLong{}
	case has("content_filter", "content_policy", "responsibleaipolicy"):
		return llm.Filtered{}
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500 && status <= 599:
		return llm.Overloaded{RetryAfter: after}
	case status != http.StatusOK:
		return llm.Protocol{What: "it answered with status " + strconv.Itoa(status), Refused: status >= 400 && status <= 499}
	case has("invalid_request", "not_found", "invalid_argument", "failed_precondition", "billing_error", "insufficient_quota"):
		return llm.Protocol{What: "it refused the request", Refused: true}
	}
	return llm.Overloaded{}
}

// wrongKey matches what providers say of a key with a status that is not of keys.
var wrongKey = regexp.MustCompile(`(?i)(?:api[ _-]?key|(?:access|auth|bearer) token|credentials?) (?:is |provided |was )*(?:not valid|invalid|incorrect|missing|expired|not found)|` +
	`(?:invalid|incorrect|missing|no|expired) (?:or invalid )?(?:api[ _-]?key|authorization|authentication|bearer|credentials)`)

// tooLong matches what providers and servers say, in small letters, of a request that does not fit into a model's context.
var tooLong = regexp.MustCompile(`context_length_exceeded|context_window_exceeded|exceed_context_size|string_above_max_length|` +
	`prompt is too long|input is too long|inputs? (?:is|are) longer than|input token count.* exceeds|exceeds the maximum number of tokens|` +
	`(?:maximum|max|model'?s?|available|allowed) (?:context|prompt|input|sequence) (?:length|size|window)|exceeds? (?:the )?(?:\w+ ){0,2}context|` +
	`(?:longer|larger) than the (?:model's )?context|context (?:length|size|window) (?:is |was |of \S+ )?(?:exceeded|too small)|too many (?:input|prompt) tokens|max_new_tokens.* must be <=|reduce the length of the (?:messages|prompt|input)`)

// retryAfter parses seconds, or a date.
func retryAfter(value string) time.Duration {
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, time.Until(at)), maxRetryAfter)
	}
	seconds, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
