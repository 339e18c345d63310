package wires

import (
	"cmp"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// ServedBase is the path of the served wire, and the base URL for a program's library.
const ServedBase = "/openai/v1"

const servedPath = ServedBase + "/chat/completions"

// Serve serves a model to programs that use a library for Chat Completions, for any provider. The model and the token limit
// are those of the endpoint, whatever a program asks for. No key is required: the caller
// must restrict who may connect.
//
// A request is read into an [llm.Request], so that only texts and the program's own tools
// pass: nothing that makes a provider fetch, search, run or store something. Unsupported
// parts are refused by name, except those that only tune a model, such as temperature. A
// stream begins when the reply is complete.
func Serve(model llm.Endpoint) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+servedPath, func(w http.ResponseWriter, r *http.Request) { serve(w, r, model) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, &refusal{http.StatusNotFound, "only POST " + servedPath + " is served here"})
	})
	return mux
}

// refusal is why a request has no reply.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

func serve(w http.ResponseWriter, r *http.Request, model llm.Endpoint) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		fail(w, &refusal{http.StatusRequestEntityTooLarge, "the request did not come whole, or is longer than 4 MiB"})
		return
	}
	if wire.Crowded(body) {
		fail(w, refused("the request has too many members and elements: send fewer and longer texts"))
		return
	}
	asked, stream, err := readAsked(body)
	if err != nil {
		fail(w, err)
		return
	}
	asked.Model = model.Model
	if asked.MaxTokens <= 0 || model.MaxTokens > 0 && asked.MaxTokens > model.MaxTokens {
		asked.MaxTokens = model.MaxTokens
	}
	if err := asked.Check(); err != nil {
		fail(w, refused(strings.TrimPrefix(err.Error(), "llm: ")))
		return
	}
	reply, err := model.Provider.Do(r.Context(), asked)
	if err != nil {
		fail(w, err)
		return
	}
	answer := said{reply, model.Model, "bcpmesh-" + strconv.FormatInt(time.Now().UnixNano(), 36), time.Now()}
	if !stream {
		write(w, http.StatusOK, answer.whole())
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, chunk := range answer.chunks() {
		encoded, _ := json.Marshal(chunk)
		_, _ = io.WriteString(w, "data: "+string(encoded)+"\n\n") // or the program has gone
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, body) // or the program has gone
}

// fail says why there is no reply: of an error of a provider its code alone, as a cell hears it, since a replay's tells how
// much of its transcript a request has. The libraries try again what has a status of 429 or 500 and above.
func fail(w http.ResponseWriter, err error) {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		code := llm.ErrorCode(err)
		r = &refusal{cmp.Or(statuses[code], http.StatusBadGateway), llm.ErrorOf(code).Error()}
	}
	if limited, ok := errors.AsType[llm.RateLimited](err); ok && limited.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(limited.RetryAfter.Seconds()))))
	}
	kind := "invalid_request_error"
	if r.status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	write(w, r.status, map[string]any{"error": map[string]any{"message": r.message, "type": kind, "param": nil, "code": nil}})
}

// statuses are those of the errors of a provider, by their codes.
var statuses = map[string]int{
	"budget": http.StatusForbidden, "auth": http.StatusForbidden, "too_long": http.StatusBadRequest, "filtered": http.StatusBadRequest,
	"rate_limited": http.StatusTooManyRequests, "overloaded": http.StatusServiceUnavailable, "unrecorded": http.StatusServiceUnavailable,
	"timeout": http.StatusGatewayTimeout,
}

func refused(message string) error { return &refusal{http.StatusBadRequest, message} }

// strictly parses JSON without unknown members.
func strictly(body []byte, into any) error {
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	where := ""
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		where = strings.ReplaceAll(strings.TrimPrefix(string(e.JSONPointer), "/"), "/", ".")
	}
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return refused(where + " is not passed on: the model of this agent gets texts and tools of the program's own")
	case where != "":
		return refused(where + " is not of the type that is expected here")
	}
	return refused("the request is no JSON of this interface")
}

