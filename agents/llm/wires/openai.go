package wires

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// openAI is the wire of Chat Completions.
type openAI struct {
	client
	own bool // the endpoint is OpenAI's, where the limit of tokens has a newer name
}

type openAIMessage struct {
	Role       string       `json:"role"`
	Content    string       `json:"content"`
	ToolCalls  []openAICall `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitzero"`
}

type openAICall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
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
}

type openAIReply struct {
	Choices []struct {
		Message struct {
			Content   *string      `json:"content"`
			Refusal   *string      `json:"refusal"`
			ToolCalls []openAICall `json:"tool_calls"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    *struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// Do implements [llm.Provider].
func (w *openAI) Do(ctx context.Context, r *llm.Request, delta func(llm.Delta)) (*llm.Reply, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	request := openAIRequest{Model: r.Model, Messages: openAIMessages(r)}
	if w.own {
		request.MaxCompletionTokens = r.MaxTokens
	} else {
		request.MaxTokens = r.MaxTokens
	}
	for _, t := range r.Tools {
		request.Tools = append(request.Tools, openAITool{"function", openAIFunction{Name: t.Name, Description: t.Description.Text(), Parameters: t.Schema}})
	}
	if r.Force != "" {
		request.ToolChoice = &openAITool{"function", openAIFunction{Name: r.Force}}
	}
	header := map[string]string{}
	if w.key != "" {
		header["Authorization"] = "Bearer " + w.key
	}
	var got openAIReply
	if err := w.post(ctx, "/chat/completions", header, request, &got); err != nil {
		return nil, err
	}
	if len(got.Choices) != 1 {
		return nil, llm.Protocol{What: "the reply has no choice, or several"}
	}
	choice := got.Choices[0]
	if choice.FinishReason == "content_filter" || choice.Message.Refusal != nil && *choice.Message.Refusal != "" {
		return nil, llm.Filtered{}
	}
	cached := int64(0)
	if got.Usage.Details != nil {
		cached = min(count(got.Usage.Details.Cached), count(got.Usage.Prompt))
	}
	b := newReply(llm.Usage{Input: count(got.Usage.Prompt) - cached, CacheRead: cached, Output: count(got.Usage.Completion)})
	if choice.Message.Content != nil {
		b.say(*choice.Message.Content)
	}
	for _, call := range choice.Message.ToolCalls {
		arguments := ""
		if call.Function.Arguments != nil {
			arguments = *call.Function.Arguments
		}
		b.call(call.ID, call.Function.Name, arguments)
	}
	return b.end(choice.FinishReason == "length", delta)
}

func openAIMessages(r *llm.Request) []openAIMessage {
	var messages []openAIMessage
	if len(r.System) > 0 {
		messages = append(messages, openAIMessage{Role: "system", Content: textOf(r.System)})
	}
	for _, turn := range r.Turns {
		if turn.Role == llm.Model {
			m := openAIMessage{Role: "assistant", Content: textOf(turn.Parts)}
			for _, call := range turn.Calls {
				m.ToolCalls = append(m.ToolCalls, openAICall{call.ID, "function", openAIFunction{Name: call.Name, Arguments: new(string(call.Arguments))}})
			}
			messages = append(messages, m)
			continue
		}
		for _, result := range turn.Results {
			messages = append(messages, openAIMessage{Role: "tool", ToolCallID: result.Call, Content: textOf(result.Parts)})
		}
		if len(turn.Parts) > 0 {
			messages = append(messages, openAIMessage{Role: "user", Content: textOf(turn.Parts)})
		}
	}
	return messages
}

func textOf(parts []llm.Part) string {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, p.Text())
	}
	return strings.Join(texts, "\n\n")
}
