package wires_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
)

// asked is a provider that keeps what it was asked, and has one reply or error.
type asked struct {
	requests []*llm.Request
	reply    llm.Reply
	err      error
}

func (a *asked) Do(_ context.Context, r *llm.Request) (*llm.Reply, error) {
	a.requests = append(a.requests, r)
	reply := a.reply
	return &reply, a.err
}

// served is a model of which programs may have 100 tokens at a time.
func served(t *testing.T) (*asked, string) {
	t.Helper()
	provider := &asked{reply: llm.Reply{
		Said: []llm.Said{llm.NewSaid("Well.")}, Stop: llm.StopCalls, Usage: llm.Usage{Input: 7, CacheRead: 3, Output: 5},
		Calls: []llm.Call{{ID: "c1", Name: "fetch", Arguments: jsontext.Value(`{"a":1}`)}, {ID: "c2", Name: "fetch", Arguments: jsontext.Value(`{}`)}},
	}}
	server := httptest.NewServer(wires.Serve(llm.Endpoint{Provider: provider, Model: "pinned", MaxTokens: 100}))
	t.Cleanup(server.Close)
	return provider, server.URL
}

// shape is a request or a reply, without what tells a fence of ours from a text of a program's: for a program there is none.
func shape(t *testing.T, v any) string {
	t.Helper()
	encoded, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// What our own wires send to a served model arrives as it was, and so does the reply: each vendor's library speaks the same.
// The model and its tokens are the keeper's.
//
// covers ALF-10
func TestServedWiresLoseNothing(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"openai", "ollama"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			inner, url := served(t)
			outer, err := wires.Open(wires.Spec{Provider: provider, Model: "another", Key: "env:KEY", BaseURL: url + wires.ServedBase}, wires.Options{Env: func(string) (string, bool) { return "none", true }})
			if err != nil {
				t.Fatal(err)
			}
			text := llm.FromProgram
			schema := jsontext.Value(`{"type":"object"}`)
			sent := &llm.Request{
				Model: "another", MaxTokens: 77, Force: "fetch", System: []llm.Part{text("Be brief.")},
				Tools: []llm.Tool{{Name: "fetch", Description: text("Get it."), Schema: schema}, {Name: "look", Description: text("See it."), Schema: schema}},
				Turns: []llm.Turn{
					{Role: llm.User, Parts: []llm.Part{text("Ask.")}},
					{Role: llm.Model, Parts: []llm.Part{llm.NewSaid("Well.")}, Calls: []llm.Call{{ID: "call-1", Name: "fetch", Arguments: jsontext.Value(`{"a":1}`)}, {ID: "call-2", Name: "look", Arguments: jsontext.Value(`{}`)}}},
					{Role: llm.User, Results: []llm.Result{{Call: "call-1", Parts: []llm.Part{text(`{"found": "x"}`)}}, {Call: "call-2", Parts: []llm.Part{text("It is dark.")}}}},
				},
			}
			reply, err := outer.Provider.Do(t.Context(), sent)
			if err != nil {
				t.Fatal(err)
			}
			want := *sent
			want.Model = "pinned"
			if diff := cmp.Diff(shape(t, &want), shape(t, inner.requests[0])); diff != "" {
				t.Errorf("the request (-sent +served):\n%s", diff)
			}
			if diff := cmp.Diff(shape(t, &inner.reply), shape(t, reply)); diff != "" {
				t.Errorf("the reply (-said +read):\n%s", diff)
			}
			sent.MaxTokens = 101
			if _, err := outer.Provider.Do(t.Context(), sent); err != nil || inner.requests[1].MaxTokens != 100 {
				t.Errorf("one token more than it may have: %d, %v", inner.requests[1].MaxTokens, err)
			}
		})
	}
}

// post sends a body to a served model.
func post(t *testing.T, url, body string) (status int, header http.Header, answer string) {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(content)
}

const chatPath = wires.ServedBase + "/chat/completions"

