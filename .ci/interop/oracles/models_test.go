// Package oracles compares what we read with what the libraries of others read, of generated inputs. Each difference that is
// meant is named where it is made up for.
package oracles

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// reply is what a model said, however it was read.
type reply struct {
	Texts, Calls []string // calls as name and arguments
	Stop         string
	Usage        llm.Usage
}

func (r *reply) call(id, name, arguments string) {
	value := jsontext.Value(arguments)
	_ = value.Canonicalize()
	r.Calls = append(r.Calls, id+" "+name+" "+string(value))
}

// ours reads a reply by our own client.
func ours(t *rapid.T, provider, url string) reply {
	model, err := wires.Open(bcp.Model{Provider: provider, Model: "m", Key: "env:KEY", BaseURL: url + "/"}, wires.Options{Env: func(string) (string, bool) { return "k", true }})
	if err != nil {
		t.Fatal(err)
	}
	got, err := model.Provider.Do(t.Context(), &llm.Request{Model: "m", MaxTokens: 9, Turns: []llm.Turn{{Role: llm.User, Parts: []llm.Part{llm.Constant("Go.")}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := reply{Stop: string(got.Stop), Usage: got.Usage}
	for _, s := range got.Said {
		r.Texts = append(r.Texts, s.Text())
	}
	for _, c := range got.Calls {
		r.call(c.ID, c.Name, string(c.Arguments))
	}
	return r
}

var (
	words     = rapid.StringOfN(rapid.RuneFrom([]rune("aé😀\n\"\\ z<&\u2028")), 1, 12, -1)
	names     = rapid.StringMatching(`[a-z_]{1,8}`)
	counts    = rapid.IntRange(0, 5000)
	arguments = rapid.Custom(func(t *rapid.T) string { // not 12.0, which we spell as 12
		b, _ := json.Marshal(map[string]any{names.Draw(t, "key"): words.Draw(t, "value"), "n": rapid.Int64Range(-1<<52, 1<<52).Draw(t, "n"), "list": []any{true, nil, 1.5}}, json.Deterministic(true))
		return string(b)
	})
)

// pieces cuts a text anywhere between characters.
func pieces(t *rapid.T, text string) (all []string) {
	runes := []rune(text)
	for len(runes) > 0 {
		n := rapid.IntRange(1, len(runes)).Draw(t, "piece")
		all = append(all, string(runes[:n]))
		runes = runes[n:]
	}
	return all
}

// stream is a server that streams events, with what may stand between them.
func stream(t *rapid.T, events []any, end string) *httptest.Server {
	var b strings.Builder
	line := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "line end") // the libraries read no CR alone
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if typed, ok := e.(map[string]any); ok && typed["type"] != nil {
			fmt.Fprintf(&b, "event: %s%s", typed["type"], line)
		}
		fmt.Fprintf(&b, "data: %s%s%s", data, line, line)
		if rapid.IntRange(0, 9).Draw(t, "comment") == 0 {
			b.WriteString(": still here" + line + line)
		}
	}
	b.WriteString(strings.ReplaceAll(end, "\n", line))
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, b.String())
	}))
}

type object = map[string]any

