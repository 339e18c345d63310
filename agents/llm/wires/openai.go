package wires

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// openAI is the wire of Chat Completions.
type openAI struct {
	client
	newer   atomic.Bool // the endpoint knows the token limit by its newer name alone, as OpenAI's does
	noUsage atomic.Bool // the endpoint cannot be asked for the usage of a stream
	noForce atomic.Bool // the model cannot be made to call a tool, as DeepSeek's and Qwen's that think
}

type openAIMessage struct {
	Role       string       `json:"role"`
	Content    string       `json:"content"`
	Reasoning  string       `json:"reasoning_content,omitzero"`
	ToolCalls  []openAICall `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitzero"`
}

type openAICall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
	Extra    jsontext.Value `json:"extra_content,omitzero"`
}

// extraMark stands in the ID of a call, which nobody else reads, before the openAIBack of the call.
const extraMark = ".extra-"

// openAIBack is what has to be sent back with a call as it came: the signatures of Google's models, and the reasoning
// of DeepSeek's before the first call of a reply.
type openAIBack struct {
	Extra     jsontext.Value `json:"extra_content,omitzero"`
	Reasoning string         `json:"reasoning_content,omitzero"`
}

type openAIFunction struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters,omitzero"`
	Arguments   *string        `json:"arguments,omitzero"`
}

