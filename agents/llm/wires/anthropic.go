package wires

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// anthropic is the wire of Messages.
type anthropic struct{ client }

const anthropicVersion = "2023-06-01"

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
}

type anthropicReply struct {
	Content    []anthropicBlock `json:"content"`
	StopReason string           `json:"stop_reason"`
	Usage      struct {
		Input         int64 `json:"input_tokens"`
		Output        int64 `json:"output_tokens"`
		CacheCreation int64 `json:"cache_creation_input_tokens"`
		CacheRead     int64 `json:"cache_read_input_tokens"`
	} `json:"usage"`
}

// Do implements [llm.Provider].
func (w *anthropic) Do(ctx context.Context, r *llm.Request, delta func(llm.Delta)) (*llm.Reply, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	request := anthropicRequest{Model: r.Model, MaxTokens: max(1, r.MaxTokens), System: texts(r.System)}
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
		request.Messages = append(request.Messages, anthropicTurn(turn))
	}
	var got anthropicReply
	header := map[string]string{"x-api-key": w.key, "anthropic-version": anthropicVersion}
	if err := w.post(ctx, "/v1/messages", header, request, &got); err != nil {
		return nil, err
	}
	if got.StopReason == "refusal" {
		return nil, llm.Filtered{}
	}
	u := got.Usage
	b := newReply(llm.Usage{Input: count(u.Input), CacheRead: count(u.CacheRead), CacheWrite: count(u.CacheCreation), Output: count(u.Output)})
	for _, block := range got.Content {
		switch block.Type {
		case "text":
			b.say(block.Text)
		case "tool_use":
			b.call(block.ID, block.Name, string(block.Input))
		}
	}
	return b.end(got.StopReason == "max_tokens" || got.StopReason == "model_context_window_exceeded", delta)
}

func texts(parts []llm.Part) (blocks []anthropicBlock) {
	for _, p := range parts {
		blocks = append(blocks, anthropicBlock{Type: "text", Text: p.Text()})
	}
	return blocks
}

func anthropicTurn(turn llm.Turn) anthropicMessage {
	if turn.Role == llm.Model {
		m := anthropicMessage{Role: "assistant", Content: texts(turn.Parts)}
		for _, call := range turn.Calls {
			m.Content = append(m.Content, anthropicBlock{Type: "tool_use", ID: call.ID, Name: call.Name, Input: objectOf(call.Arguments)})
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

// objectOf returns arguments as a wire can repeat them: what a model wrote that is no object is an empty one.
func objectOf(arguments jsontext.Value) jsontext.Value {
	if arguments.Kind() != '{' || !arguments.IsValid() {
		return jsontext.Value("{}")
	}
	return arguments
}
