package wires_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

func vendorOf(provider string) vendor {
	return vendors[slices.IndexFunc(vendors, func(v vendor) bool { return v.Provider == provider })]
}

// replied is what a model at a compatible endpoint is read to have said: its texts, and its calls as id name arguments.
func replied(t *testing.T, provider, contentType, body string) (string, *llm.Reply, error) {
	t.Helper()
	request, _ := conversation(t)
	model := opened(t, vendorOf(provider), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		if contentType == "" {
			w.WriteHeader(http.StatusCreated)
		}
		_, _ = io.WriteString(w, body)
	})
	reply, err := model.Provider.Do(t.Context(), request)
	if err != nil {
		return "", nil, err
	}
	var all []string
	for _, s := range reply.Said {
		all = append(all, s.Text())
	}
	for _, c := range reply.Calls {
		all = append(all, c.ID+" "+c.Name+" "+string(c.Arguments))
	}
	return strings.Join(all, "|"), reply, nil
}

// chunks is a stream of pieces of calls.
func chunks(calls ...string) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"delta\":{\"tool_calls\":[%s]},\"finish_reason\":null}]}\n\n", c)
	}
	return b.String() + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"
}

// repliesOf yields what testdata/replies.txtar has of a kind: the body of a reply, and what is read of it.
func repliesOf(t *testing.T, provider string) iter.Seq2[string, [2]string] {
	t.Helper()
	archive := must(txtar.ParseFile("testdata/replies.txtar"))
	stopIf(t, len(archive.Files) != 55, "%d replies", len(archive.Files))
	return func(yield func(string, [2]string) bool) {
		for _, f := range archive.Files {
			sent, want, _ := strings.Cut(strings.TrimSuffix(string(f.Data), "\n"), "\n=> ")
			events := strings.Split(sent, "\n")
			switch kind, _, _ := strings.Cut(f.Name, ":"); kind {
			case "pieces":
				sent = chunks(events...)
			case "stream":
				sent = "data: " + strings.Join(events, "\n\ndata: ") + "\n\n"
			case "anthropic stream":
				sent = "data: " + `{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}` + "\n\ndata: " + strings.Join(events, "\n\ndata: ") + "\n\n"
			}
			if strings.HasPrefix(f.Name, "anthropic ") == (provider == "anthropic") && !yield(f.Name, [2]string{sent, want}) {
				return
			}
		}
	}
}

// Endpoints of the same interface send the pieces of calls in many ways: none loses a paid reply.
func TestPiecesOfCalls(t *testing.T) {
	t.Parallel()
	for name, reply := range repliesOf(t, "openai") {
		sent, want := reply[0], reply[1]
		for how, body := range map[string]string{
			"as it is": sent, "CR LF": strings.ReplaceAll(sent, "\n", "\r\n"), "CR": strings.ReplaceAll(sent, "\n", "\r"), "with a mark": "\ufeff" + sent, "after white space": "\r\n\n" + sent,
			"after a comment": strings.Replace(sent, "data:", ": x\nid: 1\ndata:", 1), "without its last lines": strings.TrimSuffix(sent, "\n\n"),
		} {
			for _, contentType := range []string{"text/event-stream", "application/json", ""} {
				got, _, err := replied(t, "openai", contentType, body)
				failIf(t, got != want, "%s, %s, as %q: %q, %v, want %q", name, how, contentType, got, err, want)
			}
		}
	}
}

// What Gemini says where others say nothing: a call that it broke, a list in place of a stream.
func TestRepliesOfGoogle(t *testing.T) {
	t.Parallel()
	call := `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"default_api.f","args":{"x":12.0}}}]},"finishReason":"STOP"}]}`
	for body, want := range map[string]string{
		`{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL"}]}`: "", `{"candidates":[{"finishReason":"UNEXPECTED_TOOL_CALL"}]}`: "",
		call: `call-1. f {"x":12}`, "[" + call + "]": `call-1. f {"x":12}`,
		`[{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]},{"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}]}]`: "Hello",
	} {
		got, reply, err := replied(t, "google", "application/json", body)
		failIf(t, err != nil || got != want || want == "" && reply.Stop != llm.StopEnd, "%s: %q, %v", body, got, err)
	}
	for _, body := range []string{"[]", "[" + call, `[{"candidates":[]}]`} {
		got, _, err := replied(t, "google", "application/json", body)
		failIf(t, err == nil, "%s: %q", body, got)
	}
}