// asked is a request of a program.
type asked struct {
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
	Content    jsontext.Value `json:"content"` // a text, or a list of texts
	ToolCalls  []openAICall   `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
	// Parts of the model's own messages that must be empty.
	Refusal     jsontext.Value `json:"refusal"`
	Annotations jsontext.Value `json:"annotations"`
}

// readAsked reads a request, and reports whether its reply is to be a stream. The error is for the program.
func readAsked(body []byte) (*llm.Request, bool, error) {
	var in asked
	if err := strictly(body, &in); err != nil {
		return nil, false, err
	}
	if in.N > 1 {
		return nil, false, refused("n: the model of this agent says one thing")
	}
	r := &llm.Request{MaxTokens: max(in.MaxTokens, in.MaxCompletionTokens)}
	for _, t := range in.Tools {
		if t.Type != "function" {
			return nil, false, refused("a tool of the type " + t.Type + " is not passed on: the model of this agent gets functions of the program's own")
		}
		schema := t.Function.Parameters
		if len(schema) == 0 {
			schema = jsontext.Value(`{"type":"object"}`)
		}
		r.Tools = append(r.Tools, llm.Tool{Name: t.Function.Name, Description: llm.FromProgram(t.Function.Description), Schema: schema})
	}
	if err := choose(r, in.ToolChoice); err != nil {
		return nil, false, err
	}
	for i := range in.Messages {
		if err := addMessage(r, &in.Messages[i]); err != nil {
			return nil, false, err
		}
	}
	return r, in.Stream, nil
}

// addMessage adds a message to a request.
func addMessage(r *llm.Request, m *askedMessage) error {
	text, err := onlyText(m.Content)
	if err != nil {
		return err
	}
	var parts []llm.Part
	if text != "" {
		parts = []llm.Part{llm.FromProgram(text)}
	}
	switch m.Role {
	case "system", "developer":
		if len(r.Turns) > 0 {
			return refused("a message of the role " + m.Role + " comes before all others")
		}
		r.System = append(r.System, parts...)
	case "user":
		r.Turns = append(r.Turns, llm.Turn{Role: llm.User, Parts: parts})
	case "assistant":
		turn := llm.Turn{Role: llm.Model}
		if text != "" {
			turn.Parts = []llm.Part{llm.NewSaid(text)}
		}
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
		turn.Results = append(turn.Results, llm.Result{Call: m.ToolCallID, Parts: parts})
	default:
		return refused("role: expected system, developer, user, assistant or tool")
	}
	return nil
}

// onlyText reads content that consists of texts.
func onlyText(raw jsontext.Value) (string, error) {
	var text string
	var blocks []struct {
		Type  string         `json:"type"`
		Text  string         `json:"text"`
		Cache jsontext.Value `json:"cache_control"`
	}
	switch raw.Kind() {
	case 0, 'n':
		return "", nil
	case '"':
		err := strictly(raw, &text)
		return text, err
	}
	if err := strictly(raw, &blocks); err != nil {
		return "", err
	}
	texts := make([]string, 0, len(blocks))
	for _, b := range blocks {
		if b.Type != "text" {
			return "", refused("a block of the type " + b.Type + " is not passed on: the model of this agent gets texts")
		}
		texts = append(texts, b.Text)
	}
	return strings.Join(texts, "\n\n"), nil
}

// choose parses which tool must be called.
func choose(r *llm.Request, raw jsontext.Value) error {
	var word string
	var tool openAITool
	switch raw.Kind() {
	case 0, 'n':
		return nil
	case '"':
		switch err := strictly(raw, &word); {
		case err != nil || word == "auto":
			return err
		case word != "required":
			return refused("tool_choice: expected auto, required or a function")
		case len(r.Tools) != 1:
			return refused("the model can be told to call one tool, and not any of several: name it")
		}
		r.Force = r.Tools[0].Name
		return nil
	}
	err := strictly(raw, &tool)
	r.Force = tool.Function.Name
	return err
}

// said is a reply with additional data for the wire.
type said struct {
	*llm.Reply
	model string
	id    string
	at    time.Time
}

func (s said) whole() any {
	message := s.message(false)
	message["refusal"] = nil
	return s.object("chat.completion", []any{map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": s.finish()}}, s.usage())
}

func (s said) chunks() []any {
	const kind = "chat.completion.chunk"
	return []any{
		s.object(kind, []any{map[string]any{"index": 0, "delta": s.message(true), "finish_reason": nil}}, nil),
		s.object(kind, []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": s.finish()}}, nil),
		s.object(kind, []any{}, s.usage()),
	}
}

// message is what the model said. In a stream its calls are numbered.
func (s said) message(numbered bool) map[string]any {
	var text strings.Builder
	for _, part := range s.Said {
		text.WriteString(part.Text())
	}
	message := map[string]any{"role": "assistant", "content": text.String()}
	if text.Len() == 0 {
		message["content"] = nil
	}
	calls := make([]any, 0, len(s.Calls))
	for i, c := range s.Calls {
		call := map[string]any{"id": c.ID, "type": "function", "function": map[string]string{"name": c.Name, "arguments": string(c.Arguments)}}
		if numbered {
			call["index"] = i
		}
		calls = append(calls, call)
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return message
}

func (s said) finish() string {
	switch s.Stop {
	case llm.StopCalls:
		return "tool_calls"
	case llm.StopLength:
		return "length"
	}
	return "stop"
}

func (s said) usage() any {
	prompt := s.Usage.Input + s.Usage.CacheRead + s.Usage.CacheWrite
	return map[string]any{"prompt_tokens": prompt, "completion_tokens": s.Usage.Output, "total_tokens": prompt + s.Usage.Output, "prompt_tokens_details": map[string]int64{"cached_tokens": s.Usage.CacheRead}}
}

func (s said) object(kind string, choices []any, usage any) any {
	return map[string]any{"id": s.id, "object": kind, "created": s.at.Unix(), "model": s.model, "choices": choices, "usage": usage}
}