// Nothing passes that has a provider fetch, search, run or keep something: each way that the vendors have is refused, and no
// call is made.
//
// covers ALF-10, P7.5
func TestServedWiresPassTextAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, path, body, want string }{
		{"a picture of a URL", chatPath, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://evil.test/?x"}}]}]}`, "image_url is not passed on"},
		{"a search", chatPath, `{"messages":[],"web_search_options":{}}`, "web_search_options is not passed on"},
		{"what is kept", chatPath, `{"messages":[],"store":true}`, "store is not passed on"},
		{"a file", chatPath, `{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`, "file is not passed on"},
		{"a tool that is no function", chatPath, `{"messages":[],"tools":[{"type":"custom","function":{"name":"a"}}]}`, "custom is not passed on"},
		{"a form", chatPath, `{"messages":[],"response_format":{"type":"json_object"}}`, "response_format is not passed on"},
		{"two replies", chatPath, `{"messages":[],"n":2}`, "one thing"},
		{"a system message between", chatPath, `{"messages":[{"role":"user","content":"x"},{"role":"system","content":"y"}]}`, "before all others"},
		{"no tool", chatPath, `{"messages":[],"tool_choice":"none"}`, "expected auto, required"},
		{"a role", chatPath, `{"messages":[{"role":"function","content":"x"}]}`, "role: expected"},
		{"a document", chatPath, `{"messages":[{"role":"user","content":[{"type":"document"}]}]}`, "document is not passed on"},
		{"a search of the provider", chatPath, `{"messages":[],"tools":[{"type":"web_search","function":{"name":"a"}}]}`, "web_search is not passed on"},
		{"a search with its limits", chatPath, `{"messages":[],"tools":[{"type":"function","function":{"name":"a"},"max_uses":5}]}`, "tools.0.max_uses is not passed on"},
		{"an MCP server", chatPath, `{"messages":[],"mcp_servers":[{"type":"url","url":"https://evil.test"}]}`, "mcp_servers is not passed on"},
		{"a picture in a result", chatPath, `{"messages":[{"role":"tool","tool_call_id":"a","content":[{"type":"image"}]}]}`, "image is not passed on"},
		{"a member that stands twice", chatPath, `{"messages":[],"messages":[]}`, "no JSON of this interface"},
		{"stop sequences", chatPath, `{"messages":[],"stop":["x"]}`, "stop is not passed on"},
		{"any of two tools", chatPath, `{"messages":[],"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}],"tool_choice":"required"}`, "name it"},
		{"a tool that it has not", chatPath, `{"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"function","function":{"name":"b"}}}`, "does not have"},
		{"no JSON", chatPath, `{`, "no JSON of this interface"},
		{"text after it", chatPath, `{"messages":[]} {}`, "no JSON of this interface"},
		{"another path", wires.ServedBase + "/responses", `{}`, "only POST /openai/v1/chat/completions is served"},
		{"another interface", "/anthropic/v1/messages", `{}`, "only POST /openai/v1/chat/completions is served"},
	} {
		t.Run(c.path+" "+c.name, func(t *testing.T) {
			t.Parallel()
			provider, url := served(t)
			status, header, answer := post(t, url+c.path, c.body)
			if status < 400 || status >= 500 || !strings.Contains(answer, c.want) || header.Get("Content-Type") != "application/json" {
				t.Errorf("%d: %s", status, answer)
			}
			if len(provider.requests) > 0 {
				t.Errorf("a call was made: %s", shape(t, provider.requests[0]))
			}
		})
	}
}

// A request is as long as a request of a cell may be, and no longer.
func TestServedRequestsAreBounded(t *testing.T) {
	t.Parallel()
	provider, url := served(t)
	whole := `{"messages":[{"role":"user","content":"x"}]}`
	whole += strings.Repeat(" ", 4<<20-len(whole))
	if status, _, answer := post(t, url+chatPath, whole); status != http.StatusOK {
		t.Errorf("4 MiB: %d, %s", status, answer)
	}
	if status, _, answer := post(t, url+chatPath, whole+" "); status != http.StatusRequestEntityTooLarge || len(provider.requests) != 1 {
		t.Errorf("one byte more: %d, %s", status, answer)
	}
}