// An error is read wherever it stands.
func TestErrorsOfCompatibleEndpoints(t *testing.T) {
	t.Parallel()
	limited, overloaded, long, auth := llm.RateLimited{}, llm.Overloaded{}, llm.TooLong{}, llm.Auth{}
	refused := llm.Protocol{What: "it refused the request", Refused: true}
	status := func(n string) llm.Protocol {
		return llm.Protocol{What: "it answered with status " + n, Refused: true}
	}
	for body, want := range map[string]error{
		`{"error":{"message":"Provider returned error","code":429,"type":"rate_limit_error"}}`: limited, `{"error":{"code":429}}`: limited, `{"error":{"code":"429"}}`: limited,
		`{"error":{"code":"rate_limit_exceeded"}}`: limited, `[{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}]`: limited,
		`[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`: auth, `{"error":{"status":"RESOURCE_EXHAUSTED"}}`: limited, `{"error":{"type":"too_many_requests"}}`: limited,
		`{"error":{"code":503}}`: overloaded, `{"error":{"type":"overloaded_error"}}`: overloaded, `{"error":{"type":"server_error"}}`: overloaded, `{"error":"it broke"}`: overloaded, `{"error":{}}`: overloaded,
		`{"object":"error","message":"This model's maximum context length is 4096 tokens","code":400}`: long, `{"error":"context length exceeded"}`: long, `{"error":{"code":400},"message":"context length exceeded"}`: long,
		`{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_ctx":4096}}`: long,
		`{"error":{"code":401}}`: auth, `{"error":{"code":"invalid_api_key"}}`: auth, `{"error":{"code":403}}`: auth, `{"type":"error","error":{"type":"authentication_error"}}`: auth,
		`{"error":{"code":400,"message":"no such argument"}}`: status("400"), `{"error":{"code":402,"message":"no credit"}}`: status("402"), `{"error":{"code":404}}`: status("404"),
		`{"error":{"type":"invalid_request_error","message":"x"}}`: refused, `{"error":{"type":"not_found_error"}}`: refused,
		`{"error":{"code":"content_filter"}}`: llm.Filtered{},
	} {
		for _, provider := range []string{"openai", "anthropic"} {
			for how, sent := range map[string][2]string{"one document": {"application/json", body}, "a stream": {"text/event-stream", "event: error\ndata: " + body + "\n\n"}, "a document as a stream": {"text/event-stream", body}} {
				_, _, err := replied(t, provider, sent[0], sent[1])
				failIf(t, !errors.Is(err, want), "%s, %s of %s: %v, want %v", body, how, provider, err, want)
			}
		}
	}
	for _, text := range []string{
		"exceed_context_size_error", "the request exceeds the available context size. try increasing the context size or enable context shift", "context_length_exceeded", "prompt is too long: 210000 tokens > 200000 maximum",
		"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "This model's maximum context length is 8192 tokens.", "input length and max_tokens exceed context limit: 1 + 2 > 3",
		"Input is too long for requested model.", "This model's maximum prompt length is 131072 but the request contains 200000 tokens.", "Requested tokens (5000) exceed context window of 4096",
		"inputs tokens + max_new_tokens must be <= 4096", "The prompt is larger than the context", "Please reduce the length of the messages or completion.", "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
		"Context size exceeded", "request (9000 tokens) exceeds the available context size (8192 tokens)",
	} {
		for _, n := range []int{400, 413, 422, 500} {
			body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": text, "type": "invalid_request_error"}})
			for _, sent := range []string{string(body), text} {
				fails(t, answered(t, "openai", n, "", sent), long, "%d with %s", n, sent)
			}
		}
	}
	for _, text := range []string{"API key not valid. Please pass a valid API key.", "Missing or invalid Authorization header.", "Incorrect API key provided: sk-1.", "Invalid API key", "No api key passed in.", "no auth: missing bearer"} {
		for _, n := range []int{400, 422} {
			fails(t, answered(t, "openai", n, "", text), auth, "%d with %s", n, text)
		}
	}
	for _, text := range []string{"max_tokens must be positive", "an invalid token id in logit_bias", "no credit", "context is not a member of the request", "unknown model", "the image is too large"} {
		fails(t, answered(t, "openai", 400, "", text), status("400"), "%s", text)
	}
	at := time.Now().Add(40 * time.Second).UTC().Format(http.TimeFormat)
	for _, n := range []int{429, 503, 529, 500} {
		for after, want := range map[string]time.Duration{"7": 7 * time.Second, "3600": time.Minute, "": 0, "soon": 0, "-1": 0, at: 40 * time.Second, "Mon, 02 Jan 2006 15:04:05 GMT": 0} {
			var got time.Duration
			err := answered(t, "anthropic", n, after, "")
			if limited, ok := errors.AsType[llm.RateLimited](err); ok {
				got = limited.RetryAfter
			} else if overloaded, ok := errors.AsType[llm.Overloaded](err); ok {
				got = overloaded.RetryAfter
			}
			failIf(t, got > want || got < want-5*time.Second, "%d after %q: %v after %s", n, after, err, got)
		}
	}
}

