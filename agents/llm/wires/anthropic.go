package wires

import (
	"cmp"
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// anthropic is the wire of Messages.
type anthropic struct{ client }

const (
	anthropicVersion = "2023-06-01"
	maxBlocks        = 1024 // of a reply
)

type anthropicBlock struct {
	Type      string           `json:"type"`
	Text      string           `json:"text,omitzero"`
	ID        string           `json:"id,omitzero"`
	Name      string           `json:"name,omitzero"`
	Input     jsontext.Value   `json:"input,omitzero"`
	ToolUseID string           `json:"tool_use_id,omitzero"`
	Content   []anthropicBlock `json:"content,omitempty"`
	IsError   bool             `json:"is_error,omitzero"`
	Cache     *anthropicCache  `json:"cache_control,omitzero"`
}

type anthropicCache struct {
	Type string `json:"type"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"input_schema"`
}

type anthropicChoice struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type anthropicRequest struct {
	Model      string             `json:"model"`
	MaxTokens  int                `json:"max_tokens"`
	System     []anthropicBlock   `json:"system,omitempty"`
	Tools      []anthropicTool    `json:"tools,omitempty"`
	ToolChoice *anthropicChoice   `json:"tool_choice,omitzero"`
	Messages   []anthropicMessage `json:"messages"`
	Stream     bool               `json:"stream"`
}

type anthropicUsage struct {
	Input         number `json:"input_tokens"`
	Output        number `json:"output_tokens"`
	CacheCreation number `json:"cache_creation_input_tokens"`
	CacheRead     number `json:"cache_read_input_tokens"`
}

// anthropicGot is a block that came. Its text may come as a bare text, and its members otherwise than documented.
type anthropicGot struct {
	Type  string         `json:"type"`
	Text  jsontext.Value `json:"text"`
	ID    label          `json:"id"`
	Name  string         `json:"name"`
	Input jsontext.Value `json:"input"`
}

// anthropicEvent is an event of a stream, or a reply that is one document.
type anthropicEvent struct {
	Type    string `json:"type"`
	Message struct {
		Usage anthropicUsage `json:"usage"`
	} `json:"message"` // of message_start
	Index number       `json:"index"`         // of a block
	Block anthropicGot `json:"content_block"` // of content_block_start
	Delta struct {
		Text        string         `json:"text"`
		PartialJSON jsontext.Value `json:"partial_json"` // a text, or the input itself
		StopReason  string         `json:"stop_reason"`  // of message_delta
	} `json:"delta"`
	Usage      anthropicUsage `json:"usage"`   // of message_delta: of all so far
	Content    jsontext.Value `json:"content"` // of a document: a list of blocks, or a text
	StopReason string         `json:"stop_reason"`
}

// Do implements [llm.Provider].
func (w *anthropic) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	request := anthropicRequest{Model: r.Model, MaxTokens: max(1, r.MaxTokens), System: texts(r.System), Stream: true}
	if n := len(request.System); n > 0 { // tools and system are the same in each call of an agent
		request.System[n-1].Cache = &anthropicCache{"ephemeral"}
	}
	for _, t := range r.Tools {
		request.Tools = append(request.Tools, anthropicTool{t.Name, t.Description.Text(), t.Schema})
	}
	if r.Force != "" {
		request.ToolChoice = &anthropicChoice{"tool", r.Force}
	}
	for _, turn := range r.Turns {
		if m := anthropicTurn(turn); len(m.Content) > 0 { // it refuses others
			request.Messages = append(request.Messages, m)
		}
	}
	if n := len(request.Messages); n > 0 { // the next call of the conversation begins with all of this one
		if content := request.Messages[n-1].Content; len(content) > 0 {
			content[len(content)-1].Cache = &anthropicCache{"ephemeral"}
		}
	}
	got := &anthropicReading{blocks: map[number]*openCall{}}
	header := map[string]string{"x-api-key": w.key, "anthropic-version": anthropicVersion}
	if err := w.post(ctx, "/v1/messages", header, request, got); err != nil {
		return nil, err
	}
	if got.stop == "refusal" {
		return nil, llm.Filtered{Usage: got.usage}
	}
	if !got.total { // the first count has none of what came after it
		got.usage.Output = max(got.usage.Output, tokens(got.size))
	}
	return got.end(got.stop == "max_tokens" || got.stop == "model_context_window_exceeded")
}

