package wires

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// googleDialect is the wire of generateContent and, with alt=sse, streamGenerateContent.
var googleDialect = dialect{
	serves: "POST " + GoogleBase + "/v1/models/MODEL:generateContent, or :streamGenerateContent?alt=sse,",
	read:   readGoogle,
	whole:  googleSaid,
	events: func(s said) []event { return []event{{data: googleSaid(s)}} },
	failed: func(status int, message string) any {
		word := "INTERNAL"
		switch status {
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			word = "INVALID_ARGUMENT"
		case http.StatusForbidden:
			word = "PERMISSION_DENIED"
		case http.StatusNotFound:
			word = "NOT_FOUND"
		case http.StatusTooManyRequests:
			word = "RESOURCE_EXHAUSTED"
		case http.StatusServiceUnavailable:
			word = "UNAVAILABLE"
		}
		return map[string]any{"error": map[string]any{"code": status, "message": message, "status": word}}
	},
}

// askedGoogle is a request of a program.
type askedGoogle struct {
	System   askedContent   `json:"systemInstruction"`
	Contents []askedContent `json:"contents"`
	Tools    []struct {
		Functions []struct {
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Parameters  jsontext.Value `json:"parameters"` // in the words of OpenAPI
			Schema      jsontext.Value `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Generation struct {
		MaxTokens  int `json:"maxOutputTokens"`
		Candidates int `json:"candidateCount"`
		// What only tunes a model.
		Temperature jsontext.Value `json:"temperature"`
		TopP        jsontext.Value `json:"topP"`
		TopK        jsontext.Value `json:"topK"`
		Seed        jsontext.Value `json:"seed"`
		Thinking    jsontext.Value `json:"thinkingConfig"`
	} `json:"generationConfig"`
	Safety jsontext.Value `json:"safetySettings"` // is what the keeper's provider has by itself
}

type askedContent struct {
	Role  string      `json:"role"`
	Parts []askedPart `json:"parts"`
}

type askedPart struct {
	Text      string         `json:"text"`
	Thought   bool           `json:"thought"`
	Call      *askedCall     `json:"functionCall"`
	Response  *askedResponse `json:"functionResponse"`
	Signature string         `json:"thoughtSignature"` // of a model that is not ours: a call's id has the one that is
}

type askedCall struct {
	ID   string         `json:"id"`
	Name string         `json:"name"`
	Args jsontext.Value `json:"args"`
}

type askedResponse struct {
	ID       string                    `json:"id"`
	Name     string                    `json:"name"`
	Response map[string]jsontext.Value `json:"response"`
}

func readGoogle(request *http.Request, body []byte) (*llm.Request, bool, error) {
	_, method, _ := strings.Cut(request.PathValue("call"), ":")
	stream := method == "streamGenerateContent"
	if method != "generateContent" && (!stream || request.URL.Query().Get("alt") != "sse") {
		return nil, false, &refusal{http.StatusNotFound, "expected generateContent, or streamGenerateContent?alt=sse"}
	}
	var asked askedGoogle
	if err := strictly(body, &asked); err != nil {
		return nil, false, err
	}
	if asked.Generation.Candidates > 1 {
		return nil, false, refused("candidateCount: the model of this agent says one thing")
	}
	r := &llm.Request{MaxTokens: asked.Generation.MaxTokens}
	for _, p := range asked.System.Parts {
		if p.Text != "" {
			r.System = append(r.System, llm.FromProgram(p.Text))
		}
	}
	for _, tools := range asked.Tools {
		for _, f := range tools.Functions {
			schema := f.Schema
			if len(schema) == 0 {
				schema = inJSONSchema(f.Parameters)
			}
			r.Tools = append(r.Tools, llm.Tool{Name: f.Name, Description: llm.FromProgram(f.Description), Schema: schema})
		}
	}
	switch calling := asked.Config.Calling; {
	case calling.Mode == "ANY" && len(calling.Allowed) == 1:
		r.Force = calling.Allowed[0]
	case calling.Mode == "ANY" && len(calling.Allowed) == 0:
		var err error
		if r.Force, err = onlyTool(r.Tools); err != nil {
			return nil, false, err
		}
	case calling.Mode != "" && calling.Mode != "AUTO" || len(calling.Allowed) > 0:
		return nil, false, refused("functionCallingConfig: expected AUTO, or ANY of one function")
	}
	open := &openCalls{}
	for _, c := range asked.Contents {
		turn, err := open.turn(c)
		if err != nil {
			return nil, false, err
		}
		r.Turns = append(r.Turns, turn)
	}
	return r, stream, nil
}

// openCalls are calls of a model without a result yet: this wire need not name them.
type openCalls struct {
	calls  []llm.Call
	number int
}

func (o *openCalls) turn(c askedContent) (turn llm.Turn, err error) {
	switch c.Role {
	case "user", "function", "":
		turn.Role = llm.User
	case "model":
		turn.Role = llm.Model
	default:
		return turn, refused("role: expected user or model")
	}
	for _, p := range c.Parts {
		switch {
		case p.Thought:
		case p.Call != nil && turn.Role == llm.Model:
			o.number++
			call := llm.Call{ID: p.Call.ID, Name: p.Call.Name, Arguments: objectOrEmpty(p.Call.Args)}
			if call.ID == "" {
				call.ID = fmt.Sprintf("call-%d", o.number)
			}
			o.calls = append(o.calls, call)
			turn.Calls = append(turn.Calls, call)
		case p.Response != nil && turn.Role == llm.User:
			result, err := o.result(p.Response)
			if err != nil {
				return turn, err
			}
			turn.Results = append(turn.Results, result)
		case p.Call != nil || p.Response != nil:
			return turn, refused("a functionCall is of the role model, and a functionResponse of the role user")
		default:
			say(&turn, p.Text)
		}
	}
	return turn, nil
}

// result returns the result of the first open call that a response can belong to.
func (o *openCalls) result(response *askedResponse) (llm.Result, error) {
	for i, call := range o.calls {
		if response.ID != "" && response.ID != call.ID || response.ID == "" && response.Name != call.Name {
			continue
		}
		o.calls = slices.Delete(o.calls, i, i+1)
		raw, failed := response.Response["error"]
		if !failed {
			raw = response.Response["output"]
		}
		text, whole := "", len(response.Response) != 1 || raw.Kind() != '"'
		if !whole {
			whole = json.Unmarshal(raw, &text) != nil
		}
		if whole {
			encoded, err := json.Marshal(response.Response, json.Deterministic(true))
			if err != nil {
				return llm.Result{}, refused("functionResponse: expected an object")
			}
			text = string(encoded)
		}
		return toolResult(call.ID, text, failed), nil
	}
	return llm.Result{}, refused("a functionResponse is of no functionCall that came before")
}

// inJSONSchema converts a schema of OpenAPI to JSON Schema, where types are in lower
// case.
func inJSONSchema(raw jsontext.Value) jsontext.Value {
	var schema any
	if json.Unmarshal(raw, &schema) != nil || schema == nil {
		return jsontext.Value(`{"type":"object"}`)
	}
	inSmall(schema)
	encoded, err := json.Marshal(schema, json.Deterministic(true))
	if err != nil {
		return jsontext.Value(`{"type":"object"}`)
	}
	return encoded
}

func inSmall(schema any) {
	switch schema := schema.(type) {
	case map[string]any:
		if word, ok := schema["type"].(string); ok {
			schema["type"] = strings.ToLower(word)
		}
		for _, below := range schema {
			inSmall(below)
		}
	case []any:
		for _, below := range schema {
			inSmall(below)
		}
	}
}

func googleSaid(s said) any {
	parts := make([]any, 0, 1+len(s.Calls))
	if text := textIn(s.Reply); text != "" {
		parts = append(parts, map[string]string{"text": text})
	}
	for _, c := range s.Calls {
		parts = append(parts, map[string]any{"functionCall": map[string]any{"id": c.ID, "name": c.Name, "args": objectOrEmpty(c.Arguments)}})
	}
	finish := "STOP"
	if s.Stop == llm.StopLength {
		finish = "MAX_TOKENS"
	}
	prompt := s.Usage.Input + s.Usage.CacheRead + s.Usage.CacheWrite
	return map[string]any{
		"candidates":    []any{map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}, "finishReason": finish}},
		"usageMetadata": map[string]int64{"promptTokenCount": prompt, "candidatesTokenCount": s.Usage.Output, "cachedContentTokenCount": s.Usage.CacheRead, "totalTokenCount": prompt + s.Usage.Output},
		"modelVersion":  s.model, "responseId": s.id,
	}
}