func answered(t *testing.T, provider string, status int, after, body string) error {
	t.Helper()
	request, _ := conversation(t)
	model := opened(t, vendorOf(provider), func(w http.ResponseWriter, _ *http.Request) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	_, err := model.Provider.Do(t.Context(), request)
	return err
}

// A call that was refused costs what the provider says, or nothing; one that may have been answered counts as reserved.
func TestCostOfFailures(t *testing.T) {
	t.Parallel()
	for n, known := range map[int]bool{400: true, 401: true, 402: true, 404: true, 413: true, 422: true, 429: true, 500: true, 529: true, 302: false} {
		u, ok := llm.Cost(answered(t, "openai", n, "", ""))
		failIf(t, ok != known || u != (llm.Usage{}), "status %d: %+v, %v", n, u, ok)
	}
	_, _, err := replied(t, "anthropic", "application/json", `{"type":"message","content":[],"stop_reason":"refusal","usage":{"input_tokens":7,"output_tokens":2}}`)
	if u, ok := llm.Cost(err); !ok || u != (llm.Usage{Input: 7, Output: 2}) || !errors.Is(err, llm.Filtered{}) {
		t.Errorf("a refusal: %+v, %v, %v", u, ok, err)
	}
	_, _, err = replied(t, "openai", "application/json", `{"choices":[{"message":{"refusal":"no"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`)
	u, ok := llm.Cost(err)
	failIf(t, !ok || u != (llm.Usage{Input: 7, Output: 1}), "a refusal: %+v, %v, %v", u, ok, err)
	for _, err := range []error{llm.Overloaded{Unknown: true}, llm.Protocol{What: "cut"}, errors.New("x"), nil} {
		_, ok := llm.Cost(err)
		failIf(t, ok, "%v is known", err)
	}
}

// Proxies of Messages send blocks and counts in more ways than one.
func TestMessagesOfProxies(t *testing.T) {
	t.Parallel()
	for name, sent := range repliesOf(t, "anthropic") {
		got, reply, err := replied(t, "anthropic", "text/event-stream", sent[0])
		stopIf(t, err != nil, "%s: %v", name, err)
		got = fmt.Sprintf("%s (%d tokens)", got, reply.Usage.Output)
		failIf(t, got != sent[1] || reply.Usage.Input != 9, "%s: %.80q, %+v", name, got, reply)
	}
}

// What a model wrote is sent back so that its endpoint takes it: no text of white space to Messages, no arguments that are no
// JSON to Chat Completions, no message of nothing to either.
func TestWhatIsSentBack(t *testing.T) {
	t.Parallel()
	request, _ := conversation(t)
	turns := request.Turns
	for name, tt := range map[string]struct {
		said              []llm.Part
		arguments         string // empty: no call
		anthropic, openAI string
	}{
		"a text":         {[]llm.Part{llm.NewSaid("Well.")}, `{"a":1}`, `{"type":"text","text":"Well."},{"type":"tool_use","id":"c1","name":"fetch","input":{"a":1}}`, `"{\"a\":1}"`},
		"white space":    {[]llm.Part{llm.NewSaid(" \n\t")}, `{}`, `{"type":"tool_use","id":"c1","name":"fetch","input":{}}`, `"{}"`},
		"both":           {[]llm.Part{llm.NewSaid("\n\n"), llm.NewSaid("x")}, `{}`, `{"type":"text","text":"x"},{"type":"tool_use","id":"c1","name":"fetch","input":{}}`, `"{}"`},
		"cut":            {nil, `{"ok": tru`, `{"type":"tool_use","id":"c1","name":"fetch","input":{}}`, `"{}"`},
		"no object":      {nil, `"{}"`, `{"type":"tool_use","id":"c1","name":"fetch","input":{}}`, `"{}"`},
		"twice a member": {nil, `{"a":1,"a":2}`, `{"type":"tool_use","id":"c1","name":"fetch","input":{}}`, `"{}"`},
		"nothing at all": {[]llm.Part{llm.NewSaid(" ")}, "", "", ""},
	} {
		r := *request
		r.Turns = []llm.Turn{turns[0], {Role: llm.Model, Parts: tt.said}, {Role: llm.User, Parts: turns[2].Parts}}
		if tt.arguments != "" {
			r.Turns[1].Calls = []llm.Call{{ID: "c1", Name: "fetch", Arguments: jsontext.Value(tt.arguments)}}
			r.Turns[2].Results = turns[2].Results[:1]
		}
		for _, provider := range []string{"anthropic", "openai"} {
			var sent struct {
				Messages []struct {
					Role    string         `json:"role"`
					Content jsontext.Value `json:"content"`
					Calls   []struct {
						Function struct {
							Arguments jsontext.Value `json:"arguments"`
						} `json:"function"`
					} `json:"tool_calls"`
				} `json:"messages"`
			}
			v := vendorOf(provider)
			model := opened(t, v, func(w http.ResponseWriter, r *http.Request) {
				noError(t, json.UnmarshalRead(r.Body, &sent))
				_, _ = io.WriteString(w, v.Text)
			})
			_, err := model.Provider.Do(t.Context(), &r)
			failIf(t, err != nil, "%v", err)
			got, want := "", tt.openAI
			for _, m := range sent.Messages {
				switch {
				case m.Role != "assistant":
				case provider == "anthropic":
					got = strings.Trim(string(m.Content), "[]")
				case len(m.Calls) > 0:
					got = string(m.Calls[0].Function.Arguments)
				}
			}
			if provider == "anthropic" {
				want = tt.anthropic
			}
			failIf(t, got != want, "%s, %s: %s, want %s", name, provider, got, want)
		}
	}
}

// An endpoint that knows another form of a request says so in its refusal, and is asked in that form from then on; any other
// refusal is one.
func TestFormsOfARequest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refusals []string // by their field
		requests int      // for two calls
	}{
		"the newer name of the limit": {[]string{"max_tokens", `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}`}, 3},
		"no usage of a stream":        {[]string{"stream_options", `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`}, 3},
		"no forced call":              {[]string{"tool_choice", `{"error":{"message":"Thinking mode does not support this tool_choice"}}`}, 3},
		"something else":              {[]string{"max_tokens", `{"error":{"message":"max_tokens is too large"}}`}, 2},
	} {
		request, _ := conversation(t)
		requests := 0
		model := opened(t, vendorOf("openai"), func(w http.ResponseWriter, r *http.Request) {
			requests++
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), `"`+tt.refusals[0]+`"`) {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = io.WriteString(w, tt.refusals[1])
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`))
		})
		for range 2 {
			_, err := model.Provider.Do(t.Context(), request)
			failIf(t, (err == nil) != (tt.requests == 3), "%s: %v", name, err)
		}
		failIf(t, requests != tt.requests, "%s: %d requests for two calls", name, requests)
	}
}