// anthropicReading reads a reply of Messages.
type anthropicReading struct {
	replyBuilder
	stop   string
	blocks map[number]*openCall // calls with incomplete arguments
	count  int                  // of blocks so far
	total  bool                 // the tokens of the whole reply have come
}

// document adds all blocks of one.
func (a *anthropicReading) document(content jsontext.Value) error {
	blocks := []anthropicGot{{Type: "text", Text: content}}
	if content.Kind() == '[' {
		if err := decode(content, &blocks); err != nil {
			return err
		}
	}
	for i := range blocks {
		a.block(&blocks[i])
	}
	return nil
}

// block adds a block, and returns its call.
func (a *anthropicReading) block(block *anthropicGot) *openCall {
	switch block.Type {
	case "text":
		a.paragraph()
		for _, text := range contentTexts(block.Text) {
			a.say(text)
		}
	case "tool_use":
		call := a.call(string(block.ID), block.Name, "")
		if input := jsontext.Value(written(block.Input)); a.fits(len(input)) && input.Kind() == '{' {
			call.first = wire.WholeNumbers(input)
		}
		return call
	}
	return nil
}

// counts takes a count of tokens; each later count is a total.
func (a *anthropicReading) counts(u anthropicUsage) {
	a.usage.Input = max(a.usage.Input, int64(u.Input))
	a.usage.Output = max(a.usage.Output, int64(u.Output))
	a.usage.CacheRead = max(a.usage.CacheRead, int64(u.CacheRead))
	a.usage.CacheWrite = max(a.usage.CacheWrite, int64(u.CacheCreation))
}

func (a *anthropicReading) event(data []byte) (last bool, err error) {
	if string(data) == "[DONE]" && a.stop != "" { // of proxies
		return true, nil
	}
	var e anthropicEvent
	if err := decode(data, &e); err != nil {
		return false, err
	}
	switch e.Type {
	case "message", "":
		if e.Content == nil && e.StopReason == "" || a.begun() {
			break
		}
		a.stop, a.total = cmp.Or(e.StopReason, "end_turn"), true
		a.counts(e.Usage)
		return false, a.document(e.Content)
	case "message_start":
		a.counts(e.Message.Usage)
	case "content_block_start":
		if a.count++; a.count > maxBlocks {
			return false, errNotOurs
		}
		a.blocks[e.Index] = a.block(&e.Block) // its input is {} and comes in pieces, or whole
	case "content_block_delta":
		if call := a.blocks[e.Index]; call != nil {
			a.addArguments(call, written(e.Delta.PartialJSON))
		} else {
			a.say(e.Delta.Text)
		}
	case "message_delta":
		a.stop = cmp.Or(e.Delta.StopReason, a.stop)
		a.total = a.total || e.Usage.Output > 0
		a.counts(e.Usage)
	case "message_stop":
		return true, nil
	}
	return false, nil
}

// complete implements reading: nothing but message_stop comes after the reason.
func (a *anthropicReading) complete() bool { return a.stop != "" }

// texts returns the texts of parts. The interface refuses those that are white space alone, as models write them.
func texts(parts []llm.Part) (blocks []anthropicBlock) {
	for _, p := range parts {
		if text := p.Text(); strings.TrimSpace(text) != "" {
			blocks = append(blocks, anthropicBlock{Type: "text", Text: text})
		}
	}
	return blocks
}

func anthropicTurn(turn llm.Turn) anthropicMessage {
	if turn.Role == llm.Model {
		m := anthropicMessage{Role: "assistant", Content: texts(turn.Parts)}
		for _, call := range turn.Calls {
			m.Content = append(m.Content, anthropicBlock{Type: "tool_use", ID: call.ID, Name: call.Name, Input: objectOrEmpty(call.Arguments)})
		}
		return m
	}
	m := anthropicMessage{Role: "user"}
	for _, result := range turn.Results {
		m.Content = append(m.Content, anthropicBlock{Type: "tool_result", ToolUseID: result.Call, Content: texts(result.Parts), IsError: result.Failed})
	}
	m.Content = append(m.Content, texts(turn.Parts)...)
	return m
}

// objectOrEmpty returns arguments that can be sent back: a model's output that is not
// an object becomes an empty one.
func objectOrEmpty(arguments jsontext.Value) jsontext.Value {
	if arguments.Kind() != '{' || !arguments.IsValid() {
		return jsontext.Value("{}")
	}
	return arguments
}
