package wires

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// anthropicDialect is the wire of Messages.
var anthropicDialect = dialect{
	serves: "POST " + AnthropicBase + "/v1/messages",
	read:   readAnthropic,
	whole: func(s said) any {
		blocks := make([]any, 0, len(s.Said)+len(s.Calls))
		for _, text := range s.Said {
			blocks = append(blocks, saidText{"text", text.Text()})
		}
		for _, c := range s.Calls {
			blocks = append(blocks, saidCall{"tool_use", c.ID, c.Name, objectOrEmpty(c.Arguments)})
		}
		return anthropicSaid(s, blocks, new(anthropicStop(s.Stop)))
	},
	events: anthropicEvents,
	failed: func(status int, message string) any {
		kind := "api_error"
		switch status {
		case http.StatusBadRequest:
			kind = "invalid_request_error"
		case http.StatusForbidden:
			kind = "permission_error"
		case http.StatusNotFound:
			kind = "not_found_error"
		case http.StatusRequestEntityTooLarge:
			kind = "request_too_large"
		case http.StatusTooManyRequests:
			kind = "rate_limit_error"
		case http.StatusServiceUnavailable:
			kind = "overloaded_error"
		}
		return map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}}
	},
}

type saidText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type saidCall struct {
	Type  string         `json:"type"`
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	Input jsontext.Value `json:"input"`
}

// askedAnthropic is a request of a program.
type askedAnthropic struct {
	Model     string         `json:"model"`
	MaxTokens int            `json:"max_tokens"`
	System    jsontext.Value `json:"system"`
	Messages  []struct {
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Type        string         `json:"type"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		InputSchema jsontext.Value `json:"input_schema"`
		Cache       jsontext.Value `json:"cache_control"`
	} `json:"tools"`
	ToolChoice struct {
		Type        string `json:"type"`
		Name        string `json:"name"`
		NotParallel bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Stream bool `json:"stream"`
	// What only tunes a model.
	Temperature jsontext.Value `json:"temperature"`
	TopP        jsontext.Value `json:"top_p"`
	TopK        jsontext.Value `json:"top_k"`
	Metadata    jsontext.Value `json:"metadata"`
	Tier        jsontext.Value `json:"service_tier"`
}

type askedBlock struct {
	Type      string         `json:"type"`
	Text      string         `json:"text"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
	ToolUseID string         `json:"tool_use_id"`
	Content   jsontext.Value `json:"content"`
	IsError   bool           `json:"is_error"`
	Cache     jsontext.Value `json:"cache_control"`
	Citations jsontext.Value `json:"citations"` // of what the model said, in which there are none
}

func askedText(text string) askedBlock { return askedBlock{Type: "text", Text: text} }

func readAnthropic(_ *http.Request, body []byte) (*llm.Request, bool, error) {
	var asked askedAnthropic
	if err := strictly(body, &asked); err != nil {
		return nil, false, err
	}
	r := &llm.Request{MaxTokens: asked.MaxTokens}
	system, err := onlyText(asked.System)
	if err != nil {
		return nil, false, err
	}
	if system != "" {
		r.System = []llm.Part{llm.FromProgram(system)}
	}
	for _, t := range asked.Tools {
		if t.Type != "" && t.Type != "custom" {
			return nil, false, refused("a tool of the type " + t.Type + " is not passed on: the model of this agent gets tools of the program's own")
		}
		r.Tools = append(r.Tools, llm.Tool{Name: t.Name, Description: llm.FromProgram(t.Description), Schema: t.InputSchema})
	}
	switch asked.ToolChoice.Type {
	case "", "auto":
	case "tool":
		r.Force = asked.ToolChoice.Name
	case "any":
		if r.Force, err = onlyTool(r.Tools); err != nil {
			return nil, false, err
		}
	default:
		return nil, false, refused("tool_choice: expected auto, tool or any")
	}
	for _, m := range asked.Messages {
		turn, err := readAnthropicTurn(m.Role, m.Content)
		if err != nil {
			return nil, false, err
		}
		r.Turns = append(r.Turns, turn)
	}
	return r, asked.Stream, nil
}

func readAnthropicTurn(role string, content jsontext.Value) (turn llm.Turn, err error) {
	switch role {
	case "user":
		turn.Role = llm.User
	case "assistant":
		turn.Role = llm.Model
	default:
		return turn, refused("role: expected user or assistant")
	}
	blocks, err := readTextOrList(content, askedText)
	if err != nil {
		return turn, err
	}
	for _, b := range blocks {
		switch {
		case b.Type == "text":
			say(&turn, b.Text)
		case b.Type == "tool_use" && turn.Role == llm.Model:
			turn.Calls = append(turn.Calls, llm.Call{ID: b.ID, Name: b.Name, Arguments: b.Input})
		case b.Type == "tool_result" && turn.Role == llm.User:
			text, err := onlyText(b.Content)
			if err != nil {
				return turn, err
			}
			turn.Results = append(turn.Results, toolResult(b.ToolUseID, text, b.IsError))
		default:
			return turn, refused("a block of the type " + b.Type + " is not passed on: the model of this agent gets texts and tools of the program's own")
		}
	}
	return turn, nil
}

// onlyText reads content that consists of texts.
func onlyText(raw jsontext.Value) (string, error) {
	blocks, err := readTextOrList(raw, askedText)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, b := range blocks {
		if b.Type != "text" {
			return "", refused("a block of the type " + b.Type + " is not passed on: the model of this agent gets texts")
		}
		texts = append(texts, b.Text)
	}
	return strings.Join(texts, "\n\n"), nil
}

// onlyTool returns the name of a model's only tool, which it can be forced to call.
func onlyTool(tools []llm.Tool) (string, error) {
	if len(tools) != 1 {
		return "", refused("the model can be told to call one tool, and not any of several: name it")
	}
	return tools[0].Name, nil
}

func anthropicStop(stop llm.Stop) string {
	switch stop {
	case llm.StopCalls:
		return "tool_use"
	case llm.StopLength:
		return "max_tokens"
	}
	return "end_turn"
}

// saidMessage is a message of Messages.
type saidMessage struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Role     string         `json:"role"`
	Model    string         `json:"model"`
	Content  []any          `json:"content"`
	Stop     *string        `json:"stop_reason"`
	Sequence *string        `json:"stop_sequence"`
	Usage    anthropicUsage `json:"usage"`
}