// What tunes a model is taken, texts may be lists of texts, and content that was said before comes back as it was said.
func TestServedWiresTakeWhatLibrariesSend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, body, want string }{
		{
			chatPath, `{"model":"x","max_tokens":9,"seed":1,"messages":[{"role":"developer","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":"no json"}}]},{"role":"tool","tool_call_id":"i","content":"d"}]}`,
			`{"max_tokens":9,"model":"pinned","system":[{"instruction":"a"}],"turns":[{"parts":[{"instruction":"b"}],"role":1},{"calls":[{"arguments":"no json","id":"i","name":"f"}],"role":2},{"results":[{"call":"i","parts":[{"instruction":"d"}]}],"role":1}]}`,
		},
	} {
		provider, url := served(t)
		if status, _, answer := post(t, url+c.path, c.body); status != http.StatusOK {
			t.Errorf("%s: %d, %s", c.path, status, answer)
			continue
		}
		var got, want any
		if json.Unmarshal([]byte(shape(t, provider.requests[0])), &got) != nil || json.Unmarshal([]byte(c.want), &want) != nil {
			t.Fatal("no JSON")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
	}
}

// An error of the keeper has the status by which a library knows whether to try again, and nothing of its key or provider: its
// code says all.
func TestServedErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
	}{
		{llm.Budget{}, 403},
		{llm.Auth{}, 403},
		{llm.TooLong{}, 400},
		{llm.Filtered{}, 400},
		{llm.RateLimited{RetryAfter: 1500 * time.Millisecond}, 429},
		{llm.Overloaded{}, 503},
		{llm.Unrecorded{}, 503},
		{llm.Protocol{What: "x"}, 502},
		{context.DeadlineExceeded, 504},
	} {
		provider, url := served(t)
		provider.err = c.err
		status, header, answer := post(t, url+chatPath, `{}`)
		if status != c.status || !strings.Contains(answer, llm.ErrorOf(llm.ErrorCode(c.err)).Error()) {
			t.Errorf("%v: %d, %s", c.err, status, answer)
		}
		if after := header.Get("Retry-After"); (after == "2") != (status == 429) {
			t.Errorf("%v: retry after %q", c.err, after)
		}
	}
}

// A provider's error is told by its code alone. That of a replay says how far a request is that of the transcript, by which a
// program would find out, a character at a time, what another conversation said.
func TestServedErrorsSayNothingOfOtherConversations(t *testing.T) {
	t.Parallel()
	ask := func(p llm.Provider, system string) string {
		w := httptest.NewRecorder()
		wires.Serve(llm.Endpoint{Provider: p, Model: "m", MaxTokens: 100}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, chatPath, strings.NewReader(`{"messages":[{"role":"system","content":"`+system+`"}]}`)))
		return w.Body.String()
	}
	var file bytes.Buffer
	recorder, err := wires.NewRecorder(&asked{reply: llm.Reply{Stop: llm.StopEnd}}, &file)
	if err != nil {
		t.Fatal(err)
	}
	ask(recorder, "The code is 4711.")
	recorded, err := wires.NewReplay(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if answer := ask(recorded, "The code is 4711."); !strings.Contains(answer, `"finish_reason":"stop"`) {
		t.Fatal(answer)
	}
	for _, guess := range []string{"The code is 0", "The code is 47"} {
		if answer := ask(recorded, guess); !strings.Contains(answer, "the call failed") || strings.ContainsAny(answer, "0123456789") {
			t.Errorf("%s: %s", guess, answer)
		}
	}
}

// FuzzServe looks for a request that is served and is none, or that ends the keeper.
func FuzzServe(f *testing.F) {
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"x"}]}`, `{"messages":[{"role":"tool","tool_call_id":"a","content":null}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":""}}]}],"tool_choice":{"type":"function","function":{"name":"f"}}}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		provider := &asked{reply: llm.Reply{Stop: llm.StopEnd}}
		w := httptest.NewRecorder()
		wires.Serve(llm.Endpoint{Provider: provider, Model: "pinned", MaxTokens: 100}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, chatPath, strings.NewReader(body)))
		if (w.Code == http.StatusOK) != (len(provider.requests) == 1) || w.Code >= 500 {
			t.Errorf("%d after %d calls: %s", w.Code, len(provider.requests), w.Body)
		}
		if len(provider.requests) == 1 {
			if r := provider.requests[0]; r.Model != "pinned" || r.MaxTokens > 100 || r.Check() != nil {
				t.Errorf("%+v", r)
			}
		}
		if !jsontext.Value(w.Body.Bytes()).IsValid() {
			t.Errorf("no JSON: %s", w.Body)
		}
	})
}
