package wires_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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

// Endpoints of the same interface send the pieces of calls in many ways: none loses a paid reply.
func TestPiecesOfCalls(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ stream, want string }{
		"as documented": {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`, `{"index":0,"function":{"arguments":"{\"x\""}}`, `{"index":0,"function":{"arguments":":1}"}}`), `a f {"x":1}`},
		"an id in each": {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`, `{"index":0,"id":"b","function":{"arguments":"{\"x\""}}`, `{"index":0,"id":"c","function":{"arguments":":1}"}}`,
			`{"index":0,"id":"d","function":{"arguments":""}}`), `a f {"x":1}`},
		"an id and the name in each": {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`, `{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\""}}`, `{"index":0,"id":"c","function":{"name":"f","arguments":":1}"}}`), `a f {"x":1}`},
		"the same in each":           {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`, `{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}`, `{"index":0,"id":"a","function":{"name":"f","arguments":""}}`), `a f {}`},
		"the name in each, no id":    {chunks(`{"index":0,"function":{"name":"f","arguments":"{"}}`, `{"index":0,"function":{"name":"f","arguments":"}"}}`, `{"index":0,"function":{"name":"f","arguments":""}}`), `call-1 f {}`},
		"an id after the name":       {chunks(`{"index":0,"function":{"name":"f","arguments":""}}`, `{"index":0,"id":"a","function":{"arguments":"{\"x\":1}"}}`), `a f {"x":1}`},
		"an id at the end":           {chunks(`{"index":0,"function":{"name":"f","arguments":"{}"}}`, `{"index":0,"id":"a"}`), `a f {}`},
		"a name after the id":        {chunks(`{"index":0,"id":"a","function":{"arguments":""}}`, `{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), `a f {}`},
		"a name at the end":          {chunks(`{"index":0,"id":"a","function":{"arguments":"{}"}}`, `{"index":0,"function":{"name":"f"}}`), `a f {}`},
		"whole ones of one index":    {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`, `{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}`, `{"index":0,"id":"c","function":{"name":"g","arguments":""}}`), `a f {}|b f {}|c g {}`},
		"whole ones without index":   {chunks(`{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}`), `a f {}|b g {}`},
		"whole ones without id":      {chunks(`{"index":0,"function":{"name":"f","arguments":"{}"}}`, `{"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}}`), `call-1 f {}|call-2 f {"x":1}`},
		"one id for all":             {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`, `{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}}`), `a f {}|a-2 f {}`},
		"an index that is none":      {chunks(`{"index":null,"id":"a","function":{"name":"f","arguments":"{}"}}`, `{"index":"1","id":"b","function":{"name":"f","arguments":"{}"}}`, `{"index":2.0,"id":"c","function":{"name":"f","arguments":"{}"}}`), `a f {}|b f {}|c f {}`},
		"arguments as an object":     {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":{"x":12.0}}}`), `a f {"x":12}`},
		"an id that is a number":     {chunks(`{"index":0,"id":123,"function":{"name":"f","arguments":"{}"}}`), `123 f {}`},
		"arguments in a fence":       {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":"\u0060\u0060\u0060json\n{\"x\":1}\n\u0060\u0060\u0060"}}`), `a f {"x":1}`},
		"arguments as a text again":  {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":"\"{\\\"x\\\": 12.0}\""}}`), `a f {"x": 12}`},
		"a namespace":                {chunks(`{"index":0,"id":"a","function":{"name":" functions.f","arguments":"{}"}}`), `a f {}`},
		"another namespace":          {chunks(`{"index":0,"id":"a","function":{"name":"default_api:f","arguments":"{}"}}`), `a f {}`},
		"arguments that are null":    {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":null}}`), `a f {}`},
		"an integer as JSON has it":  {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":12.0,\"y\":1e3,\"z\":1.5,\"w\":9007199254740993}"}}`), `a f {"x":12,"y":1000,"z":1.5,"w":9007199254740993}`},
		"arguments cut":              {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"ok\": tru"}}`), `a f {"ok": tru`},
		"half a surrogate":           {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\\ud83d\"}"}}`), "a f {\"x\":\"\ufffd\"}"},
		"half a surrogate outside":   {chunks(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\ud83d\"}"}}`), "a f {\"x\":\"\ufffd\"}"},
		"no reason, but an end":      {"data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\ndata: [DONE]\n\n", "Hello"},
		"no end, but a reason":       {"data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}\n\n", "Hello"},
		"content in a list":          {"data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[]},{\"type\":\"text\",\"text\":\"Hel\"}]}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\ndata: [DONE]\n\n", "Hello"},
		"a surrogate in a text":      {"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\\ud800lo\"}}]}\n\ndata: [DONE]\n\n", "Hel\ufffdlo"},
		"a whole reply as a chunk":   {"data: {\"choices\":[{\"message\":{\"content\":\"Hello\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[{\"message\":{\"content\":\"Hello\"}}]}\n\ndata: [DONE]\n\n", "Hello|call-1 f {}|call-2 g {}"},
		"an empty chunk beside it":   {`{"choices":[{"message":{"content":"Hello"},"delta":{"role":"assistant","content":""}}]}`, "Hello"},
		"one document, all the same": {`{"choices":[{"message":{"content":[{"type":"text","text":"a"},"b"],"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"n":1.0}}},{"function":{"name":"f"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":7.0,"completion_tokens":null}}`, `ab|a f {"n":1}|call-2 f {}`},
	} {
		for how, body := range map[string]string{
			"as it is": tt.stream, "CR LF": strings.ReplaceAll(tt.stream, "\n", "\r\n"), "CR": strings.ReplaceAll(tt.stream, "\n", "\r"), "with a mark": "\ufeff" + tt.stream, "after white space": "\r\n\n" + tt.stream,
		} {
			for _, contentType := range []string{"text/event-stream", "application/json", ""} {
				got, _, err := replied(t, "openai", contentType, body)
				failIf(t, got != tt.want, "%s, %s, as %q: %q, %v, want %q", name, how, contentType, got, err, tt.want)
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

// anthropicStream is a stream of Messages with these events after its start.
func anthropicStream(events ...string) string {
	all := `data: {"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}` + "\n\n"
	for _, e := range events {
		all += "data: " + e + "\n\n"
	}
	return all
}

// Proxies of Messages send blocks and counts in more ways than one.
func TestMessagesOfProxies(t *testing.T) {
	t.Parallel()
	start := func(n int, block string) string {
		return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, n, block)
	}
	delta := func(n int, delta string) string {
		return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, n, delta)
	}
	const end, stop = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`
	for name, tt := range map[string]struct {
		stream, want string
		output       int64
	}{
		"input in the start":   {anthropicStream(start(0, `{"type":"tool_use","id":"a","name":"f","input":{"x":12.0}}`), end, stop), `a f {"x":12}`, 5},
		"input in pieces":      {anthropicStream(start(0, `{"type":"tool_use","id":"a","name":"f","input":{}}`), delta(0, `{"type":"input_json_delta","partial_json":"{\"x\""}`), delta(0, `{"type":"input_json_delta","partial_json":":1}"}`), end, stop), `a f {"x":1}`, 5},
		"input in both":        {anthropicStream(start(0, `{"type":"tool_use","id":"a","name":"f","input":{"x":1}}`), delta(0, `{"partial_json":""}`), delta(0, `{"partial_json":"{\"x\":1}"}`), end, stop), `a f {"x":1}`, 5},
		"input in a text":      {anthropicStream(start(0, `{"type":"tool_use","id":7,"name":"f","input":"{\"x\":12.0}"}`), end, stop), `7 f {"x":12}`, 5},
		"input as itself":      {anthropicStream(start(0, `{"type":"tool_use","id":null,"name":"f"}`), delta(0, `{"partial_json":{"x":1}}`), end, stop), `call-1 f {"x":1}`, 5},
		"text that is null":    {anthropicStream(start(0, `{"type":"text","text":null}`), delta(0, `{"text":"Hello","partial_json":null}`), end, stop), `Hello`, 5},
		"an end of others":     {anthropicStream(start(0, `{"type":"text","text":"Hello"}`), end, `[DONE]`), `Hello`, 5},
		"a bare text":          {`{"content":"Hello","stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":5}}`, `Hello`, 5},
		"input that is null":   {anthropicStream(start(0, `{"type":"tool_use","id":"a","name":"f","input":null}`), end, stop), `a f {}`, 5},
		"text in the start":    {anthropicStream(start(0, `{"type":"text","text":"Hel"}`), delta(0, `{"type":"text_delta","text":"lo"}`), end, stop), `Hello`, 5},
		"all of one number":    {anthropicStream(start(0, `{"type":"text","text":"Hello"}`), start(0, `{"type":"tool_use","id":"a","name":"f","input":{}}`), delta(0, `{"partial_json":"{\"x\":1}"}`), end, stop), `Hello|a f {"x":1}`, 5},
		"numbers from 1 on":    {anthropicStream(start(1, `{"type":"tool_use","id":"a","name":"f","input":{}}`), delta(1, `{"partial_json":"{}"}`), end, stop), `a f {}`, 5},
		"no start of a text":   {anthropicStream(delta(0, `{"type":"text_delta","text":"Hello"}`), end, stop), `Hello`, 5},
		"no stop":              {anthropicStream(start(0, `{"type":"text","text":"Hello"}`), end), `Hello`, 5},
		"no count at its end":  {anthropicStream(start(0, `{"type":"text","text":"Hello"}`), delta(0, `{"text":"`+strings.Repeat("x", 395)+`"}`), `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, stop), "Hello" + strings.Repeat("x", 395), 100},
		"no counts but null":   {anthropicStream(start(0, `{"type":"text","text":"Hello"}`), `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":null}}`, stop), "Hello", 2},
		"no end but its end":   {anthropicStream(start(0, `{"type":"text","text":"Hello"}`), stop), "Hello", 2},
		"one document":         {`{"content":[{"type":"text","text":"\ud800"},{"type":"tool_use","id":"a","name":"f","input":{"x":1e1}}],"stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":5.0}}`, "\ufffd|" + `a f {"x":10}`, 5},
		"a document's refusal": {`{"content":[{"type":"text","text":"no"}],"usage":{"input_tokens":9,"output_tokens":5}}`, "no", 5},
	} {
		got, reply, err := replied(t, "anthropic", "text/event-stream", tt.stream)
		failIf(t, err != nil || got != tt.want || reply.Usage.Output != tt.output || reply.Usage.Input != 9,
			"%s: %.80q, %+v, %v", name, got, reply, err)
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