func anthropicSaid(s said, content []any, stop *string) saidMessage {
	u := s.Usage
	return saidMessage{s.id, "message", "assistant", s.model, content, stop, nil, anthropicUsage{number(u.Input), number(u.Output), number(u.CacheWrite), number(u.CacheRead)}}
}

func anthropicEvents(s said) []event {
	events := []event{{"message_start", map[string]any{"type": "message_start", "message": anthropicSaid(s, []any{}, nil)}}}
	index := 0
	block := func(begin, delta any) {
		events = append(events,
			event{"content_block_start", map[string]any{"type": "content_block_start", "index": index, "content_block": begin}},
			event{"content_block_delta", map[string]any{"type": "content_block_delta", "index": index, "delta": delta}},
			event{"content_block_stop", map[string]any{"type": "content_block_stop", "index": index}})
		index++
	}
	for _, text := range s.Said {
		block(saidText{"text", ""}, saidText{"text_delta", text.Text()})
	}
	for _, c := range s.Calls {
		block(saidCall{"tool_use", c.ID, c.Name, jsontext.Value("{}")}, map[string]string{"type": "input_json_delta", "partial_json": string(objectOrEmpty(c.Arguments))})
	}
	return append(events,
		event{"message_delta", map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": anthropicStop(s.Stop), "stop_sequence": nil}, "usage": map[string]int64{"output_tokens": s.Usage.Output}}},
		event{"message_stop", map[string]string{"type": "message_stop"}})
}
