package simulate

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

type quarantineCase struct {
	Schema      jsontext.Value `json:"schema"`
	Untrusted   caseText       `json:"untrusted"`
	Instruction caseText       `json:"instruction"`
	Source      *caseText      `json:"source"`
	Model       []modelTurn    `json:"model"`
	MaxTurns    int            `json:"max_turns"`
}

type modelTurn struct {
	Structured    jsontext.Value `json:"structured"`
	StructuredRaw *caseText      `json:"structured_raw"`
	Text          *caseText      `json:"text"`
	ToolCall      *modelCall     `json:"tool_call"`
	ToolCalls     []modelCall    `json:"tool_calls"`
	Error         *caseText      `json:"error"`
}

type modelCall struct {
	Name string         `json:"name"`
	Args jsontext.Value `json:"args"`
}

type quarantineResult struct {
	Data          jsontext.Value `json:"data"`
	Refused       bool           `json:"refused"`
	ToolsExecuted int            `json:"tools_executed"` // there are none
	Prompt        *promptResult  `json:"prompt,omitzero"`
	Error         string         `json:"error,omitzero"`
}

type promptResult struct {
	InstructionBeforeFence bool         `json:"instruction_before_fence"`
	TwoTags                bool         `json:"two_tags"`
	Source                 guard.Source `json:"source"`
	Tools                  []string     `json:"tools"`
	Text                   string       `json:"text"`
}

func judgeQuarantine(ctx context.Context, raw jsontext.Value) (any, guard.Code) {
	var c quarantineCase
	if err := json.Unmarshal(raw, &c, caseOptions); err != nil {
		return nil, unreadableCase
	}
	options := llm.ExtractOptions{Schema: c.Schema, MaxTurns: c.MaxTurns}
	if c.Source != nil {
		options.Source = guard.Source(*c.Source)
		if !options.Source.Valid() {
			return nil, unknownSource
		}
	}
	script := &llm.Script{}
	for _, turn := range c.Model {
		script.Turns = append(script.Turns, turn.script())
	}
	instruction := llm.FromOperator(string(c.Instruction))
	data, refused, err := llm.Extract(ctx, llm.Endpoint{Provider: script, Model: "scripted"}, string(c.Untrusted), instruction, options)
	result := quarantineResult{Data: jsontext.Value("null"), Refused: refused}
	switch {
	case errors.Is(err, llm.ErrSchema):
		return nil, "schema"
	case err != nil:
		result.Error = "provider"
	case data != nil:
		result.Data = data
	}
	if len(script.Requests) > 0 {
		result.Prompt = newPromptResult(script.Requests[0])
	}
	return result, ""
}

// script returns the turn as the provider plays it.
func (t modelTurn) script() llm.ScriptTurn {
	switch {
	case t.Error != nil:
		return llm.ScriptTurn{Err: errors.New("the model failed")}
	case t.Structured != nil:
		return callsTurn(modelCall{llm.StructuredOutput, t.Structured})
	case t.StructuredRaw != nil:
		return callsTurn(modelCall{llm.StructuredOutput, jsontext.Value(*t.StructuredRaw)})
	case t.ToolCall != nil:
		return callsTurn(*t.ToolCall)
	case t.ToolCalls != nil:
		return callsTurn(t.ToolCalls...)
	case t.Text != nil:
		return llm.ScriptTurn{Reply: llm.Reply{Said: []llm.Said{llm.NewSaid(string(*t.Text))}, Stop: llm.StopEnd}}
	}
	return llm.ScriptTurn{Reply: llm.Reply{Stop: llm.StopEnd}}
}

func callsTurn(calls ...modelCall) llm.ScriptTurn {
	reply := llm.Reply{Stop: llm.StopCalls}
	for _, c := range calls {
		reply.Calls = append(reply.Calls, llm.Call{ID: c.Name, Name: c.Name, Arguments: c.Args})
	}
	return llm.ScriptTurn{Reply: reply}
}

// readableTag is what a model could read as the tag of a fence.
var readableTag = regexp.MustCompile(`(?i)<[\s\v\x{a0}\x{3000}\x{2028}\x{feff}]*/?[\s\v\x{a0}\x{3000}\x{2028}\x{feff}]*untrusted-data`)

// newPromptResult says what a request held.
func newPromptResult(r *llm.Request) *promptResult {
	result := &promptResult{Tools: []string{}}
	var text strings.Builder
	instructed := false
	add := func(part llm.Part) {
		text.WriteString(part.Text())
		text.WriteByte('\n')
		switch part := part.(type) {
		case llm.Instruction:
			instructed = true
		case llm.Data:
			result.Source = part.Source()
			result.InstructionBeforeFence = instructed
		}
	}
	for _, part := range r.System {
		add(part)
	}
	instructed = false // the instruction of the caller, not the rules
	for _, turn := range r.Turns {
		for _, part := range turn.Parts {
			add(part)
		}
	}
	for _, tool := range r.Tools {
		if tool.Name != llm.StructuredOutput {
			result.Tools = append(result.Tools, tool.Name)
		}
	}
	result.Text = text.String()
	result.TwoTags = len(readableTag.FindAllStringIndex(result.Text, -1)) == 2
	return result
}
