package wires

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// openAIDialect is the wire of Chat Completions.
var openAIDialect = dialect{
	serves: "POST " + OpenAIBase + "/chat/completions",
	read:   readOpenAI,
	whole: func(s said) any {
		message := map[string]any{"role": "assistant", "content": openAIText(s.Reply), "refusal": nil}
		if len(s.Calls) > 0 {
			message["tool_calls"] = openAICalls(s.Calls, false)
		}
		return openAIObject(s, "chat.completion", []any{map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": openAIFinish(s.Stop)}}, openAIUsage(s.Usage))
	},
	events: func(s said) []event {
		delta := map[string]any{"role": "assistant", "content": openAIText(s.Reply)}
		if len(s.Calls) > 0 {
			delta["tool_calls"] = openAICalls(s.Calls, true)
		}
		chunk := func(choices []any, usage any) event {
			return event{data: openAIObject(s, "chat.completion.chunk", choices, usage)}
		}
		return []event{
			chunk([]any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}, nil),
			chunk([]any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": openAIFinish(s.Stop)}}, nil),
			chunk([]any{}, openAIUsage(s.Usage)),
			{data: "[DONE]"},
		}
	},
	failed: func(status int, message string) any {
		kind := "invalid_request_error"
		if status >= http.StatusInternalServerError {
			kind = "server_error"
		}
		return map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": nil}}
	},
}

// askedOpenAI is a request of a program.
type askedOpenAI struct {
	Model               string         `json:"model"`
	Messages            []askedMessage `json:"messages"`
	Tools               []openAITool   `json:"tools"`
	ToolChoice          jsontext.Value `json:"tool_choice"`
	MaxTokens           int            `json:"max_tokens"`
	MaxCompletionTokens int            `json:"max_completion_tokens"`
	N                   int            `json:"n"`
	Stream              bool           `json:"stream"`
	StreamOptions       jsontext.Value `json:"stream_options"`
	// What only tunes a model.
	Temperature jsontext.Value `json:"temperature"`
	TopP        jsontext.Value `json:"top_p"`
	Seed        jsontext.Value `json:"seed"`
	Presence    jsontext.Value `json:"presence_penalty"`
	Frequency   jsontext.Value `json:"frequency_penalty"`
	Effort      jsontext.Value `json:"reasoning_effort"`
	Parallel    jsontext.Value `json:"parallel_tool_calls"`
	User        jsontext.Value `json:"user"`
}

type askedMessage struct {
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	ToolCalls  []openAICall   `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
	// Parts of the model's own messages that must be empty.
	Refusal     jsontext.Value `json:"refusal"`
	Annotations jsontext.Value `json:"annotations"`
}

func readOpenAI(_ *http.Request, body []byte) (*llm.Request, bool, error) {
	var asked askedOpenAI
	if err := strictly(body, &asked); err != nil {
		return nil, false, err
	}
	if asked.N > 1 {
		return nil, false, refused("n: the model of this agent says one thing")
	}
	r := &llm.Request{MaxTokens: max(asked.MaxTokens, asked.MaxCompletionTokens)}
	for _, t := range asked.Tools {
		if t.Type != "function" {
			return nil, false, refused("a tool of the type " + t.Type + " is not passed on: the model of this agent gets functions of the program's own")
		}
		schema := t.Function.Parameters
		if len(schema) == 0 {
			schema = jsontext.Value(`{"type":"object"}`)
		}
		r.Tools = append(r.Tools, llm.Tool{Name: t.Function.Name, Description: llm.FromProgram(t.Function.Description), Schema: schema})
	}
	if err := chooseOpenAI(r, asked.ToolChoice); err != nil {
		return nil, false, err
	}
	for _, m := range asked.Messages {
		text, err := onlyText(m.Content)
		if err != nil {
			return nil, false, err
		}
		if err := addMessage(r, &m, text); err != nil {
			return nil, false, err
		}
	}
	return r, asked.Stream, nil
}

// addMessage adds a message to a request.
func addMessage(r *llm.Request, m *askedMessage, text string) error {
	switch m.Role {
	case "system", "developer":
		if len(r.Turns) > 0 {
			return refused("a message of the role " + m.Role + " comes before all others")
		}
		if text != "" {
			r.System = append(r.System, llm.FromProgram(text))
		}
	case "user":
		turn := llm.Turn{Role: llm.User}
		say(&turn, text)
		r.Turns = append(r.Turns, turn)
	case "assistant":
		turn := llm.Turn{Role: llm.Model}
		say(&turn, text)
		for _, c := range m.ToolCalls {
			if c.Type != "function" || c.Function.Arguments == nil {
				return refused("a call of a tool that is no function is not passed on")
			}
			turn.Calls = append(turn.Calls, llm.Call{ID: c.ID, Name: c.Function.Name, Arguments: jsontext.Value(*c.Function.Arguments)})
		}
		r.Turns = append(r.Turns, turn)
	case "tool":
		if n := len(r.Turns); n == 0 || r.Turns[n-1].Role != llm.User || len(r.Turns[n-1].Results) == 0 {
			r.Turns = append(r.Turns, llm.Turn{Role: llm.User})
		}
		turn := &r.Turns[len(r.Turns)-1]
		turn.Results = append(turn.Results, toolResult(m.ToolCallID, text, false))
	default:
		return refused("role: expected system, developer, user, assistant or tool")
	}
	return nil
}

// chooseOpenAI parses which tool must be called.
func chooseOpenAI(r *llm.Request, raw jsontext.Value) (err error) {
	var word string
	var tool openAITool
	switch raw.Kind() {
	case 0, 'n':
		return nil
	case '"':
		if err = strictly(raw, &word); err == nil && word == "required" {
			r.Force, err = onlyTool(r.Tools)
		} else if word != "auto" {
			err = refused("tool_choice: expected auto, required or a function")
		}
		return err
	}
	if err = strictly(raw, &tool); err == nil {
		r.Force = tool.Function.Name
	}
	return err
}

func openAIFinish(stop llm.Stop) string {
	switch stop {
	case llm.StopCalls:
		return "tool_calls"
	case llm.StopLength:
		return "length"
	}
	return "stop"
}

// openAIText returns the text of a reply, null if it is empty.
func openAIText(r *llm.Reply) any {
	if text := textIn(r); text != "" {
		return text
	}
	return nil
}

func openAICalls(calls []llm.Call, numbered bool) []any {
	list := make([]any, 0, len(calls))
	for i, c := range calls {
		call := map[string]any{"id": c.ID, "type": "function", "function": map[string]string{"name": c.Name, "arguments": string(c.Arguments)}}
		if numbered {
			call["index"] = i
		}
		list = append(list, call)
	}
	return list
}

func openAIUsage(u llm.Usage) any {
	prompt := u.Input + u.CacheRead + u.CacheWrite
	return map[string]any{"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output, "prompt_tokens_details": map[string]int64{"cached_tokens": u.CacheRead}}
}

func openAIObject(s said, kind string, choices []any, usage any) any {
	return map[string]any{"id": s.id, "object": kind, "created": s.at.Unix(), "model": s.model, "choices": choices, "usage": usage}
}