func TestAnthropic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input, output := counts.Draw(t, "input"), counts.Draw(t, "output")+1
		events := []any{object{"type": "message_start", "message": object{"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "usage": object{"input_tokens": input, "cache_read_input_tokens": counts.Draw(t, "cached"), "output_tokens": 1}}}}
		stop := "end_turn"
		for i := range rapid.IntRange(1, 5).Draw(t, "blocks") {
			delta := func(d object) { events = append(events, object{"type": "content_block_delta", "index": i, "delta": d}) }
			begin := func(b object) {
				events = append(events, object{"type": "content_block_start", "index": i, "content_block": b})
			}
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				begin(object{"type": "text", "text": ""})
				for _, p := range pieces(t, words.Draw(t, "text")) {
					delta(object{"type": "text_delta", "text": p})
				}
			case 1:
				begin(object{"type": "thinking", "thinking": "", "signature": ""})
				delta(object{"type": "thinking_delta", "thinking": words.Draw(t, "thought")})
				delta(object{"type": "signature_delta", "signature": "c2ln"})
			default:
				stop = "tool_use"
				begin(object{"type": "tool_use", "id": fmt.Sprint("toolu_", i), "name": names.Draw(t, "name"), "input": object{}})
				for _, p := range pieces(t, arguments.Draw(t, "arguments")) {
					delta(object{"type": "input_json_delta", "partial_json": p})
				}
			}
			events = append(events, object{"type": "content_block_stop", "index": i}, object{"type": "ping"})
		}
		events = append(events, object{"type": "message_delta", "delta": object{"stop_reason": stop}, "usage": object{"output_tokens": output}}, object{"type": "message_stop"})
		server := stream(t, events, "")
		defer server.Close()

		client := anthropic.NewClient(anthropicoption.WithBaseURL(server.URL), anthropicoption.WithAPIKey("k"), anthropicoption.WithMaxRetries(0))
		var message anthropic.Message
		coming := client.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{Model: "m", MaxTokens: 9, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Go."))}})
		for coming.Next() {
			if err := message.Accumulate(coming.Current()); err != nil {
				t.Fatal(err)
			}
		}
		if err := coming.Err(); err != nil {
			t.Fatal(err)
		}
		want := reply{Stop: map[string]string{"end_turn": "end", "tool_use": "calls"}[string(message.StopReason)],
			Usage: llm.Usage{Input: message.Usage.InputTokens, CacheRead: message.Usage.CacheReadInputTokens, Output: message.Usage.OutputTokens}}
		for _, b := range message.Content {
			switch b.Type { // what a model thought is not what it said
			case "text":
				want.Texts = append(want.Texts, b.Text)
			case "tool_use":
				want.call(b.ID, b.Name, string(b.Input))
			}
		}
		compare(t, ours(t, "anthropic", server.URL), want)
	})
}

func TestOpenAI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []any
		chunk := func(delta object, reason any) {
			events = append(events, object{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{object{"index": 0, "delta": delta, "finish_reason": reason}}})
		}
		chunk(object{"role": "assistant", "content": ""}, nil)
		stop := "stop"
		if rapid.Bool().Draw(t, "text") {
			for _, p := range pieces(t, words.Draw(t, "text")) {
				chunk(object{"content": p}, nil)
			}
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
			stop = "tool_calls"
			chunk(object{"tool_calls": []any{object{"index": i, "id": fmt.Sprint("call_", i), "type": "function", "function": object{"name": names.Draw(t, "name"), "arguments": ""}}}}, nil)
			for _, p := range pieces(t, arguments.Draw(t, "arguments")) {
				chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": p}}}}, nil)
			}
		}
		chunk(object{}, stop)
		prompt, completion := counts.Draw(t, "prompt"), counts.Draw(t, "completion")
		cached := rapid.IntRange(0, prompt).Draw(t, "cached")
		events = append(events, object{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{},
			"usage": object{"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, "prompt_tokens_details": object{"cached_tokens": cached}}})
		server := stream(t, events, "data: [DONE]\n\n")
		defer server.Close()

		client := openai.NewClient(openaioption.WithBaseURL(server.URL), openaioption.WithAPIKey("k"), openaioption.WithMaxRetries(0))
		var all openai.ChatCompletionAccumulator
		coming := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Go.")}})
		for coming.Next() {
			if !all.AddChunk(coming.Current()) {
				t.Fatal("the library takes no chunk")
			}
		}
		if err := coming.Err(); err != nil {
			t.Fatal(err)
		}
		choice := all.Choices[0]
		want := reply{Stop: map[string]string{"stop": "end", "tool_calls": "calls"}[string(choice.FinishReason)],
			Usage: llm.Usage{Input: all.Usage.PromptTokens - all.Usage.PromptTokensDetails.CachedTokens, CacheRead: all.Usage.PromptTokensDetails.CachedTokens, Output: all.Usage.CompletionTokens}} // it counts cached tokens twice
		if choice.Message.Content != "" {
			want.Texts = []string{choice.Message.Content}
		}
		for _, c := range choice.Message.ToolCalls {
			want.call(c.ID, c.Function.Name, c.Function.Arguments)
		}
		compare(t, ours(t, "openai", server.URL), want)
	})
}

func compare(t *rapid.T, got, want reply) {
	if g, w := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); g != w {
		t.Fatalf("we read\n%s\nthe library reads\n%s", g, w)
	}
}