type openAITool struct {
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIRequest struct {
	Model               string          `json:"model"`
	Messages            []openAIMessage `json:"messages"`
	Tools               []openAITool    `json:"tools,omitempty"`
	ToolChoice          *openAITool     `json:"tool_choice,omitzero"`
	MaxTokens           int             `json:"max_tokens,omitzero"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitzero"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options,omitzero"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// openAIReply is a whole reply, or a chunk of one.
type openAIReply struct {
	Choices []struct {
		Message      *openAIPiece `json:"message"` // of a whole reply
		Delta        *openAIPiece `json:"delta"`   // of a chunk
		FinishReason string       `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     number `json:"prompt_tokens"`
		Completion number `json:"completion_tokens"`
		Details    struct {
			Cached number `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

type openAIPiece struct {
	Content   jsontext.Value `json:"content"` // a text, or a list of parts
	Reasoning jsontext.Value `json:"reasoning_content"`
	Refusal   *string        `json:"refusal"`
	ToolCalls []struct {
		Index    number `json:"index"` // of a chunk
		ID       label  `json:"id"`
		Function struct {
			Name      string         `json:"name"`
			Arguments jsontext.Value `json:"arguments"` // JSON as a text, or not
		} `json:"function"`
		Extra jsontext.Value `json:"extra_content"`
	} `json:"tool_calls"`
}

// Do implements [llm.Provider].
func (w *openAI) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	request := openAIRequest{Model: r.Model, Messages: openAIMessages(r), Stream: true}
	for _, t := range r.Tools {
		request.Tools = append(request.Tools, openAITool{"function", openAIFunction{Name: t.Name, Description: t.Description.Text(), Parameters: t.Schema}})
	}
	header := map[string]string{}
	if w.key != "" {
		header["Authorization"] = "Bearer " + w.key
	}
	var got *openAIReading
	for {
		request.MaxTokens, request.MaxCompletionTokens, request.StreamOptions = r.MaxTokens, 0, &streamOptions{true}
		if w.newer.Load() {
			request.MaxTokens, request.MaxCompletionTokens = 0, r.MaxTokens
		}
		if w.noUsage.Load() {
			request.StreamOptions = nil
		}
		if request.ToolChoice = nil; r.Force != "" && !w.noForce.Load() {
			request.ToolChoice = &openAITool{"function", openAIFunction{Name: r.Force}}
		}
		got = &openAIReading{open: map[number]*openCall{}}
		err := w.post(ctx, "/chat/completions", header, request, got)
		if err == nil {
			break
		}
		if !w.adapt(&request, err) {
			return nil, err
		}
	}
	if got.filtered {
		return nil, llm.Filtered{Usage: got.usage}
	}
	for _, c := range got.calls {
		if back := (openAIBack{c.extra, string(got.reasoning)}); back.Extra != nil || back.Reasoning != "" {
			c.extra, _ = json.Marshal(back) // its JSON was decoded
		}
		got.reasoning = nil
	}
	return got.end(got.finish == "length")
}

// adapt learns from a refusal which form of a request an endpoint knows, and reports whether it is worth another try.
func (w *openAI) adapt(request *openAIRequest, err error) bool {
	refused, ok := errors.AsType[*llm.Answered](err)
	if !ok || refused.Status != http.StatusBadRequest && refused.Status != http.StatusUnprocessableEntity {
		return false
	}
	switch {
	case request.MaxTokens != 0 && strings.Contains(refused.Said, "max_completion_tokens"):
		w.newer.Store(true)
	case request.StreamOptions != nil && strings.Contains(refused.Said, "stream_options"):
		w.noUsage.Store(true)
	case request.ToolChoice != nil && strings.Contains(refused.Said, "tool_choice"):
		w.noForce.Store(true)
	default:
		return false
	}
	return true
}

// openAIReading reads a reply of Chat Completions.
type openAIReading struct {
	replyBuilder
	finish   string
	filtered bool
	open     map[number]*openCall // by the index of a chunk

	reasoning []byte
}

func (o *openAIReading) event(data []byte) (last bool, err error) {
	if string(data) == "[DONE]" {
		if o.finish == "" && !o.begun() {
			return false, errCut
		}
		return true, nil
	}
	var got openAIReply
	if err := decode(data, &got); err != nil {
		return false, err
	}
	if len(got.Choices) > 1 {
		return false, llm.Protocol{What: "the reply has several choices"}
	}
	for _, choice := range got.Choices {
		// A whole reply, which some proxies send as one chunk. Others have an empty chunk beside it.
		if m := choice.Message; m != nil && !o.begun() && (choice.Delta == nil || m.says() && !choice.Delta.says()) {
			choice.Delta, o.finish = m, "stop"
			for i := range m.ToolCalls {
				m.ToolCalls[i].Index = number(i)
			}
		}
		o.piece(cmp.Or(choice.Delta, &openAIPiece{}), choice.FinishReason)
	}
	if u := got.Usage; u != nil {
		cached := min(u.Details.Cached, u.Prompt)
		o.usage = llm.Usage{Input: int64(u.Prompt - cached), CacheRead: int64(cached), Output: int64(u.Completion)}
	}
	return false, nil
}

// says reports whether a piece has a text or calls.
func (p *openAIPiece) says() bool {
	return len(p.ToolCalls) > 0 || strings.Join(contentTexts(p.Content), "") != ""
}

// complete implements reading: not every compatible endpoint sends [DONE].
func (o *openAIReading) complete() bool { return o.finish != "" }

func (o *openAIReading) piece(p *openAIPiece, finish string) {
	o.finish = cmp.Or(finish, o.finish)
	o.filtered = o.filtered || finish == "content_filter" || p.Refusal != nil && *p.Refusal != ""
	for _, text := range contentTexts(p.Content) {
		o.say(text)
	}
	for _, text := range contentTexts(p.Reasoning) {
		if o.fits(len(text)) {
			o.reasoning = append(o.reasoning, text...)
		}
	}
	for _, t := range p.ToolCalls {
		arguments := written(t.Function.Arguments)
		c := o.open[t.Index]
		id := string(t.ID)
		if c == nil || c.ends(id, t.Function.Name, arguments) {
			c = o.call(id, t.Function.Name, "")
			o.open[t.Index] = c
		}
		c.id, c.name = cmp.Or(c.id, id), cmp.Or(c.name, t.Function.Name)
		if t.Extra.Kind() == '{' && o.fits(len(t.Extra)) {
			c.extra = t.Extra.Clone()
		}
		if strings.HasPrefix(arguments, "{") && c.whole() { // some send {} first, or all again
			c.arguments = nil
		}
		o.addArguments(c, arguments)
	}
}

// whole reports whether the arguments of a call are complete.
func (c *openCall) whole() bool {
	return jsontext.Value(c.arguments).IsValid(jsontext.AllowInvalidUTF8(true))
}

// ends reports whether a piece with the index of a call begins another one. Some endpoints send whole calls, all with one
// index; others a new id with each piece, or the name with each.
func (c *openCall) ends(id, name, arguments string) bool {
	switch {
	case id != "" && id == c.id, name == "" && c.name != "":
		return false
	case name != "" && c.name != "" && name != c.name:
		return true
	case !c.whole():
		return false
	}
	return arguments != "" || id != "" && name != "" && c.name != ""
}

// written returns JSON that should be in a text, and may not be.
func written(raw jsontext.Value) string {
	text := string(raw)
	switch raw.Kind() {
	case '"':
		_ = decode(raw, &text)
	case 0, 'n':
		return ""
	}
	return text
}

// contentTexts returns a text, or those of the parts of a list.
func contentTexts(raw jsontext.Value) []string { return textsWithin(raw, maxNested) }

// maxNested bounds how deeply lists and parts may nest around a text: each level is decoded again.
const maxNested = 8

func textsWithin(raw jsontext.Value, levels int) (texts []string) {
	if levels == 0 {
		return nil
	}
	var text string
	var parts []jsontext.Value
	var part struct {
		Type string         `json:"type"`
		Text jsontext.Value `json:"text"`
	}
	switch raw.Kind() {
	case '"':
		_ = decode(raw, &text)
		return []string{text}
	case '[':
		_ = decode(raw, &parts)
	case '{':
		if decode(raw, &part) == nil && (part.Type == "text" || part.Type == "output_text" || part.Type == "") {
			return textsWithin(part.Text, levels-1)
		}
	}
	for _, p := range parts {
		texts = append(texts, textsWithin(p, levels-1)...)
	}
	return texts
}

func openAIMessages(r *llm.Request) []openAIMessage {
	var messages []openAIMessage
	if len(r.System) > 0 {
		messages = append(messages, openAIMessage{Role: "system", Content: joinText(r.System)})
	}
	for _, turn := range r.Turns {
		if turn.Role == llm.Model {
			m := openAIMessage{Role: "assistant", Content: joinText(turn.Parts)}
			for _, call := range turn.Calls {
				id, extra, _ := strings.Cut(call.ID, extraMark)
				var back openAIBack
				if decoded, err := base64.RawURLEncoding.DecodeString(extra); err == nil {
					_ = json.Unmarshal(decoded, &back) // of an ID that we did not make there is nothing
				}
				m.Reasoning = cmp.Or(m.Reasoning, back.Reasoning)
				m.ToolCalls = append(m.ToolCalls, openAICall{id, "function", openAIFunction{Name: call.Name, Arguments: new(string(objectOrEmpty(call.Arguments)))}, back.Extra})
			}
			if m.Content != "" || len(m.ToolCalls) > 0 { // others are refused by some endpoints
				messages = append(messages, m)
			}
			continue
		}
		for _, result := range turn.Results {
			id, _, _ := strings.Cut(result.Call, extraMark)
			messages = append(messages, openAIMessage{Role: "tool", ToolCallID: id, Content: joinText(result.Parts)})
		}
		if len(turn.Parts) > 0 {
			messages = append(messages, openAIMessage{Role: "user", Content: joinText(turn.Parts)})
		}
	}
	return messages
}

func joinText(parts []llm.Part) string {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, p.Text())
	}
	return strings.Join(texts, "\n\n")
}
